/* SPDX-License-Identifier: ISC */
/* Simulates a failing disk and a wrong clock, by LD_PRELOAD:
 *
 *   FS_ONLY=TEXT       only paths that contain this (else every file)
 *   FS_BUDGET=K        K bytes may be written in all, then ENOSPC
 *   FS_FULL=FILE       as long as FILE exists nothing can be written: ENOSPC
 *   FS_HOLD=FILE       as long as FILE exists writes wait; FILE.held appears when one waits
 *   FS_UNREADABLE=FILE as long as FILE exists nothing can be read: EIO
 *   FS_SHORT=N         a write of more than N bytes writes N
 *   FS_FSYNC_EIO=N     the Nth fsync or fdatasync (from 1) fails with EIO
 *   FS_CUT=DIR         model a power cut: keep in DIR what would be there after one
 *   FS_REPORT=FILE     at exit, append a line with the counts of calls
 *   CLOCK_AHEAD=S      the wall clock is S seconds ahead (-S: behind)
 *
 * It affects regular files and directories, in read, pread, write, pwrite, writev, posix_fallocate, fsync,
 * fdatasync and rename.  It does not affect stdio, whose writes are made inside the C library, nor
 * sockets and pipes.
 *
 * With FS_CUT, DIR gets the contents of each file as they were at its last fsync or fdatasync,
 * and the names in each directory as they were at the directory's last fsync; nothing is really
 * synced.  All processes of a cluster may share one DIR.  tests/fault/powercut builds from it the
 * tree that is left after a power cut: without data that was not synced, and without names whose
 * directory was not synced. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum call { WRITE, PWRITE, WRITEV, FALLOCATE, FSYNC, FDATASYNC, RENAME, CALLS };

static _Atomic uint64_t calls[CALLS], bytes, syncs;

ssize_t pread64(int fd, void *p, size_t n, off64_t at);
ssize_t pwrite64(int fd, const void *p, size_t n, off64_t at);
int posix_fallocate64(int fd, off64_t at, off64_t n);
/* The C library's function that ours replaces. */
#define REAL(name) ((__typeof__(&name))find_real(#name))

static void *find_real(const char *name)
{
	void *p = dlsym(RTLD_NEXT, name);

	if (!p)
		abort();
	return p;
}

/* Returns a numeric environment variable, or UINT64_MAX when it is not set. */
static uint64_t numeric_env(const char *name)
{
	const char *s = getenv(name);

	return s ? strtoull(s, NULL, 10) : UINT64_MAX;
}

static bool is_path_concerned(const char *path)
{
	const char *only = getenv("FS_ONLY");

	return !only || strstr(path, only);
}

static bool is_fd_concerned(int fd)
{
	char link[40], path[4096];
	struct stat st;
	ssize_t n;

	if (fstat(fd, &st) || !(S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)))
		return false;
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof path - 1);
	if (n < 0)
		return false;
	path[n] = 0;
	return is_path_concerned(path);
}

static uint64_t bytes_left(void)
{
	uint64_t budget = numeric_env("FS_BUDGET"), spent = atomic_load(&bytes);
	const char *full = getenv("FS_FULL");

	if (full && access(full, F_OK) == 0)
		return 0;
	return budget == UINT64_MAX ? UINT64_MAX : spent < budget ? budget - spent : 0;
}

/* FS_HOLD, a slow disk: waits until the test removes FILE. */
static void wait_while_held(void)
{
	const char *file = getenv("FS_HOLD");
	char held[4096];
	int fd;

	if (!file || access(file, F_OK) != 0)
		return;
	snprintf(held, sizeof held, "%s.held", file);
	fd = open(held, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd >= 0)
		close(fd);
	while (access(file, F_OK) == 0)
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
}

/* Returns how many of n bytes this call may write; 0 means that the disk is full. */
static size_t grant_write(enum call call, size_t n)
{
	uint64_t room, most = numeric_env("FS_SHORT");

	wait_while_held();
	room = bytes_left();
	atomic_fetch_add(&calls[call], 1);
	if (n > most && most)
		n = (size_t)most;
	if (n > room)
		n = (size_t)room;
	return n;
}

