/* SPDX-License-Identifier: ISC */
/* Published memory: a reader copies what the writer meant or learns that it has changed, whatever
 * happens meanwhile; and a reader can neither write nor cut the memory. */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "socket/published.h"
#include "tap.h"

#define N 4096u

static struct published *writer;
static struct published_view *reader;

static void open_both(void)
{
	struct err e = { 0 };

	if (published_new(&writer, &e) || published_map(published_fd(writer), &reader, &e)) {
		printf("# %s\n", e.msg);
		abort();
	}
}

static void close_both(void)
{
	published_unmap(reader);
	published_free(writer);
}

static void fill(uint8_t *at, uint8_t value)
{
	published_begin_change(writer, at);
	memset(at, value, N);
	published_end_change(writer, at);
}

/* Are all bytes equal to this one? */
static bool all(const uint8_t *p, uint8_t value)
{
	size_t i = 0;

	while (i < N && p[i] == value)
		i++;
	return i == N;
}

static void copies(void)
{
	uint8_t *a, *b, got[N];
	uint64_t state, later;
	uint32_t place;

	open_both();
	a = published_take(writer, N);
	b = published_take(writer, N);
	ok(a && b && a != b && (uintptr_t)a % 4096 == 16, "two places");
	fill(a, 1);
	fill(b, 2);
	place = published_place(writer, a, &state);
	ok(state % 2 == 0 && published_has(reader, place, N) &&
	        published_copy(reader, place, state, got, N) && all(got, 1),
	    "what was written is read");
	fill(b, 3);
	ok(published_copy(reader, place, state, got, N),
	    "a change of another place does not matter");
	published_begin_change(writer, a);
	published_place(writer, a, &later);
	ok(later % 2 && !published_copy(reader, place, state, got, N) &&
	        !published_copy(reader, place, later, got, N),
	    "nothing is read while it is changed");
	published_end_change(writer, a);
	ok(!published_copy(reader, place, state, got, N),
	    "nor by the state from before the change");
	published_place(writer, a, &state);
	published_give(writer, a);
	ok(published_take(writer, N) == a && !published_copy(reader, place, state, got, N),
	    "a place that was given back is used again, and its state is another one");
	ok(published_has(reader, place, PUBLISHED_BYTES) &&
	        !published_has(reader, place, PUBLISHED_BYTES + 1) &&
	        !published_has(reader, UINT32_MAX, 1),
	    "no number leads out of the memory");
	ok(!published_take(NULL, N) && !published_take(writer, PUBLISHED_BYTES + 1),
	    "without memory there is no place, nor for more bytes than it has");
	close_both();
}

/* ---- a writer and a reader at the same time ---- */

#define CHANGES 300u

/* The state that the reader is told, and in the low byte the value; the changes that the writer may make. */
static _Atomic uint64_t told;
static _Atomic unsigned allowed;

static void *write_many(void *ctx)
{
	uint64_t state;

	for (unsigned i = 1; i <= CHANGES; i++) {
		while (atomic_load(&allowed) < i)
			sched_yield();
		fill(ctx, (uint8_t)i);
		published_place(writer, ctx, &state);
		atomic_store(&told, state << 8 | (uint8_t)i);
	}
	return NULL;
}

/* Each change begins while a copy may be under way. */
static void race(void)
{
	unsigned good = 0, torn = 0;
	pthread_t thread;
	uint64_t state;
	uint8_t got[N];
	uint32_t place;
	uint8_t *at;

	open_both();
	at = published_take(writer, N);
	fill(at, 0);
	place = published_place(writer, at, &state);
	atomic_store(&told, state << 8);
	pthread_create(&thread, NULL, write_many, at);
	for (unsigned i = 1; i <= CHANGES; i++) {
		uint64_t now = atomic_load(&told);

		atomic_store(&allowed, i);
		if (published_copy(reader, place, now >> 8, got, N)) {
			good++;
			torn += !all(got, (uint8_t)now);
		}
		while (atomic_load(&told) == now)
			sched_yield();
	}
	pthread_join(thread, NULL);
	ok(torn == 0, "none of %u copies during %u changes was torn", good, CHANGES);
	published_place(writer, at, &state);
	ok(published_copy(reader, place, state, got, N) && all(got, (uint8_t)CHANGES),
	    "the last value is read");
	close_both();
}

/* ---- ends that mean harm, or die ---- */

static void sealed(void)
{
	int fd, again;
	char path[64];
	void *at;

	open_both();
	fd = published_fd(writer);
	ok(write(fd, "x", 1) < 0 && ftruncate(fd, 0) < 0 && ftruncate(fd, INT64_C(1) << 50) < 0,
	    "a reader can neither write nor change the size");
	ok(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) < 0,
	    "nor punch holes");
	ok(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED,
	    "nor map the memory to write there");
	at = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	ok(at != MAP_FAILED && mprotect(at, 4096, PROT_READ | PROT_WRITE) < 0,
	    "nor make its mapping writable");
	munmap(at, 4096);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	again = open(path, O_RDWR | O_CLOEXEC);
	ok(again >= 0 && write(again, "x", 1) < 0 &&
	        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0) == MAP_FAILED,
	    "nor by another descriptor");
	close(again);
	ok(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) < 0, "nor seal it against the writer");
	close_both();
}

static void strangers(void)
{
	int fd = memfd_create("other", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct published_view *v = NULL;
	struct err e = { 0 };

	if (ftruncate(fd, 266240))
		abort();
	ok(published_map(fd, &v, &e) == ERR_PROTO && !v, "memory without seals is refused: %s",
	    e.msg);
	if (ftruncate(fd, 4096) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL))
		abort();
	ok(published_map(fd, &v, &e) == ERR_PROTO && !v, "memory of another size is refused");
	close(fd);
	fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	ok(published_map(fd, &v, &e) == ERR_PROTO && !v, "what is no memory is refused");
	close(fd);
}

/* The writer is a process that stops in the middle of a change, and then dies. */
static void stopped_writer(void)
{
	uint8_t *at, got[N];
	uint64_t state;
	uint32_t place;
	int status;
	pid_t pid;

	open_both();
	at = published_take(writer, N);
	fill(at, 1);
	place = published_place(writer, at, &state);
	pid = fork();
	if (pid == 0) {
		published_begin_change(writer, at);
		memset(at, 2, N / 2);
		raise(SIGKILL);
	}
	waitpid(pid, &status, 0);
	ok(WIFSIGNALED(status) && !published_copy(reader, place, state, got, N),
	    "a writer that is killed in the middle of a change leaves nothing that is taken as whole");
	close_both();
}

int main(void)
{
	copies();
	race();
	sealed();
	strangers();
	stopped_writer();
	return tap_done();
}
