#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

enum err_code fd_write_all(int fd, const void *data, size_t n, struct err *e)
{
	const char *p = data;

	while (n) {
		ssize_t k = write(fd, p, n);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return err_sys(e, ERR_IO, "cannot write");
		p += k;
		n -= (size_t)k;
	}
	return ERR_OK;
}

enum err_code fd_read_all(int fd, void *data, size_t n, struct err *e)
{
	char *p = data;

	while (n) {
		ssize_t k = read(fd, p, n);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return err_sys(e, ERR_IO, "cannot read");
		if (k == 0)
			return err_set(e, ERR_CLOSED, "ended %zu bytes early", n);
		p += k;
		n -= (size_t)k;
	}
	return ERR_OK;
}

enum err_code file_read(const char *path, size_t max, struct buf *out, struct err *e)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	size_t before = out->len;
	struct stat st;
	ssize_t n;

	if (fd < 0)
		return err_sys(e, errno == ENOENT ? ERR_NOTFOUND : ERR_IO, "cannot open \"%s\"", path);
	if (fstat(fd, &st) || S_ISDIR(st.st_mode)) {
		close(fd);
		return err_set(e, ERR_IO, "\"%s\" is not a file that can be read", path);
	}
	do {
		n = read(fd, buf_reserve(out, 65536), 65536);
		if (n > 0)
			buf_commit(out, (size_t)n);
	} while (n > 0 && out->len - before <= max);
	if (n < 0)
		err_sys(e, ERR_IO, "cannot read \"%s\"", path);
	else if (out->len - before > max)
		err_set(e, ERR_LIMIT, "\"%s\" is longer than %zu bytes", path, max);
	close(fd);
	return n < 0 ? ERR_IO : out->len - before > max ? ERR_LIMIT : ERR_OK;
}

/* The name of a rename lasts only when its directory has been synced. */
static enum err_code sync_dir(const char *path, struct err *e)
{
	char *dir = path_dirname(path);
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	enum err_code rc = ERR_OK;

	if (fd < 0 || fsync(fd))
		rc = err_sys(e, ERR_IO, "cannot sync \"%s\"", dir);
	if (fd >= 0)
		close(fd);
	free(dir);
	return rc;
}

enum err_code file_replace(const char *path, const void *data, size_t n, mode_t mode, struct err *e)
{
	char *tmp = mem_printf("%s.tmp-%d", path, (int)getpid());
	enum err_code rc = ERR_OK;
	int fd;

	unlink(tmp);
	fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
	if (fd < 0) {
		rc = err_sys(e, ERR_IO, "cannot create \"%s\"", tmp);
		free(tmp);
		return rc;
	}
	rc = fd_write_all(fd, data, n, e);
	if (!rc && fsync(fd))
		rc = err_sys(e, ERR_IO, "cannot sync");
	if (close(fd) && !rc)
		rc = err_sys(e, ERR_IO, "cannot close");
	if (!rc && rename(tmp, path))
		rc = err_sys(e, ERR_IO, "cannot rename");
	if (rc) {
		unlink(tmp);
		err_prefix(e, "\"%s\"", path);
	} else {
		rc = sync_dir(path, e);
	}
	free(tmp);
	return rc;
}

enum err_code file_mkdirs(const char *path, mode_t mode, struct err *e)
{
	char *copy = mem_strdup(path);
	enum err_code rc = ERR_OK;

	for (char *p = copy + 1; *p; p++)
		if (*p == '/') {
			*p = 0;
			mkdir(copy, 0777);
			*p = '/';
		}
	if (mkdir(copy, mode)) {
		struct stat st;

		if (errno != EEXIST || stat(copy, &st) || !S_ISDIR(st.st_mode))
			rc = err_sys(e, ERR_IO, "cannot make the directory \"%s\"", path);
	}
	free(copy);
	return rc;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

enum err_code file_remove_tree(const char *path, struct err *e)
{
	if (nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) && errno != ENOENT)
		return err_sys(e, ERR_IO, "cannot remove \"%s\"", path);
	return ERR_OK;
}

/* ---- names --------------------------------------------------------------------- */

char *path_join(const char *dir, const char *name)
{
	size_t n = strlen(dir);

	if (name[0] == '/' || !n)
		return mem_strdup(name);
	return mem_printf("%s%s%s", dir, dir[n - 1] == '/' ? "" : "/", name);
}

char *path_dirname(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!slash)
		return mem_strdup(".");
	if (slash == path)
		return mem_strdup("/");
	return mem_printf("%.*s", (int)(slash - path), path);
}

const char *path_basename(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

char *path_stem(const char *path)
{
	const char *base = path_basename(path), *dot = strrchr(base, '.');

	if (!dot || dot == base)
		return mem_strdup(base);
	return mem_printf("%.*s", (int)(dot - base), base);
}

char *path_absolute(const char *path)
{
	char *dir = path_dirname(path), *real = realpath(dir, NULL), *out;

	out = path_join(real ? real : dir, path_basename(path));
	free(real);
	free(dir);
	return out;
}
