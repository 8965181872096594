/* SPDX-License-Identifier: ISC */
/* Tables whose gradients the workers sum among themselves: of a step one push comes, of
 * the mean, and after the CLOCKs. */
#include <math.h>

#include "shard_fixture.h"

static void open_reduced(struct world *x, const char *rule, uint32_t ranks)
{
	struct shard_config cfg = { .reduced = true,
		.rule = optim_find(rule),
		.wake = count_wake,
		.ctx = x };
	struct table shape = { .rows = N, .cols = 1, .reduced = true }, *t;

	memset(x, 0, sizeof *x);
	sync_parse("bsp", &cfg.mode, NULL);
	cfg.rule->defaults(&cfg.hyper);
	cfg.hyper.lr = 1;
	schedule_parse("constant", &cfg.schedule, NULL);
	snprintf(shape.name, sizeof shape.name, "w");
	layout_add(&x->layout, &shape, &t, NULL);
	add_table(x, "big", false, BIG_N, 1);
	add_table(x, "rows", true, 100, COLS);
	layout_place(&x->layout, (const uint16_t[]){ 0 }, 1, 1);
	if (shard_new(&cfg, &x->shard, NULL) || shard_install(x->shard, &x->layout, NULL, NULL))
		abort();
	for (uint32_t i = 0; i < ranks; i++)
		admit(x->shard, i, inc_of(i), 0);
}

static void all_clock(struct world *x, uint32_t ranks, uint64_t step)
{
	for (uint32_t i = 0; i < ranks; i++)
		if (clock_of(x, i, step, 10) != SHARD_OK)
			abort();
}

static enum shard_answer nothing(struct world *x, uint32_t rank, uint64_t step, uint16_t table,
    struct receipt *r)
{
	struct push p = { .rank = rank, .incarnation = inc_of(rank), .step = step, .table = table };

	return shard_push(x->shard, &p, r);
}

static void one_push_a_step(void)
{
	struct world x;
	struct receipt r;
	float before;

	open_reduced(&x, "sgd", 3);
	before = pull_w(&x, 0);
	all_clock(&x, 2, 0);
	ok(!shard_may_fix_members(x.shard, 1) && shard_may_fix_members(x.shard, 0),
	    "the third rank is at the step before");
	all_clock(&x, 3, 0);
	ok(shard_may_fix_members(x.shard, 1) && shard_closed(x.shard) == 0,
	    "all are at the step, and the one before is open yet");
	ok(push_w(&x, 1, 0, 1, 2, &r) == SHARD_OK && r.status == PUSH_MERGED &&
	        shard_closed(x.shard) == 1,
	    "with the mean it is closed");
	ok(pull_w(&x, 1) == before - 2, "which is divided by nothing: %g", (double)pull_w(&x, 1));
	ok(push_w(&x, 2, 0, 1, 2, &r) == SHARD_OK && r.status == PUSH_DUPLICATE && r.due.steps == 1,
	    "what another pushes of the step is a duplicate, and as safe");
	ok(push_w(&x, 0, 1, 1, 1, &r) == SHARD_OK && push_w(&x, 2, 1, 1, 1, &r) == SHARD_OK &&
	        r.status == PUSH_DUPLICATE && shard_closed(x.shard) == 1,
	    "also while the step is open, as CLOCKs are still to come");
	all_clock(&x, 3, 1);
	ok(shard_closed(x.shard) == 2 && pull_w(&x, 2) == before - 3, "each step counts once");
	world_close(&x);
}

