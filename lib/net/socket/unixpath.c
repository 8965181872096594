/* SPDX-License-Identifier: ISC */
#include "socket/unixpath.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/file.h"

enum err_code unixpath_open(const char *path, char name[static UNIXPATH_MAX], int *dirfd,
    struct err *e)
{
	char *dir;
	int fd, n;

	*dirfd = -1;
	if (path[0] != '\0' && strlen(path) < UNIXPATH_MAX) {
		snprintf(name, UNIXPATH_MAX, "%s", path);
		return ERR_OK;
	}
	if (path_basename(path)[0] == '\0')
		return err_set(e, ERR_CONFIG, "\"%s\" names no socket file", path);
	dir = path_dirname(path);
	fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	free(dir);
	if (fd < 0)
		return err_sys(e, errno == ENOENT ? ERR_NOTFOUND : ERR_IO,
		    "cannot open the directory of %s", path);
	n = snprintf(name, UNIXPATH_MAX, "/proc/self/fd/%d/%s", fd, path_basename(path));
	if (n < 0 || n >= UNIXPATH_MAX) {
		close(fd);
		return err_set(e, ERR_CONFIG,
		    "the name of the socket %s is too long: give it at "
		    "most 80 characters",
		    path);
	}
	*dirfd = fd;
	return ERR_OK;
}
