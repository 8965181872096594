#ifndef RING_FIXTURE_H
#define RING_FIXTURE_H

/* A ring of threads: each member has a key, a listener and a vector of its own. */
#include <pthread.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "ring/ring.h"
#include "tap.h"

#define CREW_MAX 8
#define SLOT(i) (3 + 2 * (uint32_t)(i))         /* slots need not be dense */

struct sailor {
	struct crew *crew;
	unsigned index;
	struct conn_identity id;
	struct ring *ring;
	struct log log;
	float *in;
	const float *mean;
	uint64_t total;
	enum err_code rc;
	struct err e;
	pthread_t thread;
	_Atomic bool cancel;
	int64_t cancel_at;              /* clock_now; 0: never */
	int64_t took;
};

struct crew {
	unsigned n;
	char dir[64];
	struct ring_member member[CREW_MAX];
	struct sailor sailor[CREW_MAX];
	size_t floats;
};

static bool cancelled(void *ctx, struct err *why)
{
	struct sailor *s = ctx;

	if (!atomic_load(&s->cancel) && !(s->cancel_at && clock_now() >= s->cancel_at))
		return false;
	err_set(why, ERR_STOPPED, "cancelled");
	return true;
}

/* Values of many sizes, so that another order of summing shows. */
static void fill_vector(struct sailor *s, size_t n, uint64_t seed)
{
	struct rng rng;

	free(s->in);
	s->in = mem_try_array(n, sizeof *s->in);
	rng_init(&rng, seed * 1000 + s->index);
	for (size_t i = 0; i < n; i++)
		s->in[i] = (float)(rng_normal(&rng) * (double)(1 << rng_below(&rng, 12)));
}

static void crew_open(struct crew *c, unsigned n, const char *transport, int64_t deadline, size_t halving, size_t slice)
{
	uint8_t psk[32] = { 1, 2, 3 };

	memset(c, 0, sizeof *c);
	c->n = n;
	snprintf(c->dir, sizeof c->dir, "/tmp/ps-ring-XXXXXX");
	if (!mkdtemp(c->dir))
		abort();
	for (unsigned i = 0; i < n; i++) {
		struct sailor *s = &c->sailor[i];
		struct ring_member *m = &c->member[i];
		struct ring_config cfg = { .id = &s->id, .slot = SLOT(i), .incarnation = 100 + i, .transport = transport,
			.local_suite = SUITE_POLY1305, .remote_suite = SUITE_CHACHA20POLY1305, .listen = "127.0.0.1:0",
			.local = m->local, .deadline = deadline, .log = &s->log, .cancelled = cancelled, .ctx = s, .cancel_fd = -1,
			.halving_bytes = halving, .slice = slice };
		struct key_pair key;

		s->crew = c;
		s->index = i;
		log_init(&s->log, "ring", 2, LOG_LEVEL_ERROR);
		key_pair_generate(&key);
		hs_identity_init(&s->id.hs, &key, psk);
		memcpy(m->key, key.pk, sizeof m->key);
		m->slot = SLOT(i);
		m->incarnation = 100 + i;
		snprintf(m->local, sizeof m->local, "%s/%u.sock", c->dir, i);
		if (ring_new(&cfg, &s->ring, &s->e))
			printf("# %s\n", s->e.msg);
		snprintf(m->tcp, sizeof m->tcp, "%s", ring_address(s->ring));
	}
}

static void crew_close(struct crew *c)
{
	for (unsigned i = 0; i < c->n; i++) {
		ring_free(c->sailor[i].ring);
		free(c->sailor[i].in);
	}
	rmdir(c->dir);
}

/* fn in a thread of each member but those in `without` (a bit each). */
static void crew_each(struct crew *c, void *(*fn)(void *sailor), unsigned without)
{
	for (unsigned i = 0; i < c->n; i++)
		if (!(without >> i & 1) && pthread_create(&c->sailor[i].thread, NULL, fn, &c->sailor[i]))
			abort();
	for (unsigned i = 0; i < c->n; i++)
		if (!(without >> i & 1))
			pthread_join(c->sailor[i].thread, NULL);
}

#endif