static void without_a_mean(void)
{
	struct world x;
	struct receipt r;
	float before;

	open_reduced(&x, "sgd", 2);
	before = pull_w(&x, 0);
	all_clock(&x, 2, 0);
	ok(nothing(&x, 0, 0, W, &r) == SHARD_OK && shard_closed(x.shard) == 1 &&
	        pull_w(&x, 1) == before,
	    "a step in which nobody had examples is closed by a push of nothing");
	ok(nothing(&x, 0, 1, BIG, &r) == SHARD_BAD, "which other tables do not take");
	all_clock(&x, 2, 1);
	push_w(&x, 0, 1, 1, NAN, &r);
	ok(r.status == PUSH_REFUSED && shard_closed(x.shard) == 2 && pull_w(&x, 2) == before,
	    "a mean that is not finite is refused, and closes it");
	all_clock(&x, 2, 2);
	push_w(&x, 0, 2, 1, 0x1p90f, &r);
	ok(r.status == PUSH_REFUSED && shard_closed(x.shard) == 3 && pull_w(&x, 3) == before,
	    "so is one beyond all bounds, as for any push");
	clock_of(&x, 0, 3, 1);
	shard_expect(x.shard, 1, inc_of(1), 3, W, 0, 1);
	clock_of(&x, 1, 3, 1);
	ok(push_w(&x, 0, 3, 1, 1, &r) == SHARD_OK && shard_closed(x.shard) == 4,
	    "who says that he pushes is not waited for, as another has");
	before = pull_w(&x, 4);
	{
		float g[N] = { 1, 1, 1, 1 };
		struct push p = { .rank = SHARD_OUTSIDE,
			.table = W,
			.examples = 1,
			.payload = (const uint8_t *)g,
			.len = sizeof g };

		ok(shard_push(x.shard, &p, &r) == SHARD_OK && r.status == PUSH_REFUSED &&
		        pull_w(&x, SYNC_NEVER) == before,
		    "what comes from outside of the job is refused: the workers would not know");
	}
	world_close(&x);
}

static void ahead(void)
{
	struct world x;
	struct receipt r;

	open_reduced(&x, "sgd", 2);
	all_clock(&x, 2, 0);
	all_clock(&x, 2, 1);
	ok(shard_may_fix_members(x.shard, 2), "CLOCKs may be two ahead of the oldest open step");
	all_clock(&x, 2, 2);
	ok(clock_of(&x, 0, 3, 1) == SHARD_WAIT, "and no more");
	ok(push_w(&x, 0, 1, 1, 1, &r) == SHARD_WAIT, "means come in their order");
	ok(push_w(&x, 1, 0, 1, 1, &r) == SHARD_OK && push_w(&x, 0, 1, 1, 1, &r) == SHARD_OK &&
	        shard_closed(x.shard) == 2,
	    "one after the other");
	ok(clock_of(&x, 0, 3, 1) == SHARD_OK, "then the next CLOCK is taken");
	world_close(&x);
}

static void losses(void)
{
	struct world x;
	struct receipt r;
	float before;

	open_reduced(&x, "sgd", 2);
	before = pull_w(&x, 0);
	all_clock(&x, 2, 0);
	dismiss(x.shard, 0, 1);
	ok(shard_closed(x.shard) == 0, "who was to push is lost: another may do it");
	push_w(&x, 1, 0, 1, 1, &r);
	ok(r.status == PUSH_MERGED && shard_closed(x.shard) == 1, "and does");
	clock_of(&x, 1, 1, 10);
	admit(x.shard, 0, inc_of(0), 2);
	ok(shard_closed(x.shard) == 1, "who comes later has not got it, another still has");
	dismiss(x.shard, 1, 2);
	ok(shard_closed(x.shard) == 2 && pull_w(&x, 2) == before - 1,
	    "with the last who had it the step is closed without");
	world_close(&x);
}

static void tells_and_state(void)
{
	struct world x;
	struct receipt r;
	float m[N];
	uint64_t version = 9;

	open_reduced(&x, "momentum", 1);
	ok(shard_may_show(x.shard, W, 0, 0, &version) == SHARD_OK && version == 0 &&
	        shard_may_show(x.shard, W, 0, 1, &version) == SHARD_WAIT,
	    "whether a partition is as far is told without its values");
	clock_of(&x, 0, 0, 1);
	push_w(&x, 0, 0, 1, 3, &r);
	ok(shard_may_show(x.shard, W, 0, 1, &version) == SHARD_OK && version == 1,
	    "with the version");
	ok(shard_may_show(x.shard, ROWS, 0, 1, &version) == SHARD_BAD &&
	        shard_may_show(x.shard, 77, 0, 1, &version) == SHARD_ELSEWHERE,
	    "of dense partitions that are here");
	ok(shard_pull_state(x.shard, W, 0, 1, 1, m, &version) == SHARD_OK && m[0] == 3 &&
	        m[N - 1] == 3,
	    "what the rule keeps is pulled");
	ok(shard_pull_state(x.shard, W, 0, 2, 1, m, &version) == SHARD_WAIT, "of its step");
	ok(shard_pull_state(x.shard, W, 0, 1, 2, m, &version) == SHARD_BAD &&
	        shard_pull_state(x.shard, W, 0, 1, 0, m, &version) == SHARD_BAD,
	    "and no more than there is");
	world_close(&x);
}

int main(void)
{
	one_push_a_step();
	without_a_mean();
	ahead();
	losses();
	tells_and_state();
	return tap_done();
}
