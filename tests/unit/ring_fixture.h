/* SPDX-License-Identifier: ISC */
#ifndef RING_FIXTURE_H
#define RING_FIXTURE_H

/* A ring of threads: each member has a key, a listener and a vector of its own. */
#include <math.h>
#include <pthread.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/mem.h"
#include "core/rng.h"
#include "allreduce/ring.h"
#include "tap.h"

#define CREW_MAX 8
#define RANK(i)  (3 + 2 * (uint32_t)(i)) /* ranks need not be dense */

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
	int64_t cancel_at; /* clock_now; 0: never */
	int64_t took;
};

struct crew {
	unsigned n;
	char dir[64];
	struct ring_member member[CREW_MAX];
	struct sailor sailor[CREW_MAX];
	size_t floats;
};

static bool attend(void *ctx, struct err *why)
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

static void crew_open(struct crew *c, unsigned n, const char *transport, int64_t deadline,
    size_t halving, size_t slice)
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
		struct ring_config cfg = { .id = &s->id,
			.rank = RANK(i),
			.incarnation = 100 + i,
			.transport = transport_find(transport),
			.local_suite = SUITE_POLY1305,
			.remote_suite = SUITE_CHACHA20POLY1305,
			.listen = "127.0.0.1:0",
			.local = m->local,
			.deadline = deadline,
			.log = &s->log,
			.attend = attend,
			.ctx = s,
			.attend_fd = -1,
			.halving_bytes = halving,
			.slice = slice };
		struct key_pair key;

		s->crew = c;
		s->index = i;
		log_init(&s->log, "ring", 2, LOG_LEVEL_ERROR);
		key_pair_generate(&key);
		handshake_identity_init(&s->id.hs, &key, psk);
		memcpy(m->key, key.pk, sizeof m->key);
		m->rank = RANK(i);
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
		if (!(without >> i & 1) &&
		    pthread_create(&c->sailor[i].thread, NULL, fn, &c->sailor[i]))
			abort();
	for (unsigned i = 0; i < c->n; i++)
		if (!(without >> i & 1))
			pthread_join(c->sailor[i].thread, NULL);
}

/* ---- the ring's own words ---- */

/* Of the whole program: each crew goes on from the one before. */
static uint64_t step;
static uint32_t epoch;
static unsigned left_out;

/* The members that take part, without those that are left out. */
static inline size_t present(const struct crew *c, struct ring_member *out)
{
	size_t n = 0;

	for (unsigned i = 0; i < c->n; i++)
		if (!(left_out >> i & 1))
			out[n++] = c->member[i];
	return n;
}

static inline void *form(void *ctx)
{
	struct sailor *s = ctx;
	struct ring_member m[CREW_MAX];
	size_t n = present(s->crew, m);

	s->e.code = ERR_OK;
	s->rc = ring_form(s->ring, epoch, m, n, &s->e);
	return NULL;
}

static inline void *reduce(void *ctx)
{
	struct sailor *s = ctx;
	int64_t begin = tap_idle_clock();

	s->e.code = ERR_OK;
	s->rc = ring_reduce(s->ring, step, s->in, s->crew->floats, 1 + s->index, &s->mean,
	    &s->total, &s->e);
	s->took = tap_idle_clock() - begin;
	return NULL;
}

static inline bool all_well(const struct crew *c)
{
	for (unsigned i = 0; i < c->n; i++)
		if (!(left_out >> i & 1) && c->sailor[i].rc) {
			printf("# member %u: %s\n", i, c->sailor[i].e.msg);
			return false;
		}
	return true;
}

static inline bool formed(struct crew *c)
{
	epoch++;
	crew_each(c, form, left_out);
	return all_well(c);
}

/* Is the mean right, within rounding, and alike in all its bits? */
static inline bool right(const struct crew *c, unsigned contributors)
{
	const struct sailor *one = NULL;
	uint64_t total = 0;

	for (unsigned k = 0; k < c->n; k++)
		total += contributors >> k & 1 ? 1 + k : 0;
	for (unsigned k = 0; k < c->n; k++) {
		const struct sailor *s = &c->sailor[k];

		if (left_out >> k & 1)
			continue;
		one = one ? one : s;
		if (s->total != total ||
		    memcmp(s->mean, one->mean, c->floats * sizeof *s->mean) != 0)
			return false;
	}
	for (size_t i = 0; i < c->floats; i++) {
		double sum = 0, size = 0;

		for (unsigned k = 0; k < c->n; k++)
			if (contributors >> k & 1) {
				sum += (1.0 + k) * (double)c->sailor[k].in[i];
				size += fabs((1.0 + k) * (double)c->sailor[k].in[i]);
			}
		if (fabs(sum / (double)total - (double)one->mean[i]) >
		    1e-6 * size / (double)total + 1e-30)
			return false;
	}
	return true;
}

static inline void vectors(struct crew *c, size_t n)
{
	c->floats = n;
	for (unsigned i = 0; i < c->n; i++)
		fill_vector(&c->sailor[i], n, ++step);
	step++;
}

#endif
