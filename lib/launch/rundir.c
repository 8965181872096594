#include "launch/rundir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"

#define RETRIES 100

char *rundir_name_for(const char *cluster_file, const char *name)
{
	char *dir = path_dirname(cluster_file);
	char *base = mem_printf("%s.run", name);
	char *path = path_join(dir, base);

	free(dir);
	free(base);
	return path;
}

char *rundir_path(const char *dir, const char *name)
{
	return path_join(dir, name);
}

static int lock_op(int fd, int op, short type, struct flock *fl)
{
	*fl = (struct flock){ .l_type = type, .l_whence = SEEK_SET };
	return fcntl(fd, op, fl);
}

static pid_t read_pid(int fd)
{
	char text[32];
	ssize_t n = pread(fd, text, sizeof text - 1, 0);
	int64_t pid = 0;

	if (n > 0) {
		text[n] = '\0';
		text[strcspn(text, " \n")] = '\0';
		num_int(text, 1, INT32_MAX, &pid);
	}
	return (pid_t)pid;
}

enum err_code rundir_lock_owner(int lock, struct err *e)
{
	char text[32];
	int n = snprintf(text, sizeof text, "%-11d\n", (int)getpid());

	/* One length for all, so that one write replaces the old one whole. */
	if (pwrite(lock, text, (size_t)n, 0) != n)
		return err_sys(e, ERR_IO, "cannot write the lock of the run directory");
	return ERR_OK;
}

bool rundir_is_alive(const char *path, pid_t *pid)
{
	char *file = rundir_path(path, "lock");
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	struct flock fl;
	bool held = false;

	free(file);
	if (pid)
		*pid = 0;
	if (fd < 0)
		return false;
	if (lock_op(fd, F_OFD_GETLK, F_RDLCK, &fl) == 0)
		held = fl.l_type != F_UNLCK;
	if (held && pid)
		*pid = read_pid(fd);
	close(fd);
	return held;
}

static enum err_code living(const char *path, int fd, struct err *e)
{
	const char *base = path_basename(path);
	size_t n = strlen(base);

	if (n > 4 && strcmp(base + n - 4, ".run") == 0)
		n -= 4;
	return err_set(e, ERR_EXISTS, "cluster %.*s is running already (pid %d): "
	               "ps-ctl -C %s status, or ps-ctl -C %s stop", (int)n, base, (int)read_pid(fd),
	               path, path);
}

/* The lock of the directory at path.  ERR_STALE: somebody put another there
 * while we opened it. */
static enum err_code take_lock(const char *path, int *lock, struct err *e)
{
	char *file = rundir_path(path, "lock");
	int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	struct stat ours, there;
	struct flock fl;
	enum err_code rc = ERR_OK;

	if (fd < 0)
		rc = err_sys(e, errno == ENOENT ? ERR_NOTFOUND : ERR_IO, "cannot lock %s", file);
	else if (lock_op(fd, F_OFD_SETLK, F_WRLCK, &fl) != 0)
		rc = errno == EAGAIN || errno == EACCES ? living(path, fd, e) :
		     err_sys(e, ERR_IO, "cannot lock %s", file);
	else if (stat(file, &there) != 0 || fstat(fd, &ours) != 0 || ours.st_ino != there.st_ino ||
	         ours.st_dev != there.st_dev)
		rc = err_set(e, ERR_STALE, "%s was replaced meanwhile", path);
	free(file);
	if (rc != ERR_OK && fd >= 0)
		close(fd);
	else
		*lock = fd;
	return rc;
}

enum err_code rundir_lock(const char *path, int *lock, struct err *e)
{
	enum err_code rc;

	*lock = -1;
	if (access(path, F_OK) != 0)
		return err_set(e, ERR_NOTFOUND, "no such run directory \"%s\"", path);
	rc = take_lock(path, lock, e);
	if (rc == ERR_OK && (rc = rundir_lock_owner(*lock, e)) != ERR_OK) {
		close(*lock);
		*lock = -1;
	}
	return rc;
}

/* Move a finished directory out of the way, holding its lock, so that of two
 * that want to only one does. */
static enum err_code rotate(const char *path, struct err *e)
{
	int lock = -1;
	struct stat st;
	enum err_code rc = take_lock(path, &lock, e);

	if (rc != ERR_OK)
		return rc;
	rc = rundir_lock_owner(lock, e);
	for (int i = 1; rc == ERR_OK; i++) {
		char *to = mem_printf("%s.%d", path, i);
		bool free_name = lstat(to, &st) != 0 && errno == ENOENT;

		if (free_name && rename(path, to) != 0)
			rc = err_sys(e, ERR_IO, "cannot move %s to %s", path, to);
		free(to);
		if (free_name)
			break;
	}
	close(lock);
	return rc;
}

/* A locked directory under a name that nobody looks at. */
static enum err_code make_hidden(const char *path, char **hidden, int *lock, struct err *e)
{
	char *dir = path_dirname(path);
	enum err_code rc;

	*hidden = mem_printf("%s/.%s.XXXXXX", dir, path_basename(path));
	free(dir);
	if (!mkdtemp(*hidden)) {
		rc = err_sys(e, ERR_IO, "cannot make the run directory %s", path);
		free(*hidden);
		*hidden = NULL;
		return rc;
	}
	rc = rundir_lock(*hidden, lock, e);
	return rc;
}

/* rename(2) replaces no directory that has something in it, and ours all have
 * a lock file; so whoever is first wins, and the other looks again. */
enum err_code rundir_create(const char *path, int *lock, struct err *e)
{
	char *hidden = NULL;
	enum err_code rc;

	*lock = -1;
	rc = make_hidden(path, &hidden, lock, e);
	for (int i = 0; rc == ERR_OK && rename(hidden, path) != 0; i++) {
		if ((errno != EEXIST && errno != ENOTEMPTY) || i == RETRIES) {
			rc = err_sys(e, ERR_IO, "cannot make the run directory %s", path);
			break;
		}
		rc = rotate(path, e);
		if (rc == ERR_STALE || rc == ERR_NOTFOUND)
			rc = ERR_OK;
	}
	if (rc != ERR_OK && hidden)
		file_remove_tree(hidden, NULL);
	if (rc != ERR_OK && *lock >= 0) {
		close(*lock);
		*lock = -1;
	}
	free(hidden);
	return rc;
}

enum err_code rundir_socket_path(const char *path, char out[static RUNDIR_SOCKET_PATH], int *dirfd,
                                 struct err *e)
{
	char *dir;
	int n = snprintf(out, RUNDIR_SOCKET_PATH, "%s", path);

	*dirfd = -1;
	if (n < RUNDIR_SOCKET_PATH)
		return ERR_OK;
	dir = path_dirname(path);
	*dirfd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	free(dir);
	if (*dirfd < 0)
		return err_sys(e, ERR_IO, "cannot open the directory of %s", path);
	n = snprintf(out, RUNDIR_SOCKET_PATH, "/proc/self/fd/%d/%s", *dirfd, path_basename(path));
	if (n < RUNDIR_SOCKET_PATH)
		return ERR_OK;
	close(*dirfd);
	*dirfd = -1;
	return err_set(e, ERR_LIMIT, "the name of the socket %s is too long", path);
}
