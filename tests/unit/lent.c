/* SPDX-License-Identifier: ISC */
/* Lent memory: a reader copies what lies there and nothing else, the owner can neither cut it nor leave
 * holes in it, and a reader can write nothing. */
#include <fcntl.h>
#include <linux/falloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "socket/lent.h"
#include "tap.h"

#define N     100000u
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)

static struct lent *owner;
static struct lent_view *reader;

static void open_both(void)
{
	struct err e = { 0 };

	if (lent_new(N, &owner, &e) || lent_map(lent_fd(owner), &reader, &e)) {
		printf("# %s\n", e.msg);
		abort();
	}
}

static void close_both(void)
{
	lent_unmap(reader);
	lent_free(owner);
}

/* Are all of these bytes equal to this one? */
static bool all(const uint8_t *p, size_t n, uint8_t value)
{
	size_t i = 0;

	while (i < n && p[i] == value)
		i++;
	return i == n;
}

static void copies(void)
{
	static uint8_t got[N + 1], other[N];
	uint64_t offset, end;
	uint8_t *at;

	open_both();
	at = lent_bytes(owner);
	ok((uintptr_t)at % 64 == 0 && all(at, N, 0), "aligned memory of zeroes");
	memset(at, 1, N);
	ok(lent_find(owner, at, N, &offset) && lent_copy(reader, offset, got, N) && all(got, N, 1),
	    "a reader copies what the owner has written");
	memset(at + 5000, 2, 100);
	ok(lent_find(owner, at + 5000, 100, &offset) && lent_copy(reader, offset, got, 100) &&
	        all(got, 100, 2),
	    "and a part of it");
	memset(at, 3, N);
	ok(all(got, 100, 2), "a copy does not change with the memory");
	ok(!lent_find(owner, at, N + 1, &offset) && !lent_find(owner, at + N, 1, &offset) &&
	        !lent_find(owner, at, SIZE_MAX, &offset) && !lent_find(owner, other, 1, &offset) &&
	        !lent_find(NULL, at, 1, &offset),
	    "other memory is not found in it");
	lent_find(owner, at + N, 0, &end);
	memset(got, 7, sizeof got);
	ok(!lent_copy(reader, end, got, 1) && !lent_copy(reader, end - 10, got, 11) &&
	        !lent_copy(reader, 0, got, SIZE_MAX) && !lent_copy(reader, UINT64_MAX, got, 1) &&
	        !lent_copy(reader, UINT64_MAX - 3, got, 8) && !lent_copy(NULL, 0, got, 1),
	    "no offset and no length lead out of it");
	ok(all(got, sizeof got, 7) && lent_copy(reader, end, got, 0), "and nothing is copied then");
	close_both();
}

/* The owner cannot harm a reader, and a reader cannot change the memory. */
static void sealed(void)
{
	uint8_t got[4096], *at;
	void *mine;
	int fd;

	open_both();
	at = lent_bytes(owner);
	memset(at, 1, N);
	fd = lent_fd(owner);
	ok(ftruncate(fd, 0) < 0 && ftruncate(fd, 4096) < 0 && ftruncate(fd, INT64_C(1) << 40) < 0,
	    "the owner cannot change its size");
	ok(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) < 0 &&
	        madvise((void *)((uintptr_t)at & ~(uintptr_t)4095), 4096, MADV_REMOVE) < 0,
	    "nor punch holes");
	ok(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) < 0, "nor add seals");
	ok(lent_copy(reader, 64, got, sizeof got) && all(got, sizeof got, 1), "all is still there");
	mine = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	ok(write(fd, "x", 1) < 0 && mine != MAP_FAILED &&
	        mprotect(mine, 4096, PROT_READ | PROT_WRITE) < 0 &&
	        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED,
	    "a reader cannot write");
	munmap(mine, 4096);
	close_both();
}

static bool is_refused(int fd)
{
	struct lent_view *v = NULL;
	struct err e = { 0 };
	bool refused = lent_map(fd, &v, &e) == ERR_PROTO && !v;

	lent_unmap(v);
	close(fd);
	return refused;
}

/* Memory with these seals, of which only the first page has been written, or all. */
static int make_memory(int seals, bool whole)
{
	static const uint8_t x[10 * 4096] = { 'x' };
	int fd = memfd_create("other", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (ftruncate(fd, sizeof x) || pwrite(fd, x, whole ? sizeof x : 1, 0) < 1 ||
	    fcntl(fd, F_ADD_SEALS, seals))
		abort();
	return fd;
}

/* Memory of which only the first page has been written, and that has as many blocks as if all had: the
 * others lie behind its end. */
static int make_hidden_holes(void)
{
	int fd = memfd_create("hidden", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (ftruncate(fd, 10 * 4096) || pwrite(fd, "x", 1, 0) != 1 ||
	    fallocate(fd, FALLOC_FL_KEEP_SIZE, 10 * 4096, 9 * 4096) ||
	    fcntl(fd, F_ADD_SEALS, SEALS))
		abort();
	return fd;
}

static void strangers(void)
{
	struct lent_view *v = NULL;
	struct err e = { 0 };
	int fd = make_memory(SEALS, true);

	ok(!lent_map(fd, &v, &e), "sealed memory is mapped");
	lent_unmap(v);
	close(fd);
	for (int seal = 1; seal <= F_SEAL_FUTURE_WRITE; seal <<= 1)
		if (SEALS & seal)
			ok(is_refused(make_memory(SEALS & ~seal, true)),
			    "memory without seal %d is refused", seal);
	ok(is_refused(make_memory(SEALS, false)), "memory with holes is refused");
	ok(is_refused(make_hidden_holes()), "even with blocks behind its end");
	ok(is_refused(memfd_create("empty", MFD_CLOEXEC)) &&
	        is_refused(open("/dev/null", O_RDWR | O_CLOEXEC)),
	    "as are an empty memory and a descriptor of no memory");
}

/* An owner that is killed leaves the memory to its readers as it was. */
static void killed_owner(void)
{
	struct lent_view *v = NULL;
	uint8_t got[4096];
	struct err e = { 0 };
	int way[2], status, fd;
	pid_t pid;
	char path[64], c;

	if (pipe(way))
		abort();
	pid = fork();
	if (pid == 0) {
		if (lent_new(N, &owner, &e))
			_exit(1);
		memset(lent_bytes(owner), 5, N);
		dprintf(way[1], "%c", lent_fd(owner));
		pause();
	}
	if (read(way[0], &c, 1) != 1)
		abort();
	snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, c);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	ok(!lent_map(fd, &v, &e), "another process maps it: %s", e.msg);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	ok(WIFSIGNALED(status) && lent_copy(v, 64, got, sizeof got) && all(got, sizeof got, 5),
	    "and copies from it after the owner was killed");
	lent_unmap(v);
	close(fd);
	close(way[0]);
	close(way[1]);
}

int main(void)
{
	copies();
	sealed();
	strangers();
	killed_owner();
	return tap_done();
}
