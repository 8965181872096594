/* SPDX-License-Identifier: ISC */
/* The picture of a server's partitions that a checkpoint is written from. */
#include <pthread.h>

#include "ckpt/write.h"
#include "shard_fixture.h"

static const struct ckpt_part *find(const struct ckpt_part *parts, size_t n, const char *table,
    uint32_t part)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(parts[i].table, table) == 0 && parts[i].part == part)
			return &parts[i];
	return NULL;
}

static void between_two_steps(void)
{
	const struct ckpt_part *w;
	struct ckpt_part *parts;
	struct world x;
	uint64_t at;
	size_t n;

	world_open(&x, "bsp", false, "momentum", 1, 2);
	step_of(&x, 0, 0, 10, 1);
	step_of(&x, 1, 0, 10, 1);
	ok(shard_snap_begin(x.shard, 2, &at) && !shard_snap_due(x.shard),
	    "it is ordered for a step to come");
	ok(shard_snap_take(x.shard) == SHARD_WAIT, "and waits for it");
	step_of(&x, 0, 1, 10, 1);
	step_of(&x, 1, 1, 10, 1);
	ok(shard_snap_due(x.shard), "which the clocks tell");
	/* Nobody has looked yet: the next step must not run over it. */
	step_of(&x, 0, 2, 10, 100);
	step_of(&x, 1, 2, 10, 100);
	ok(shard_snap_take(x.shard) == SHARD_OK, "whoever looks late finds all of it");
	ok(shard_snap_parts(x.shard, &parts, &n), "it is handed over");
	w = find(parts, n, "w", 0);
	/* momentum 0.9: v = 1, then 1.9; w = -1 - 1.9. */
	ok(w && w->step == 2 && w->version == 2 && w->w[0] == -2.9f && w->nvectors == 1 &&
	        w->vector[0][0] == 1.9f,
	    "as it was between the steps: %g", w ? (double)w->w[0] : 0.0);
	ok(w && w->nlast == 2 && w->last[0] == 2 && w->last[1] == 2, "with who had been taken");
	ok(find(parts, n, "big", 1) && find(parts, n, "rows", 0), "untouched partitions are in it");
	shard_snap_release(parts, n);
	ok(!shard_snap_parts(x.shard, &parts, &n) && n == 0, "once");
	ok(!shard_snap_begin(x.shard, 2, &at) && at == 3,
	    "a step that is gone cannot be had any more");
	world_close(&x);
}

/* Workers rest: one has pushed the step that is open, the other will not begin with it. */
static void of_the_open_step(void)
{
	const struct ckpt_part *w;
	struct ckpt_part *parts;
	struct world x;
	uint64_t at;
	size_t n;

	world_open(&x, "bsp", false, "sgd", 1, 2);
	step_of(&x, 0, 0, 10, 1);
	step_of(&x, 1, 0, 10, 1);
	step_of(&x, 0, 1, 10, 100);
	ok(!shard_snap_begin(x.shard, 0, &at) && at == 1, "the step that is open is told of");
	ok(shard_snap_begin(x.shard, at, &at) && shard_snap_take(x.shard) == SHARD_OK,
	    "and can be had while nobody moves");
	ok(shard_snap_parts(x.shard, &parts, &n), "it is handed over");
	w = find(parts, n, "w", 0);
	ok(w && w->step == 1 && w->w[0] == -1 && w->last[0] == 1 && w->last[1] == 1,
	    "without what has been pushed of it: %g", w ? (double)w->w[0] : 0.0);
	shard_snap_release(parts, n);
	world_close(&x);
}

static void ended(void)
{
	struct ckpt_part *parts;
	struct world x;
	uint64_t at;
	size_t n;

	world_open(&x, "asp", false, "sgd", 1, 1);
	ok(shard_snap_begin(x.shard, 0, &at) && shard_snap_take(x.shard) == SHARD_OK,
	    "asp: at any time");
	shard_install(x.shard, &x.layout, NULL, NULL);
	ok(!shard_snap_parts(x.shard, &parts, &n) && n == 0, "a new layout ends it");
	ok(shard_snap_take(x.shard) == SHARD_ELSEWHERE, "for good");
	world_close(&x);
}

static void *install_often(void *ctx)
{
	struct world *x = ctx;

	for (int i = 0; i < 300; i++)
		shard_install(x->shard, &x->layout, NULL, NULL);
	return NULL;
}

/* What was handed over stays readable, whoever ends the next one meanwhile. */
static void ended_meanwhile(void)
{
	struct world x;
	pthread_t t;
	size_t whole = 0;
	float sum = 0;

	world_open(&x, "asp", false, "sgd", 1, 1);
	pthread_create(&t, NULL, install_often, &x);
	for (int i = 0; i < 300; i++) {
		struct ckpt_part *parts;
		uint64_t at;
		size_t n;

		if (!shard_snap_begin(x.shard, 0, &at) || shard_snap_take(x.shard) == SHARD_BAD ||
		    !shard_snap_parts(x.shard, &parts, &n))
			continue;
		whole++;
		for (size_t k = 0; k < n; k++)
			for (size_t j = 0; j < parts[k].n; j++)
				sum += parts[k].w[j];
		shard_snap_release(parts, n);
	}
	pthread_join(t, NULL);
	ok(sum == 0, "%zu of 300 were handed over, and read, while layouts came", whole);
	world_close(&x);
}

int main(void)
{
	between_two_steps();
	of_the_open_step();
	ended();
	ended_meanwhile();
	return tap_done();
}
