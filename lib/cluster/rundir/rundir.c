/* SPDX-License-Identifier: ISC */
#include "rundir/rundir.h"

#include <sys/inotify.h>
#include <limits.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/boot.h"
#include "core/buf.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/num.h"
#include "rundir/old_runs.h"

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

char *rundir_cluster_file(const char *dir)
{
	size_t n = strlen(dir);
	char *file = n > 4 && strcmp(dir + n - 4, ".run") == 0
	    ? mem_printf("%.*s", (int)(n - 4), dir)
	    : NULL;
	char *json = file ? mem_printf("%s.json", file) : NULL;

	if (json && access(json, F_OK) != 0) {
		free(file);
		file = NULL;
	}
	free(json);
	return file;
}

char *rundir_path(const char *dir, const char *name)
{
	return path_join(dir, name);
}

static int apply_lock_op(int fd, int op, short type, struct flock *fl)
{
	*fl = (struct flock){ .l_type = type, .l_whence = SEEK_SET };
	return fcntl(fd, op, fl);
}

static pid_t read_lock_pid(int fd)
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

/* The lock file has four lines of fixed length: the process id, the process that cannot be
 * started, ENDING when the supervisor ends the processes, and where the process id holds. */
#define PID_LINE    12
#define RETRY_LINE  512
#define ENDING_LINE 8
#define BOOT_LINE   (2 * BOOT_TEXT)
#define ENDING_AT   (PID_LINE + RETRY_LINE)
#define BOOT_AT     (ENDING_AT + ENDING_LINE)
#define ENDING      "ending"

static void describe_boot(char out[static BOOT_LINE])
{
	char boot[BOOT_TEXT], namespace[BOOT_TEXT];

	boot_id(boot);
	boot_pid_namespace(namespace);
	snprintf(out, BOOT_LINE, "%s %s", boot, namespace);
}

/* Does the process id hold here? A lock of version 0.1.0 does not say where it holds. */
static bool is_locked_here(int fd)
{
	char text[BOOT_LINE], here[BOOT_LINE];
	ssize_t n = pread(fd, text, BOOT_LINE, BOOT_AT);

	describe_boot(here);
	while (n > 0 && (text[n - 1] == ' ' || text[n - 1] == '\n'))
		n--;
	return n <= 0 || ((size_t)n == strlen(here) && memcmp(text, here, (size_t)n) == 0);
}

/* Writes a line of exactly n bytes, padded with spaces, which replaces the old line. If the file
 * system takes a part of it, the rest follows. */
static enum err_code write_lock_line(int lock, const char *text, size_t n, off_t at, struct err *e)
{
	char line[RETRY_LINE + 1];

	snprintf(line, sizeof line, "%-*.*s\n", (int)n - 1, (int)n - 1, text);
	for (size_t done = 0; done < n;) {
		ssize_t put = pwrite(lock, line + done, n - done, at + (off_t)done);

		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return err_sys(e, ERR_IO, "cannot write the lock of the run directory");
		done += (size_t)put;
	}
	return ERR_OK;
}

enum err_code rundir_lock_owner(int lock, struct err *e)
{
	char text[16], boot[BOOT_LINE];
	enum err_code rc;

	describe_boot(boot);
	snprintf(text, sizeof text, "%d", (int)getpid());
	rc = write_lock_line(lock, boot, BOOT_LINE, BOOT_AT, e);
	if (rc == ERR_OK)
		rc = write_lock_line(lock, text, PID_LINE, 0, e);
	if (rc == ERR_OK)
		rc = write_lock_line(lock, "", RETRY_LINE, PID_LINE, e);
	return rc == ERR_OK ? write_lock_line(lock, "", ENDING_LINE, ENDING_AT, e) : rc;
}

/* Replace one line of a living cluster's lock file. */
static enum err_code replace_lock_line(const char *path, const char *text, size_t n, off_t at,
    struct err *e)
{
	char *file = rundir_path(path, "lock");
	int fd = open(file, O_WRONLY | O_CLOEXEC);
	enum err_code rc = fd < 0 ? err_sys(e, ERR_IO, "cannot write %s", file)
	                          : write_lock_line(fd, text, n, at, e);

	if (fd >= 0)
		close(fd);
	free(file);
	return rc;
}