static ssize_t count_written(ssize_t n)
{
	if (n > 0)
		atomic_fetch_add(&bytes, (uint64_t)n);
	return n;
}

static ssize_t fail_full(void)
{
	errno = ENOSPC;
	return -1;
}

static bool does_read_fail(int fd)
{
	const char *file = getenv("FS_UNREADABLE");

	if (!file || access(file, F_OK) != 0 || !is_fd_concerned(fd))
		return false;
	errno = EIO;
	return true;
}

ssize_t read(int fd, void *p, size_t n)
{
	return does_read_fail(fd) ? -1 : REAL(read)(fd, p, n);
}

ssize_t pread(int fd, void *p, size_t n, off_t at)
{
	return does_read_fail(fd) ? -1 : REAL(pread)(fd, p, n, at);
}

ssize_t pread64(int fd, void *p, size_t n, off64_t at)
{
	return pread(fd, p, n, at);
}

ssize_t write(int fd, const void *p, size_t n)
{
	size_t some;

	if (!n || !is_fd_concerned(fd))
		return REAL(write)(fd, p, n);
	some = grant_write(WRITE, n);
	return some ? count_written(REAL(write)(fd, p, some)) : fail_full();
}

ssize_t pwrite(int fd, const void *p, size_t n, off_t at)
{
	size_t some;

	if (!n || !is_fd_concerned(fd))
		return REAL(pwrite)(fd, p, n, at);
	some = grant_write(PWRITE, n);
	return some ? count_written(REAL(pwrite)(fd, p, some, at)) : fail_full();
}

ssize_t pwrite64(int fd, const void *p, size_t n, off64_t at)
{
	return pwrite(fd, p, n, at);
}

/* Writes only (a part of) the first piece when not everything is granted, as writev may. */
ssize_t writev(int fd, const struct iovec *v, int count)
{
	size_t n = 0, some;
	int first = 0;

	for (int i = 0; i < count; i++)
		n += v[i].iov_len;
	if (!n || !is_fd_concerned(fd))
		return REAL(writev)(fd, v, count);
	some = grant_write(WRITEV, n);
	if (!some)
		return fail_full();
	if (some == n)
		return count_written(REAL(writev)(fd, v, count));
	while (!v[first].iov_len)
		first++;
	return count_written(
	    REAL(write)(fd, v[first].iov_base, some < v[first].iov_len ? some : v[first].iov_len));
}

int posix_fallocate(int fd, off_t at, off_t n)
{
	if (!is_fd_concerned(fd))
		return REAL(posix_fallocate)(fd, at, n);
	atomic_fetch_add(&calls[FALLOCATE], 1);
	return (uint64_t)n > bytes_left() ? ENOSPC : REAL(posix_fallocate)(fd, at, n);
}

int posix_fallocate64(int fd, off64_t at, off64_t n)
{
	return posix_fallocate(fd, at, n);
}

/* ---- a power cut ---- */

/* Makes a name for a file that no other file gets, not even a later one with the same inode
 * number. */
static bool identify_file(int fd, const char *name, char out[static 64])
{
	struct statx st;

	if (statx(fd, name, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW,
	        STATX_INO | STATX_BTIME | STATX_TYPE, &st))
		return false;
	snprintf(out, 64, "%c-%llu-%lld-%u", S_ISDIR(st.stx_mode) ? 'd' : 'f',
	    (unsigned long long)st.stx_ino, (long long)st.stx_btime.tv_sec, st.stx_btime.tv_nsec);
	return S_ISDIR(st.stx_mode) || S_ISREG(st.stx_mode);
}

static void write_really(int out, const char *data, size_t n)
{
	while (n) {
		ssize_t k = REAL(write)(out, data, n);

		if (k <= 0) {
			fputs("shim: FS_CUT cannot be written\n", stderr);
			abort();
		}
		data += k;
		n -= (size_t)k;
	}
}

