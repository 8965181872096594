/* SPDX-License-Identifier: ISC */
/* Bounded staleness under threads.  Rank i adds 1 to place i of table w at each
 * of its steps, so what a pull holds tells which steps of whom are in it: at
 * step c of ssp:S, at least c - S of everyone.  One worker is slow. */
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "shard_fixture.h"

enum { RANKS = 4, STEPS = 150, SLOW = 2 };

struct runner {
	struct world *x;
	uint32_t rank;
	uint64_t must; /* S; UINT64_MAX: anything may be missing */
	unsigned lacking, own, back, waited, longest;
	uint64_t version;
};

static void work(const struct runner *r, uint64_t step)
{
	/* Slow now and then, and the one slow worker always. */
	struct timespec t = { 0, r->rank == SLOW ? 200000 : 20000 };

	if (r->rank == SLOW || (step + r->rank) % 16 == 0)
		nanosleep(&t, NULL);
}

static void look(struct runner *r, uint64_t step, const float *w, uint64_t version)
{
	r->back += version < r->version;
	r->version = version;
	r->own += (uint64_t)w[r->rank] != step;
	for (unsigned i = 0; i < RANKS; i++) {
		uint64_t has = (uint64_t)w[i], behind = has < step ? step - has : 0;

		r->lacking += behind > r->must;
		if (behind > r->longest)
			r->longest = (unsigned)behind;
	}
}

static void *run(void *ctx)
{
	struct runner *r = ctx;
	float w[N], g[N] = { 0 };
	struct receipt receipt;
	uint64_t version;

	g[r->rank] = -1;
	for (uint64_t step = 0; step < STEPS; step++) {
		bool waited = false;

		while (!shard_may_pull(r->x->shard, step)) {
			waited = true;
			sched_yield();
		}
		r->waited += waited;
		shard_pull(r->x->shard, W, 0, step, w, &version);
		look(r, step, w, version);
		work(r, step);
		if (push_dense(r->x, W, 0, r->rank, step, 1, g, N, &receipt) != SHARD_OK ||
		    clock_of(r->x, r->rank, step, 1) != SHARD_OK)
			abort();
	}
	return NULL;
}

struct seen {
	unsigned lacking, own, back, waited, longest;
};

static struct seen race(const char *mode, uint64_t must)
{
	struct world x;
	struct runner r[RANKS];
	pthread_t t[RANKS];
	struct seen s = { 0 };

	world_open(&x, mode, false, "sgd", 1, RANKS);
	for (uint32_t i = 0; i < RANKS; i++) {
		r[i] = (struct runner){ .x = &x, .rank = i, .must = must };
		pthread_create(&t[i], NULL, run, &r[i]);
	}
	for (uint32_t i = 0; i < RANKS; i++) {
		pthread_join(t[i], NULL);
		s.lacking += r[i].lacking;
		s.own += r[i].own;
		s.back += r[i].back;
		s.waited += r[i].waited;
		if (r[i].longest > s.longest)
			s.longest = r[i].longest;
	}
	world_close(&x);
	return s;
}

int main(void)
{
	static const unsigned stale[] = { 0, 1, 3, 10 };
	struct seen s;
	char mode[16];

	for (unsigned i = 0; i < 4; i++) {
		snprintf(mode, sizeof mode, "ssp:%u", stale[i]);
		s = race(mode, stale[i]);
		ok(!s.lacking,
		    "%s: no pull lacks an update that it must hold (most missing: %u steps)", mode,
		    s.longest);
		ok(s.waited > 0, "%s: and it bites: %u of %u pulls had to wait", mode, s.waited,
		    RANKS * STEPS);
		ok(s.longest == stale[i], "%s: the bound is used to the full by who is fast", mode);
		ok(!s.own && !s.back,
		    "%s: everyone sees all of its own updates, and no version goes back", mode);
	}
	s = race("asp", UINT64_MAX);
	ok(!s.waited && s.longest > 10, "asp: nobody waits, and the fast get %u steps ahead",
	    s.longest);
	ok(!s.own && !s.back,
	    "asp: everyone sees all of its own updates, and no version goes back");
	return tap_done();
}