/* Read the line at `at` of a lock file without the spaces that fill it; "" when there is none. */
static void read_lock_line(const char *path, size_t n, off_t at, char text[static RETRY_LINE + 1])
{
	char *file = rundir_path(path, "lock");
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? 0 : pread(fd, text, n, at);

	if (fd >= 0)
		close(fd);
	free(file);
	while (len > 0 && (text[len - 1] == ' ' || text[len - 1] == '\n'))
		len--;
	text[len > 0 ? len : 0] = '\0';
}

enum err_code rundir_write_retry(const char *path, const struct rundir_retry *retry, struct err *e)
{
	char text[RETRY_LINE] = "";

	if (retry->id[0])
		snprintf(text, sizeof text, "%s %lld %u %s", retry->id, (long long)retry->since,
		    retry->tries, retry->error);
	text[strcspn(text, "\n")] = '\0';
	return replace_lock_line(path, text, RETRY_LINE, PID_LINE, e);
}

bool rundir_read_retry(const char *path, struct rundir_retry *out)
{
	char text[RETRY_LINE + 1];
	int error = 0;
	long long since;

	read_lock_line(path, RETRY_LINE, PID_LINE, text);
	*out = (struct rundir_retry){ 0 };
	if (sscanf(text, "%47s %lld %u %n", out->id, &since, &out->tries, &error) != 3 || !error ||
	    !rundir_is_alive(path, NULL)) {
		*out = (struct rundir_retry){ 0 };
		return false;
	}
	out->since = since;
	snprintf(out->error, sizeof out->error, "%s", text + error);
	return true;
}

enum err_code rundir_write_ending(const char *path, struct err *e)
{
	return replace_lock_line(path, ENDING, ENDING_LINE, ENDING_AT, e);
}

bool rundir_is_serving(const char *path)
{
	char text[RETRY_LINE + 1];

	read_lock_line(path, ENDING_LINE, ENDING_AT, text);
	return strcmp(text, ENDING) != 0 && rundir_is_alive(path, NULL);
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
	if (apply_lock_op(fd, F_OFD_GETLK, F_RDLCK, &fl) == 0)
		held = fl.l_type != F_UNLCK;
	if (held && pid && is_locked_here(fd))
		*pid = read_lock_pid(fd);
	close(fd);
	return held;
}

/* ERR_EXISTS, with the process id and the commands that help. */
static enum err_code set_already_running(const char *path, int fd, struct err *e)
{
	const char *base = path_basename(path);
	size_t n = strlen(base);

	if (n > 4 && strcmp(base + n - 4, ".run") == 0)
		n -= 4;
	return err_set(e, ERR_EXISTS,
	    "cluster %.*s is already running (pid %d): ps-ctl -C %s status, or ps-ctl -C %s stop",
	    (int)n, base, (int)read_lock_pid(fd), path, path);
}

/* Take the lock of the directory at path. ERR_STALE: another directory was put there while we
 * opened it. */
static enum err_code lock_directory(const char *path, int *lock, struct err *e)
{
	char *file = rundir_path(path, "lock");
	int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	struct stat ours, there;
	struct flock fl;
	enum err_code rc = ERR_OK;

	if (fd < 0)
		rc = err_sys(e, errno == ENOENT ? ERR_NOTFOUND : ERR_IO, "cannot lock %s", file);
	else if (apply_lock_op(fd, F_OFD_SETLK, F_WRLCK, &fl) != 0)
		rc = errno == EAGAIN || errno == EACCES
		    ? set_already_running(path, fd, e)
		    : err_sys(e, ERR_IO, "cannot lock %s", file);
	else if (stat(file, &there) != 0 || fstat(fd, &ours) != 0 || ours.st_ino != there.st_ino ||
	    ours.st_dev != there.st_dev)
		rc = err_set(e, ERR_STALE, "%s was replaced", path);
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
	rc = lock_directory(path, lock, e);
	if (rc == ERR_OK && (rc = rundir_lock_owner(*lock, e)) != ERR_OK) {
		close(*lock);
		*lock = -1;
	}
	return rc;
}

/* The number for the next earlier run, above those that are there, so that numbers follow time. */
static int64_t next_number(const char *path)
{
	int64_t *number, next;
	size_t n = old_runs_list(path, &number);

	next = n ? number[n - 1] + 1 : 1;
	free(number);
	return next;
}

/* Rename a directory whose cluster has ended to PATH.N. It is locked meanwhile, so that of two
 * processes that want to rename it only one does. */
