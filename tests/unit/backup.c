/* SPDX-License-Identifier: ISC */
/* Backup workers: a step closes with all but some. */
#include "shard_fixture.h"

/* Three ranks, of which a step may close without one. */
static void bsp_backup(void)
{
	struct world x;
	struct receipt r;

	world_open_with(&x, "bsp", false, "sgd", 1, 3, 1, false);
	ok(step_of(&x, 0, 0, 10, 1) && shard_closed(x.shard) == 0,
	    "backup: one of three is not enough");
	ok(step_of(&x, 1, 0, 10, 3) && shard_closed(x.shard) == 1, "two are");
	ok(pull_w(&x, 1) == -2, "their mean is the update");
	ok(push_w(&x, 2, 0, 10, 100, &r) == SHARD_OK && r.status == PUSH_LATE && r.staleness == 1,
	    "the third is late, and told how much");
	clock_of(&x, 2, 0, 10);
	ok(version_of(x.shard, W, 0) == 1, "which changes nothing");
	/* In time, it counts: whoever comes first. */
	step_of(&x, 2, 1, 10, 2);
	step_of(&x, 0, 1, 10, 4);
	ok(shard_closed(x.shard) == 2 && pull_w(&x, 2) == -5,
	    "in the next step another one is late");
	ok(push_w(&x, 1, 1, 10, 9, &r) == SHARD_OK && r.status == PUSH_LATE, "and told so");
	/* The slow one pushes before the step is closed, and has not yet said CLOCK. */
	push_w(&x, 1, 2, 10, 3, &r);
	ok(r.status == PUSH_MERGED, "a push that comes before the step is closed is in it");
	step_of(&x, 0, 2, 10, 6);
	ok(pull_w(&x, SYNC_NEVER) == -5 - 4.5f, "with two pushes it is complete here");
	clock_of(&x, 1, 2, 10);
	ok(shard_closed(x.shard) == 3, "and closed when two have said CLOCK");
	/* With two of three gone the last one does not wait for nobody. */
	dismiss(x.shard, 0, 3);
	dismiss(x.shard, 2, 3);
	ok(shard_closed(x.shard) == 3 && step_of(&x, 1, 3, 10, 1) && shard_closed(x.shard) == 4,
	    "the last one's own step is waited for");
	world_close(&x);
}

/* Four ranks, of which a step may close without two, and two have no examples at some steps. */
static void ranks_without_examples(void)
{
	struct world x;
	struct receipt r;

	world_open_with(&x, "bsp", false, "sgd", 1, 4, 2, false);
	clock_of(&x, 2, 0, 0);
	clock_of(&x, 3, 0, 0);
	ok(shard_closed(x.shard) == 0 && version_of(x.shard, W, 0) == 0,
	    "ranks without examples close no step");
	ok(step_of(&x, 0, 0, 10, 2) && shard_closed(x.shard) == 1 && pull_w(&x, 1) == -2,
	    "the first one with examples does");
	ok(push_w(&x, 1, 0, 10, 4, &r) == SHARD_OK && r.status == PUSH_LATE,
	    "the other one is late");
	clock_of(&x, 1, 0, 10);
	push_w(&x, 0, 1, 10, 2, &r);
	clock_of(&x, 1, 1, 0);
	clock_of(&x, 2, 1, 0);
	clock_of(&x, 3, 1, 0);
	ok(shard_closed(x.shard) == 1, "the only one with examples is waited for");
	clock_of(&x, 0, 1, 10);
	ok(shard_closed(x.shard) == 2 && pull_w(&x, 2) == -4, "and its push is the update");
	for (unsigned i = 0; i < 4; i++)
		clock_of(&x, i, 2, 0);
	ok(shard_closed(x.shard) == 3 && pull_w(&x, 3) == -4,
	    "a step of which nobody has examples closes");
	world_close(&x);
}

int main(void)
{
	bsp_backup();
	ranks_without_examples();
	return tap_done();
}