static void store_contents(const char *link, int out)
{
	char block[65536];
	int in = open(link, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	while (in >= 0 && (n = read(in, block, sizeof block)) > 0)
		write_really(out, block, (size_t)n);
	if (in >= 0)
		close(in);
}

/* Stores a directory: its path, then the identity and the name of each entry, each with a NUL. */
static void store_names(const char *link, const char *path, int out)
{
	DIR *d = opendir(link);
	const struct dirent *entry;
	char id[64];

	write_really(out, path, strlen(path) + 1);
	while (d && (entry = readdir(d)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
		    identify_file(dirfd(d), entry->d_name, id)) {
			write_really(out, id, strlen(id) + 1);
			write_really(out, entry->d_name, strlen(entry->d_name) + 1);
		}
	if (d)
		closedir(d);
}

/* FS_CUT: stores what an fsync makes durable.  Returns true when it did, so that the real fsync can
 * be skipped. */
static bool store_synced(int fd)
{
	static _Atomic unsigned serial;
	const char *dir = getenv("FS_CUT");
	char id[64], link[40], path[4096], kept[4200], fresh[4300];
	ssize_t n;
	int out;

	if (!dir || !is_fd_concerned(fd) || !identify_file(fd, "", id))
		return false;
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof path - 1);
	path[n < 0 ? 0 : n] = 0;
	snprintf(kept, sizeof kept, "%s/%s", dir, id);
	snprintf(fresh, sizeof fresh, "%s.%d.%u", kept, (int)getpid(),
	    atomic_fetch_add(&serial, 1));
	out = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (out < 0)
		return false;
	if (id[0] == 'd')
		store_names(link, path, out);
	else
		store_contents(link, out);
	close(out);
	REAL(rename)(fresh, kept);
	return true;
}

static bool does_sync_fail(enum call call)
{
	atomic_fetch_add(&calls[call], 1);
	if (atomic_fetch_add(&syncs, 1) + 1 != numeric_env("FS_FSYNC_EIO"))
		return false;
	errno = EIO;
	return true;
}

int fsync(int fd)
{
	if (is_fd_concerned(fd) && does_sync_fail(FSYNC))
		return -1;
	return store_synced(fd) ? 0 : REAL(fsync)(fd);
}

int fdatasync(int fd)
{
	if (is_fd_concerned(fd) && does_sync_fail(FDATASYNC))
		return -1;
	return store_synced(fd) ? 0 : REAL(fdatasync)(fd);
}

int rename(const char *from, const char *to)
{
	if (is_path_concerned(from) || is_path_concerned(to))
		atomic_fetch_add(&calls[RENAME], 1);
	return REAL(rename)(from, to);
}

int clock_gettime(clockid_t id, struct timespec *out)
{
	const char *ahead = getenv("CLOCK_AHEAD");
	int rc = REAL(clock_gettime)(id, out);

	if (!rc && ahead && id == CLOCK_REALTIME)
		out->tv_sec += strtoll(ahead, NULL, 10);
	return rc;
}

static __attribute__((destructor)) void report(void)
{
	static const char *const name[] = { "write", "pwrite", "writev", "posix_fallocate", "fsync",
		"fdatasync", "rename" };
	const char *path = getenv("FS_REPORT");
	char line[400];
	int fd, at = 0;

	if (!path)
		return;
	for (int i = 0; i < CALLS; i++)
		at += snprintf(line + at, sizeof line - (size_t)at, "%s %llu ", name[i],
		    (unsigned long long)atomic_load(&calls[i]));
	at += snprintf(line + at, sizeof line - (size_t)at, "bytes %llu\n",
	    (unsigned long long)atomic_load(&bytes));
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	if (REAL(write)(fd, line, (size_t)at) != at)
		fputs("shim: the report is lost\n", stderr);
	close(fd);
}
