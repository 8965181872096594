/* SPDX-License-Identifier: ISC */
/* Shared memory: what one end writes the other reads, in order and whole, whoever sleeps;
 * and an end that writes what it should not does no harm to the other. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/rng.h"
#include "tap.h"
#include "socket/shm.h"

static struct rng rng;

struct pair {
	struct shm *a, *b;
	int fd;
};

static void pair_open(struct pair *p)
{
	if (shm_new(&p->a, &p->fd, NULL) || shm_join(p->fd, &p->b, NULL))
		abort();
}

static void pair_close(struct pair *p)
{
	shm_free(p->a);
	shm_free(p->b);
	close(p->fd);
}

/* An entry's first word is its length (never 0), and the rest follows from it. */
static bool put(struct shm *s, uint32_t n, bool *wake)
{
	uint8_t *at = shm_reserve(s, n);

	if (!at)
		return false;
	memcpy(at, &n, sizeof n);
	memset(at + sizeof n, (int)(n * 7 % 251), n - sizeof n);
	*wake = shm_commit(s, n);
	return true;
}

static bool get(struct shm *s, uint32_t *n, bool *wake, bool *broken)
{
	size_t there;
	const uint8_t *at = shm_peek(s, &there, broken);

	if (!at)
		return false;
	memcpy(n, at, sizeof *n);
	*broken = *n > there || there % SHM_LINE;
	for (uint32_t i = sizeof *n; i < *n && !*broken; i++)
		*broken = at[i] != *n * 7 % 251;
	*wake = shm_take(s, *n);
	return true;
}

static uint32_t some_size(void)
{
	uint32_t most = rng_below(&rng, 4) ? 4096 : SHM_ENTRY;

	return 4 + (uint32_t)rng_below(&rng, most - 3);
}

/* ---- one thread ---- */

static void in_order(bool back)
{
	enum { MANY = 4000, QUEUE = 1 << 16 };
	static uint32_t queue[QUEUE];
	struct pair p;
	unsigned first = 0, last = 0, wrong = 0, full = 0;
	uint32_t n = some_size(), got;
	bool wake, broken;

	pair_open(&p);
	for (unsigned done = 0; done < MANY;) {
		unsigned burst = (unsigned)rng_below(&rng, 200);

		for (unsigned i = 0; i < burst; i++) {
			if (!put(back ? p.b : p.a, n, &wake)) {
				full++;
				break;
			}
			queue[last++ % QUEUE] = n;
			n = some_size();
		}
		burst = (unsigned)rng_below(&rng, 200);
		for (unsigned i = 0; i < burst && get(back ? p.a : p.b, &got, &wake, &broken);
		     i++, done++)
			wrong += broken || first == last || got != queue[first++ % QUEUE];
	}
	while (get(back ? p.a : p.b, &got, &wake, &broken))
		wrong += broken || got != queue[first++ % QUEUE];
	ok(wrong == 0 && first == last && !broken, "%u entries come in order and whole, %s", last,
	    back ? "back" : "there");
	ok(full > 5 && shm_is_empty(back ? p.a : p.b), "%u times there was no room", full);
	pair_close(&p);
}

static void sleepers(void)
{
	struct pair p;
	bool wake, broken;
	uint32_t n;
	unsigned k = 0;

	pair_open(&p);
	ok(put(p.a, 100, &wake) && !wake && !shm_doze(p.b),
	    "nobody sleeps: nobody is woken, nor falls asleep");
	ok(get(p.b, &n, &wake, &broken) && n == 100 && !wake && !get(p.b, &n, &wake, &broken) &&
	        !broken,
	    "it is read");
	ok(shm_doze(p.b) && put(p.a, 8, &wake) && wake && put(p.a, 8, &wake) && !wake,
	    "a sleeper is woken once");
	while (put(p.a, SHM_ENTRY, &wake))
		k++;
	ok(k >= 2, "%u of the largest fit, then there is no room", k);
	ok(get(p.b, &n, &wake, &broken) && wake && get(p.b, &n, &wake, &broken) && !wake,
	    "who waits for room is woken once");
	pair_close(&p);
}

/* ---- two threads ---- */

struct end {
	struct shm *shm;
	int mine, other; /* eventfds */
	unsigned entries, wrong;
	struct rng rng;
};

static void wait_for(int fd)
{
	struct pollfd f = { fd, POLLIN, 0 };
	uint64_t x;

	if (poll(&f, 1, 20000) != 1 || read(fd, &x, sizeof x) != sizeof x)
		abort();
}

