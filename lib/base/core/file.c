/* SPDX-License-Identifier: ISC */
#include "core/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/mem.h"
#include "core/num.h"

enum err_code file_write_all(int fd, const void *data, size_t n, struct err *e)
{
	const char *p = data;

	while (n) {
		ssize_t k = write(fd, p, n);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return err_sys(e, ERR_IO, "cannot write%s",
			    fd == STDOUT_FILENO ? " to standard output" : "");
		p += k;
		n -= (size_t)k;
	}
	return ERR_OK;
}

enum err_code file_read_all(int fd, void *data, size_t n, struct err *e)
{
	char *p = data;

	while (n) {
		ssize_t k = read(fd, p, n);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return err_sys(e, ERR_IO, "cannot read");
		if (k == 0)
			return err_set(e, ERR_CLOSED, "ended %zu byte%s early", n, NUM_S(n));
		p += k;
		n -= (size_t)k;
	}
	return ERR_OK;
}

/* Is the read to be tried again? The other end of a pipe, as of <(COMMAND) in a shell, may not have written
 * yet: this waits until it has, or has ended. */
static bool may_read_again(int fd)
{
	struct pollfd p = { fd, POLLIN, 0 };

	if (errno != EAGAIN)
		return errno == EINTR;
	poll(&p, 1, -1);
	return true;
}

/* O_NONBLOCK keeps open() from waiting for the other end of a FIFO. The limit is checked while
 * reading, since the size of a file in /proc is 0 and a log may grow. On an error, out has its
 * former length. */
enum err_code file_read(const char *path, size_t max, struct buf *out, struct err *e)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	size_t before = out->len;
	enum err_code rc = ERR_OK;
	struct stat st;
	ssize_t n;

	if (fd < 0)
		return err_sys(e, errno == ENOENT ? ERR_NOTFOUND : ERR_IO, "cannot open \"%s\"",
		    path);
	if (fstat(fd, &st) || S_ISDIR(st.st_mode)) {
		close(fd);
		return err_set(e, ERR_IO, "\"%s\" is not a readable file", path);
	}
	do {
		n = read(fd, buf_reserve(out, 65536), 65536);
		if (n > 0)
			buf_commit(out, (size_t)n);
	} while ((n > 0 && out->len - before <= max) || (n < 0 && may_read_again(fd)));
	if (n < 0)
		rc = err_sys(e, ERR_IO, "cannot read \"%s\"", path);
	else if (out->len - before > max)
		rc = err_set(e, ERR_LIMIT, "\"%s\" is longer than %zu bytes", path, max);
	if (rc) {
		out->len = before;
		out->data[before] = 0;
	}
	close(fd);
	return rc;
}

/* A rename is durable only after its directory was synced. Some file systems cannot sync
 * directories (EINVAL), and need not. */
static bool sync_dir(int fd)
{
	return fsync(fd) == 0 || errno == EINVAL;
}

enum err_code file_sync_dir(const char *path, struct err *e)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	enum err_code rc = ERR_OK;

	if (fd < 0)
		return err_sys(e, ERR_IO, "cannot open the directory \"%s\"", path);
	if (!sync_dir(fd))
		rc = err_sys(e, ERR_IO, "cannot sync the directory \"%s\"", path);
	close(fd);
	return rc;
}

#define TMP        ".tmp-"
#define TMP_DIGITS 16

/* Makes a temporary name that no other thread uses, and no other machine that writes to the same
 * shared directory. */
