/* SPDX-License-Identifier: ISC */
/* Partitions and gate of one server, used by several threads at once: no push is lost, and
 * none counted twice. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "shard_fixture.h"

enum { THREADS = 4, STEPS = 300 };

struct worker {
	struct world *x;
	uint32_t rank;
	unsigned held, wrong;
	float *buf;
};

static void wait_a_bit(struct worker *w)
{
	w->held++;
	sched_yield();
}

/* bsp: every rank pushes rank+1 to both partitions of a table and to a row of
 * its own and one of all; what it pulls must be the exact sum of all steps. */
static void *train(void *ctx)
{
	struct worker *w = ctx;
	struct world *x = w->x;
	struct receipt r;
	uint64_t version;

	for (uint64_t step = 0; step < STEPS; step++) {
		/* Means of 1..4 with 1..4 examples: 3 a step. */
		float want = -3 * (float)step;

		while (!shard_may_pull(x->shard, step))
			wait_a_bit(w);
		shard_pull(x->shard, BIG, 1, step, w->buf, &version);
		w->wrong += w->buf[0] != want || w->buf[7] != want || version != step;
		w->wrong += pull_w(x, step) != want;
		for (int i = 0; i < 8; i++)
			w->buf[i] = (float)(w->rank + 1);
		while (
		    push_dense(x, BIG, 1, w->rank, step, w->rank + 1, w->buf, 8, &r) == SHARD_WAIT)
			wait_a_bit(w);
		while (
		    push_w(x, w->rank, step, w->rank + 1, (float)(w->rank + 1), &r) == SHARD_WAIT)
			wait_a_bit(w);
		while (push_row(x, w->rank, step, w->rank + 1, 1000, (float)(w->rank + 1), &r) ==
		    SHARD_WAIT)
			wait_a_bit(w);
		while (clock_of(x, w->rank, step, w->rank + 1) == SHARD_WAIT)
			wait_a_bit(w);
	}
	shard_done(x->shard, w->rank, inc_of(w->rank));
	return NULL;
}

/* mode: "bsp", or "bsp rows", where each push to the table of rows is an update of its own. */
static void threads(const char *mode, bool deterministic)
{
	unsigned arrive = strcmp(mode, "bsp") == 0 ? 0 : THREADS * STEPS;
	struct world x;
	struct worker w[THREADS];
	pthread_t t[THREADS];
	unsigned wrong = 0, held = 0;
	struct shard_stats st;

	world_open(&x, mode, deterministic, "sgd", 1, THREADS);
	for (uint32_t i = 0; i < THREADS; i++) {
		w[i] = (struct worker){ .x = &x,
			.rank = i,
			.buf = malloc(PART_ELEMENTS * sizeof(float)) };
		pthread_create(&t[i], NULL, train, &w[i]);
	}
	for (uint32_t i = 0; i < THREADS; i++) {
		pthread_join(t[i], NULL);
		wrong += w[i].wrong;
		held += w[i].held;
		free(w[i].buf);
	}
	shard_stats(x.shard, &st);
	ok(!wrong,
	    "%s, %s%u threads, %u steps: every pull is the exact mean of all steps before (%u tries waited)",
	    mode, deterministic ? "deterministic: " : "", THREADS, STEPS, held);
	ok(shard_closed(x.shard) == STEPS && version_of(x.shard, BIG, 1) == STEPS &&
	        st.status[PUSH_MERGED] == 3 * THREADS * STEPS - arrive &&
	        st.status[PUSH_APPLIED] == arrive &&
	        version_of(x.shard, ROWS, part_of(&x, 1000)) == (arrive ? arrive : STEPS) &&
	        pull_w(&x, SYNC_NEVER) == -3.0f * STEPS,
	    "no push is lost, none counted twice");
	world_close(&x);
}

static void *push_many(void *ctx)
{
	struct worker *w = ctx;
	struct receipt r;

	for (uint64_t step = 0; step < 2000; step++) {
		push_w(w->x, w->rank, step, 1, 1, &r);
		push_row(w->x, w->rank, step, 1, step % 37, 0.25f, &r);
		clock_of(w->x, w->rank, step, 1);
	}
	return NULL;
}

/* Changes settings all the time, to the values that they have. */
struct changes {
	struct world *x;
	const char *mode;
	atomic_bool stop;
	unsigned n;
	pthread_t thread;
};

static void *change_settings(void *ctx)
{
	struct changes *c = ctx;
	struct settings_epoch r = { .rule = optim_find("sgd") };

	sync_parse(c->mode, &r.mode, NULL);
	r.rule->defaults(&r.hyper);
	r.hyper.lr = 1;
	schedule_parse("constant", &r.schedule, NULL);
	while (!atomic_load(&c->stop)) {
		r.number = ++c->n;
		r.step = shard_slowest_clock(c->x->shard) + 1;
		shard_add_epoch(c->x->shard, &r);
		sched_yield();
	}
	return NULL;
}

static void begin_changes(struct changes *c, struct world *x, const char *mode)
{
	*c = (struct changes){ .x = x, .mode = mode };
	pthread_create(&c->thread, NULL, change_settings, c);
}

static void end_changes(struct changes *c)
{
	atomic_store(&c->stop, true);
	pthread_join(c->thread, NULL);
}

static void threads_asp(bool changing)
{
	struct changes c;
	struct world x;
	struct worker w[THREADS];
	pthread_t t[THREADS];

	world_open(&x, "asp", false, "sgd", 1, THREADS);
	for (uint32_t i = 0; i < THREADS; i++) {
		w[i] = (struct worker){ .x = &x, .rank = i };
		pthread_create(&t[i], NULL, push_many, &w[i]);
	}
	if (changing)
		begin_changes(&c, &x, "asp");
	for (uint32_t i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	if (changing)
		end_changes(&c);
	ok(pull_w(&x, SYNC_NEVER) == -2000.0f * THREADS &&
	        version_of(x.shard, W, 0) == 2000 * THREADS,
	    "asp from %u threads%s: every push is applied once", THREADS,
	    changing ? ", with changing settings" : "");
	world_close(&x);
}

/* bsp, in which the open step needs its epoch while others are freed. */
static void threads_changing(void)
{
	struct worker w[THREADS];
	pthread_t t[THREADS];
	struct changes c;
	struct world x;
	unsigned wrong = 0;

	world_open(&x, "bsp", false, "sgd", 1, THREADS);
	for (uint32_t i = 0; i < THREADS; i++) {
		w[i] = (struct worker){ .x = &x,
			.rank = i,
			.buf = malloc(PART_ELEMENTS * sizeof(float)) };
		pthread_create(&t[i], NULL, train, &w[i]);
	}
	begin_changes(&c, &x, "bsp");
	for (uint32_t i = 0; i < THREADS; i++) {
		pthread_join(t[i], NULL);
		wrong += w[i].wrong;
		free(w[i].buf);
	}
	end_changes(&c);
	ok(!wrong && pull_w(&x, SYNC_NEVER) == -3.0f * STEPS,
	    "bsp with changing settings: every pull is exact");
	world_close(&x);
}

int main(void)
{
	threads("bsp", false);
	threads("bsp", true);
	threads("bsp rows", false);
	threads_asp(false);
	threads_asp(true);
	threads_changing();
	return tap_done();
}
