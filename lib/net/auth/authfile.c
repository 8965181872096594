/* SPDX-License-Identifier: ISC */
#include "auth/authfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/file.h"

char *authfile_credential(const char *name)
{
	const char *dir = getenv("CREDENTIALS_DIRECTORY");
	char *path = dir && dir[0] == '/' && !strchr(name, '/') ? path_join(dir, name) : NULL;

	if (path && access(path, F_OK) != 0) {
		free(path);
		path = NULL;
	}
	return path;
}

static bool is_credential(const char *path)
{
	char *there = authfile_credential(path_basename(path));
	bool is = there && strcmp(there, path) == 0;

	free(there);
	return is;
}

static enum err_code report_open_failure(const char *path, struct err *e)
{
	if (errno == ELOOP)
		return err_set(e, ERR_AUTH, "%s is a symbolic link; name the file itself", path);
	if (errno == ENOENT || errno == ENOTDIR)
		return err_sys(e, ERR_NOTFOUND, "cannot open %s", path);
	if (errno == ENXIO)
		return err_set(e, ERR_AUTH, "%s is not a regular file", path);
	return err_sys(e, ERR_IO, "cannot open %s", path);
}

static enum err_code check_auth_file(const char *path, const struct stat *st, mode_t forbidden,
    size_t max, struct err *e)
{
	unsigned mode = (unsigned)(st->st_mode & 07777);

	if (!S_ISREG(st->st_mode))
		return err_set(e, ERR_AUTH, "%s is not a regular file", path);
	if (st->st_uid != geteuid() && st->st_uid != 0)
		return err_set(e, ERR_AUTH,
		    "%s belongs to user %lu, not to user %lu or root; "
		    "run: chown %lu %s",
		    path, (unsigned long)st->st_uid, (unsigned long)geteuid(),
		    (unsigned long)geteuid(), path);
	if ((st->st_mode & forbidden & 0044) != 0)
		return err_because(e, ERR_AUTH, CAUSE_FILE_MODE,
		    "%s can be read by others (mode %04o); "
		    "run: chmod 600 %s",
		    path, mode, path);
	if ((st->st_mode & forbidden) != 0)
		return err_because(e, ERR_AUTH, CAUSE_FILE_MODE,
		    "%s is open to others (mode %04o); run: chmod %s %s", path, mode,
		    forbidden & 0044 ? "600" : "go-w", path);
	if (st->st_size < 0 || (uintmax_t)st->st_size > max)
		return err_set(e, ERR_AUTH, "%s has %lld bytes, more than the %zu bytes allowed",
		    path, (long long)st->st_size, max);
	return ERR_OK;
}

enum err_code authfile_open(const char *path, mode_t forbidden, size_t max, int *out, size_t *size,
    struct err *e)
{
	struct stat st;
	enum err_code rc;
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0)
		return report_open_failure(path, e);
	if (fstat(fd, &st) != 0)
		rc = err_sys(e, ERR_IO, "cannot examine %s", path);
	else
		rc = check_auth_file(path, &st,
		    st.st_uid == 0 && is_credential(path) ? forbidden & ~(mode_t)0040 : forbidden,
		    max, e);
	if (rc != ERR_OK) {
		close(fd);
		return rc;
	}
	*size = (size_t)st.st_size;
	*out = fd;
	return ERR_OK;
}

/* The new name itself must survive a power cut, not only the contents. */
static enum err_code sync_parent_directory(const char *path, struct err *e)
{
	char *dir = path_dirname(path);
	enum err_code rc = ERR_OK;
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || fsync(fd) != 0)
		rc = err_sys(e, ERR_IO, "cannot sync directory %s", dir);
	if (fd >= 0)
		close(fd);
	free(dir);
	return rc;
}

enum err_code authfile_create(const char *path, const void *data, size_t n, struct err *e)
{
	enum err_code rc;
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0 && errno == EEXIST)
		return err_set(e, ERR_EXISTS,
		    "%s exists already and is not overwritten; "
		    "move it away first",
		    path);
	if (fd < 0)
		return err_sys(e, ERR_IO, "cannot create %s", path);
	/* A umask such as 0277 may have taken the owner's bits away. */
	if (fchmod(fd, 0600) != 0) {
		rc = err_sys(e, ERR_IO, "cannot set the mode of %s", path);
		goto fail;
	}
	rc = file_write_all(fd, data, n, e);
	if (rc != ERR_OK) {
		err_prefix(e, "%s", path);
		goto fail;
	}
	if (fsync(fd) != 0) {
		rc = err_sys(e, ERR_IO, "cannot sync %s", path);
		goto fail;
	}
	if (close(fd) != 0) {
		fd = -1;
		rc = err_sys(e, ERR_IO, "cannot close %s", path);
		goto fail;
	}
	fd = -1;
	rc = sync_parent_directory(path, e);
	if (rc != ERR_OK)
		goto fail;
	return ERR_OK;
fail:
	if (fd >= 0)
		close(fd);
	unlink(path);
	return rc;
}