static int open_beside(const char *path, mode_t mode, char **tmp)
{
	uint64_t some;
	int fd;

	do {
		if (getrandom(&some, sizeof some, 0) != sizeof some)
			some = (uint64_t)clock_now() ^ (uint64_t)gettid() << 40;
		*tmp = mem_printf("%s" TMP "%0*" PRIx64, path, TMP_DIGITS, some);
		fd = open(*tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
		if (fd >= 0)
			return fd;
		free(*tmp);
	} while (errno == EEXIST);
	*tmp = NULL;
	return -1;
}

/* On an error nothing is left open, and file_new_close must not be called. */
enum err_code file_new_open(const char *path, mode_t mode, struct file_new *f, struct err *e)
{
	char *dir = path_dirname(path);
	enum err_code rc = ERR_OK;

	*f = (struct file_new){ .fd = -1 };
	/* Open the directory first: if that fails, nothing was changed in it. */
	f->dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (f->dirfd < 0)
		rc = err_sys(e, ERR_IO, "\"%s\": cannot open the directory \"%s\"", path, dir);
	free(dir);
	if (rc)
		return rc;
	f->fd = open_beside(path, mode, &f->tmp);
	if (f->fd < 0) {
		rc = err_sys(e, ERR_IO, "cannot create a file beside \"%s\"", path);
		close(f->dirfd);
		return rc;
	}
	f->path = mem_strdup(path);
	return ERR_OK;
}

/* The order is what makes the file atomic: its data are durable before its name appears, and the
 * name is durable before success is reported. When only the last sync fails, the new file is in
 * place, and the error says so. */
enum err_code file_new_close(struct file_new *f, enum err_code rc, struct err *e)
{
	if (!rc && !f->no_sync && fsync(f->fd))
		rc = err_sys(e, ERR_IO, "cannot sync");
	if (close(f->fd) && !rc)
		rc = err_sys(e, ERR_IO, "cannot close");
	if (!rc && f->may_appear)
		rc = f->may_appear(f->ctx, e);
	if (!rc && rename(f->tmp, f->path))
		rc = err_sys(e, ERR_IO, "cannot rename");
	if (rc)
		unlink(f->tmp);
	else if (!f->no_sync && !sync_dir(f->dirfd))
		rc = err_sys(e, ERR_IO, "replaced, but cannot sync its directory");
	if (rc)
		err_prefix(e, "\"%s\"", f->path);
	close(f->dirfd);
	free(f->path);
	free(f->tmp);
	return rc;
}

static bool is_torn(const char *name, const char *begin)
{
	size_t n = strlen(name), tail = strlen(TMP) + TMP_DIGITS;

	return n >= strlen(begin) + tail && strncmp(name, begin, strlen(begin)) == 0 &&
	    strncmp(name + n - tail, TMP, strlen(TMP)) == 0 &&
	    strspn(name + n - TMP_DIGITS, "0123456789abcdef") == TMP_DIGITS;
}

void file_remove_torn(const char *dir, const char *begin)
{
	DIR *d = opendir(dir);
	const struct dirent *entry;

	while (d && (entry = readdir(d)))
		if (is_torn(entry->d_name, begin))
			unlinkat(dirfd(d), entry->d_name, 0);
	if (d)
		closedir(d);
}

enum err_code file_replace(const char *path, const void *data, size_t n, mode_t mode, struct err *e)
{
	struct file_new f;
	enum err_code rc = file_new_open(path, mode, &f, e);

	return rc ? rc : file_new_close(&f, file_write_all(f.fd, data, n, e), e);
}

/* Errors of the parents are not looked at: if one is missing, making the last directory fails and
 * tells the reason. Parents get mode 0777 less the umask. */
enum err_code file_mkdirs(const char *path, mode_t mode, struct err *e)
{
	char *copy = mem_strdup(path);
	enum err_code rc = ERR_OK;
	size_t n = strlen(copy);

	/* "dir/" must not make dir itself with a parent's mode. */
	while (n > 1 && copy[n - 1] == '/')
		copy[--n] = 0;
	for (size_t i = 1; i < n; i++)
		if (copy[i] == '/') {
			copy[i] = 0;
			mkdir(copy, 0777);
			copy[i] = '/';
		}
	if (mkdir(copy, mode)) {
		struct stat st;

		if (errno != EEXIST || stat(copy, &st) || !S_ISDIR(st.st_mode))
			rc = err_sys(e, ERR_IO, "cannot make the directory \"%s\"", path);
	}
	free(copy);
	return rc;
}

enum err_code file_make_unique_dir(char *pattern, char **path, struct err *e)
{
	*path = mkdtemp(pattern) ? pattern : NULL;
	if (*path)
		return ERR_OK;
	err_sys(e, ERR_IO, "cannot make the directory \"%s\"", pattern);
	free(pattern);
	return ERR_IO;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path) && errno != ENOENT ? -1 : 0;
}

enum err_code file_remove_tree(const char *path, struct err *e)
{
	if (nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) && errno != ENOENT)
		return err_sys(e, ERR_IO, "cannot remove \"%s\"", path);
	return ERR_OK;
}

/* ---- names ---- */

/* "https://..." */
static bool has_scheme(const char *name)
{
	size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789");

	return n > 0 && strncmp(name + n, "://", 3) == 0;
}

char *path_join(const char *dir, const char *name)
{
	size_t n = strlen(dir);

	if (name[0] == '/' || !n || has_scheme(name))
		return mem_strdup(name);
	return mem_printf("%s%s%s", dir, dir[n - 1] == '/' ? "" : "/", name);
}

char *path_temporary(const char *what)
{
	const char *tmp = getenv("TMPDIR");

	return mem_printf("%s/pskit-%s-XXXXXX", tmp && *tmp ? tmp : "/tmp", what);
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

	/* A directory that does not exist yet has no real path. */
	if (!real && dir[0] != '/') {
		char *here = get_current_dir_name();

		real = here ? path_join(here, dir) : NULL;
		free(here);
	}
	out = path_join(real ? real : dir, path_basename(path));
	free(real);
	free(dir);
	return out;
}

char *path_of_fd(int fd)
{
	char link[40], path[PATH_MAX];
	ssize_t n;

	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof path);
	return n > 0 && (size_t)n < sizeof path ? mem_printf("%.*s", (int)n, path) : NULL;
}

char *path_self_dir(struct err *e)
{
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);

	if (n < 0) {
		err_sys(e, ERR_IO, "cannot find the path of this program: /proc/self/exe");
		return NULL;
	}
	path[n] = '\0';
	return path_dirname(path);
}