static enum err_code move_ended_run(const char *path, struct err *e)
{
	int lock = -1;
	struct stat st;
	enum err_code rc = lock_directory(path, &lock, e);

	if (rc != ERR_OK)
		return rc;
	rc = rundir_lock_owner(lock, e);
	for (int64_t i = next_number(path); rc == ERR_OK; i++) {
		char *to = mem_printf("%s.%lld", path, (long long)i);
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

/* Make a locked directory under a hidden name beside `path`. */
static enum err_code make_hidden_run(const char *path, char **hidden, int *lock, struct err *e)
{
	char *dir = path_dirname(path);
	enum err_code rc;

	rc = file_make_unique_dir(mem_printf("%s/.%s.XXXXXX", dir, path_basename(path)), hidden, e);
	free(dir);
	return rc ? rc : rundir_lock(*hidden, lock, e);
}

/* rename(2) does not replace a directory that is not empty, and every run directory has a lock
 * file. So of two processes the first one wins, and the other one tries again. */
enum err_code rundir_create(const char *path, int *lock, struct err *e)
{
	char *hidden = NULL;
	enum err_code rc;

	*lock = -1;
	rc = make_hidden_run(path, &hidden, lock, e);
	for (int i = 0; rc == ERR_OK && rename(hidden, path) != 0; i++) {
		if ((errno != EEXIST && errno != ENOTEMPTY) || i == RETRIES) {
			rc = err_sys(e, ERR_IO, "cannot make the run directory %s", path);
			break;
		}
		rc = move_ended_run(path, e);
		if (rc == ERR_STALE || rc == ERR_NOTFOUND)
			rc = ERR_OK;
	}
	if (rc != ERR_OK && hidden)
		file_remove_tree(hidden, NULL);
	/* Make the new name durable too: without it the contents would be lost. */
	if (rc == ERR_OK) {
		char *parent = path_dirname(path);

		rc = file_sync_dir(parent, e);
		free(parent);
	}
	if (rc != ERR_OK && *lock >= 0) {
		close(*lock);
		*lock = -1;
	}
	free(hidden);
	return rc;
}

pid_t rundir_read_pid(const char *dir, const char *id)
{
	char *path = mem_printf("%s/%s.pid", dir, id);
	struct buf text = BUF_INIT;
	int64_t pid = 0;

	if (file_read(path, 64, &text, NULL) == ERR_OK && text.len > 0) {
		char *s = (char *)text.data;

		s[strcspn(s, " \n")] = '\0';
		num_int(s, 1, INT32_MAX, &pid);
	}
	buf_release(&text);
	free(path);
	return (pid_t)pid;
}

bool rundir_is_supervised(const char *dir)
{
	char path[40];
	struct buf name = BUF_INIT;
	bool is = false;
	pid_t owner;

	if (!rundir_is_alive(dir, &owner) || owner <= 0)
		return false;
	snprintf(path, sizeof path, "/proc/%d/comm", (int)owner);
	if (file_read(path, 64, &name, NULL) == ERR_OK && name.len > 0)
		is = strcmp((char *)name.data, "ps-ctl\n") == 0;
	buf_release(&name);
	return is;
}

/* ---- watch ---- */

/* The descriptor of the directory lets us find the lock file under any name that the directory
 * may get: only a directory that is removed has it no longer. */
enum err_code rundir_watch_open(const char *path, struct rundir_watch *w, struct err *e)
{
	*w = (struct rundir_watch){ -1, -1 };
	w->dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (w->dir < 0)
		return err_sys(e, ERR_IO, "cannot open %s", path);
	w->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (w->fd < 0 || inotify_add_watch(w->fd, path, IN_DELETE) < 0) {
		err_sys(e, ERR_IO, "cannot watch %s for its removal", path);
		rundir_watch_close(w);
		return e->code;
	}
	return ERR_OK;
}

bool rundir_watch_gone(struct rundir_watch *w)
{
	char events[8 * (sizeof(struct inotify_event) + NAME_MAX + 1)];
	struct stat lock;

	if (w->fd < 0)
		return false;
	while (read(w->fd, events, sizeof events) > 0)
		;
	return fstatat(w->dir, "lock", &lock, AT_SYMLINK_NOFOLLOW) != 0;
}

void rundir_watch_close(struct rundir_watch *w)
{
	if (w->dir >= 0)
		close(w->dir);
	if (w->fd >= 0)
		close(w->fd);
	*w = (struct rundir_watch){ -1, -1 };
}
