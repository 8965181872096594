/* A disk that fails, and a clock that is off, for LD_PRELOAD:
 *
 *   FS_ONLY=TEXT       only paths that contain this (else every file)
 *   FS_BUDGET=K        K bytes may be written in all, then ENOSPC
 *   FS_SHORT=N         a write of more than N bytes writes N
 *   FS_FSYNC_EIO=N     the Nth fsync or fdatasync (from 1) fails with EIO
 *   FS_REPORT=FILE     at the end, the counts of calls, a line appended
 *   CLOCK_AHEAD=S      the wall clock is S seconds ahead (-S: behind)
 *
 * It sees regular files and directories, through write, pwrite, writev,
 * posix_fallocate, fsync, fdatasync and rename; not stdio, whose writes the C
 * library makes inside of itself, and not sockets or pipes. */
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

ssize_t pwrite64(int fd, const void *p, size_t n, off64_t at);
int posix_fallocate64(int fd, off64_t at, off64_t n);

/* The C library's function behind ours. */
#define REAL(name) ((__typeof__(&name))real(#name))

static void *real(const char *name)
{
	void *p = dlsym(RTLD_NEXT, name);

	if (!p)
		abort();
	return p;
}

/* UINT64_MAX when it is not set. */
static uint64_t number(const char *name)
{
	const char *s = getenv(name);

	return s ? strtoull(s, NULL, 10) : UINT64_MAX;
}

static bool path_concerned(const char *path)
{
	const char *only = getenv("FS_ONLY");

	return !only || strstr(path, only);
}

static bool concerned(int fd)
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
	return path_concerned(path);
}

static uint64_t left(void)
{
	uint64_t budget = number("FS_BUDGET"), spent = atomic_load(&bytes);

	return budget == UINT64_MAX ? UINT64_MAX : spent < budget ? budget - spent : 0;
}

/* How many of n bytes this write may write; 0: the disk is full. */
static size_t grant(enum call call, size_t n)
{
	uint64_t room = left(), most = number("FS_SHORT");

	atomic_fetch_add(&calls[call], 1);
	if (n > most && most)
		n = (size_t)most;
	if (n > room)
		n = (size_t)room;
	return n;
}

static ssize_t spent(ssize_t n)
{
	if (n > 0)
		atomic_fetch_add(&bytes, (uint64_t)n);
	return n;
}

static ssize_t full(void)
{
	errno = ENOSPC;
	return -1;
}

ssize_t write(int fd, const void *p, size_t n)
{
	size_t some;

	if (!n || !concerned(fd))
		return REAL(write)(fd, p, n);
	some = grant(WRITE, n);
	return some ? spent(REAL(write)(fd, p, some)) : full();
}

ssize_t pwrite(int fd, const void *p, size_t n, off_t at)
{
	size_t some;

	if (!n || !concerned(fd))
		return REAL(pwrite)(fd, p, n, at);
	some = grant(PWRITE, n);
	return some ? spent(REAL(pwrite)(fd, p, some, at)) : full();
}

ssize_t pwrite64(int fd, const void *p, size_t n, off64_t at)
{
	return pwrite(fd, p, n, at);
}

/* As writev may, it writes less than all of it: here the first piece alone
 * when not everything is granted. */
ssize_t writev(int fd, const struct iovec *v, int count)
{
	size_t n = 0, some;
	int first = 0;

	for (int i = 0; i < count; i++)
		n += v[i].iov_len;
	if (!n || !concerned(fd))
		return REAL(writev)(fd, v, count);
	some = grant(WRITEV, n);
	if (!some)
		return full();
	if (some == n)
		return spent(REAL(writev)(fd, v, count));
	while (!v[first].iov_len)
		first++;
	return spent(REAL(write)(fd, v[first].iov_base, some < v[first].iov_len ? some : v[first].iov_len));
}

int posix_fallocate(int fd, off_t at, off_t n)
{
	if (!concerned(fd))
		return REAL(posix_fallocate)(fd, at, n);
	atomic_fetch_add(&calls[FALLOCATE], 1);
	return (uint64_t)n > left() ? ENOSPC : REAL(posix_fallocate)(fd, at, n);
}

int posix_fallocate64(int fd, off64_t at, off64_t n)
{
	return posix_fallocate(fd, at, n);
}

static bool sync_fails(enum call call)
{
	atomic_fetch_add(&calls[call], 1);
	if (atomic_fetch_add(&syncs, 1) + 1 != number("FS_FSYNC_EIO"))
		return false;
	errno = EIO;
	return true;
}

int fsync(int fd)
{
	return concerned(fd) && sync_fails(FSYNC) ? -1 : REAL(fsync)(fd);
}

int fdatasync(int fd)
{
	return concerned(fd) && sync_fails(FDATASYNC) ? -1 : REAL(fdatasync)(fd);
}

int rename(const char *from, const char *to)
{
	if (path_concerned(from) || path_concerned(to))
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
	static const char *const name[] = { "write", "pwrite", "writev", "posix_fallocate", "fsync", "fdatasync", "rename" };
	const char *path = getenv("FS_REPORT");
	char line[400];
	int fd, at = 0;

	if (!path)
		return;
	for (int i = 0; i < CALLS; i++)
		at += snprintf(line + at, sizeof line - (size_t)at, "%s %llu ", name[i],
		    (unsigned long long)atomic_load(&calls[i]));
	at += snprintf(line + at, sizeof line - (size_t)at, "bytes %llu\n", (unsigned long long)atomic_load(&bytes));
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	if (REAL(write)(fd, line, (size_t)at) != at)
		fputs("shim: the report is lost\n", stderr);
	close(fd);
}
