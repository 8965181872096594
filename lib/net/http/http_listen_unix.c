/* SPDX-License-Identifier: ISC */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/file.h"
#include "http/listen.h"
#include "socket/unixpath.h"

#define BACKLOG 512

static int unix_socket(void)
{
	return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

/* Open and lock the socket's directory, and check that no other user may put a socket there. The
 * lock keeps two starting servers from removing each other's socket. */
static enum err_code open_dir(const char *path, int *out, struct err *e)
{
	char *dir = path_dirname(path);
	enum err_code rc = ERR_OK;
	struct stat st;
	int fd;

	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0) {
		rc = err_sys(e, ERR_CONFIG, "cannot open %s, the directory of the control socket",
		    dir);
		goto out;
	}
	if (fstat(fd, &st) != 0)
		rc = err_sys(e, ERR_IO, "cannot stat %s", dir);
	else if ((st.st_uid != geteuid() && st.st_uid != 0) || (st.st_mode & 022) != 0)
		rc = err_set(e, ERR_CONFIG,
		    "others may write to %s, so a control socket in it is "
		    "not safe: chmod 700 it, or choose a directory of your own",
		    dir);
	else if (flock(fd, LOCK_EX) != 0)
		rc = err_sys(e, ERR_IO, "cannot lock %s", dir);
	if (rc != ERR_OK)
		close(fd);
	else
		*out = fd;
out:
	free(dir);
	return rc;
}

static enum err_code remove_stale(const char *path, const struct sockaddr_un *sun, struct err *e)
{
	struct stat st;
	int fd, rc;

	if (lstat(path, &st) != 0)
		return errno == ENOENT ? ERR_OK : err_sys(e, ERR_IO, "cannot stat %s", path);
	if (!S_ISSOCK(st.st_mode))
		return err_set(e, ERR_EXISTS,
		    "%s is in the way of the control socket and is not a "
		    "socket: move it away",
		    path);
	fd = unix_socket();
	if (fd < 0)
		return err_sys(e, ERR_IO, "cannot make a socket for %s", path);
	rc = connect(fd, (const struct sockaddr *)sun, sizeof(*sun)) == 0 ? 0 : errno;
	close(fd);
	if (rc != ECONNREFUSED && rc != ENOENT)
		return err_set(e, ERR_EXISTS,
		    "another process is answering on %s: stop it first, or "
		    "use another run directory",
		    path);
	if (unlink(path) != 0 && errno != ENOENT)
		return err_sys(e, ERR_IO, "cannot remove the stale socket %s", path);
	return ERR_OK;
}

/* Nobody can connect between bind and listen, so it is early enough to set the mode there. */
static enum err_code bind_here(const struct sockaddr_un *sun, struct http_bound *b, struct err *e)
{
	const char *path = b->text;
	struct stat st;
	int fd = unix_socket();

	if (fd < 0)
		return err_sys(e, ERR_IO, "cannot make a socket for %s", path);
	if (bind(fd, (const struct sockaddr *)sun, sizeof(*sun)) != 0) {
		err_sys(e, ERR_IO, "cannot bind the control socket %s", path);
		goto err0;
	}
	if (chmod(path, 0600) != 0 || lstat(path, &st) != 0 || listen(fd, BACKLOG) != 0) {
		err_sys(e, ERR_IO, "cannot listen on the control socket %s", path);
		goto err1;
	}
	b->fd = fd;
	b->dev = st.st_dev;
	b->ino = st.st_ino;
	return ERR_OK;
err1:
	unlink(path);
err0:
	close(fd);
	return ERR_IO;
}

enum err_code http_listen_unix(const char *path, struct http_bound *b, struct err *e)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int lock = -1, dirfd = -1;
	enum err_code rc;

	memset(b, 0, sizeof(*b));
	b->fd = -1;
	b->local = true;
	if (strlen(path) >= sizeof(b->text))
		return err_set(e, ERR_CONFIG,
		    "the path of the control socket is longer than %zu "
		    "characters: %s",
		    sizeof(b->text) - 1, path);
	snprintf(b->text, sizeof(b->text), "%s", path);
	rc = open_dir(path, &lock, e);
	if (rc != ERR_OK)
		return rc;
	rc = unixpath_open(path, sun.sun_path, &dirfd, e);
	if (rc == ERR_OK)
		rc = remove_stale(path, &sun, e);
	if (rc == ERR_OK)
		rc = bind_here(&sun, b, e);
	if (dirfd >= 0)
		close(dirfd);
	close(lock);
	return rc;
}

void http_listen_remove(const struct http_bound *b)
{
	struct stat st;

	if (b->local && lstat(b->text, &st) == 0 && st.st_dev == b->dev && st.st_ino == b->ino)
		unlink(b->text);
}