static void ring(int fd)
{
	uint64_t one = 1;

	if (write(fd, &one, sizeof one) != sizeof one)
		abort();
}

static void *write_many(void *ctx)
{
	struct end *e = ctx;
	bool wake;

	for (unsigned i = 0; i < e->entries; i++) {
		uint32_t n = 4 +
		    (uint32_t)rng_below(&e->rng, rng_below(&e->rng, 10) ? 2000 : 300000);

		while (!put(e->shm, n, &wake))
			wait_for(e->mine);
		if (wake)
			ring(e->other);
	}
	return NULL;
}

static void *read_many(void *ctx)
{
	struct end *e = ctx;
	bool wake, broken;
	uint32_t n;

	for (unsigned i = 0; i < e->entries; i++) {
		while (!get(e->shm, &n, &wake, &broken)) {
			e->wrong += broken;
			if (shm_doze(e->shm))
				wait_for(e->mine);
		}
		e->wrong += broken;
		if (wake)
			ring(e->other);
	}
	return NULL;
}

/* Both ways at once: four threads. */
static void hammer(void)
{
	struct pair p;
	struct end end[4];
	pthread_t t[4];
	int ev[4];

	pair_open(&p);
	for (int i = 0; i < 4; i++)
		ev[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	for (int i = 0; i < 4; i++) {
		end[i] = (struct end){ .shm = i == 0 || i == 3 ? p.a : p.b,
			.mine = ev[i],
			.other = ev[i ^ 1],
			.entries = 5000 };
		rng_init(&end[i].rng, 100 + (uint64_t)i / 2);
	}
	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, i % 2 ? read_many : write_many, &end[i]);
	for (int i = 0; i < 4; i++) {
		pthread_join(t[i], NULL);
		close(ev[i]);
	}
	ok(end[1].wrong == 0 && end[3].wrong == 0,
	    "two threads a way: 5000 entries each, whole, and nobody sleeps for ever");
	pair_close(&p);
}

/* ---- an end that means harm ---- */

static void strangers(void)
{
	int fd = memfd_create("other", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct shm *s = NULL;
	struct err e = { 0 };
	struct pair p;

	pair_open(&p);
	ok(fcntl(p.fd, F_GET_SEALS) >= 0 && ftruncate(p.fd, 4096) < 0,
	    "what is shared cannot be cut");
	pair_close(&p);
	ok(shm_join(fd, &s, &e) == ERR_PROTO && !s, "what is too small is refused: %s", e.msg);
	if (ftruncate(fd, 64 << 20))
		abort();
	ok(shm_join(fd, &s, &e) == ERR_PROTO && !s,
	    "what is too large, and not sealed, is refused");
	close(fd);
	fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	ok(shm_join(fd, &s, &e) == ERR_PROTO && !s, "what is no memory is refused");
	close(fd);
}

/* All numbers of the other end at random, with what lies in the ring; read and written
 * until it is seen, or for a while (the sanitizers see where that leads). */
static void spoiled(void)
{
	unsigned seen = 0;

	for (unsigned round = 0; round < 300; round++) {
		struct pair p;
		uint64_t *numbers;
		bool wake, broken = false;
		size_t there;

		pair_open(&p);
		put(p.a, 100, &wake);
		numbers = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, p.fd, 0);
		if (numbers == MAP_FAILED)
			abort();
		/* Two ways of two lines each. */
		for (unsigned i = 0; i < 4; i++)
			numbers[i * SHM_LINE / 8] = rng_below(&rng, 2)
			    ? rng_next(&rng)
			    : rng_below(&rng, 8 << 20) / SHM_LINE * SHM_LINE;
		for (unsigned i = 0; i < 50 && !broken; i++) {
			const uint8_t *at = shm_peek(p.b, &there, &broken);
			uint8_t *room = shm_reserve(p.b, 5000);

			if (at && at[there - 1] + there > SIZE_MAX / 2)
				abort();
			if (at)
				shm_take(p.b, 64);
			if (room)
				memset(room, 1, 5000);
			if (room)
				shm_commit(p.b, 5000);
		}
		seen += broken;
		munmap(numbers, 4096);
		pair_close(&p);
	}
	ok(seen > 50, "of 300 spoiled rings %u are seen to be so, and none leads out of itself",
	    seen);
}

int main(void)
{
	rng_init(&rng, 5);
	in_order(false);
	in_order(true);
	sleepers();
	hammer();
	strangers();
	spoiled();
	return tap_done();
}
