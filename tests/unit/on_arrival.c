/* SPDX-License-Identifier: ISC */
/* Tables whose pushes are applied on arrival beside tables whose pushes are summed, in a job of
 * bsp: they open and close the same steps, and every push counts once. */
#include <math.h>

#include "ckpt/write.h"
#include "layout/taken.h"
#include "shard_fixture.h"

enum { ID = 5 };

/* Two ranks push a dense table and a row at one step. */
static void both_kinds(void)
{
	struct receipt r;
	struct world x;
	float row;

	world_open(&x, "bsp rows", false, "sgd", 1, 2);
	row = pull_row(&x, SYNC_NEVER, ID);
	ok(push_w(&x, 0, 0, 10, 1, &r) == SHARD_OK && r.status == PUSH_MERGED,
	    "a push of the dense table is summed");
	ok(push_row(&x, 0, 0, 10, ID, 1, &r) == SHARD_OK && r.status == PUSH_APPLIED &&
	        r.version == 1,
	    "a push of the row is applied, and its receipt says so");
	ok(pull_w(&x, SYNC_NEVER) == 0 && pull_row(&x, SYNC_NEVER, ID) == row - 1,
	    "before the step is closed, the row alone has changed");
	ok(push_row(&x, 0, 0, 10, ID, 1, &r) == SHARD_OK && r.status == PUSH_DUPLICATE &&
	        pull_row(&x, SYNC_NEVER, ID) == row - 1,
	    "the same push changes nothing a second time");
	ok(push_row(&x, 0, 1, 10, ID, 1, &r) == SHARD_WAIT, "a push of the next step waits");
	clock_of(&x, 0, 0, 10);
	ok(shard_closed(x.shard) == 0 && !shard_may_pull(x.shard, 1),
	    "the step waits for the other rank");
	push_w(&x, 1, 0, 30, 5, &r);
	push_row(&x, 1, 0, 30, ID, 1, &r);
	ok(r.status == PUSH_APPLIED && r.staleness == 1,
	    "a receipt tells how many updates the gradient did not know");
	clock_of(&x, 1, 0, 30);
	ok(shard_closed(x.shard) == 1 && pull_w(&x, 1) == -4 && pull_row(&x, 1, ID) == row - 2,
	    "the dense table moves by the mean of the examples, the row by each mean");
	ok(version_of(x.shard, ROWS, part_of(&x, ID)) == 2,
	    "closing a step makes no version of the rows");
	ok(push_row(&x, 1, 0, 30, ID, 1, &r) == SHARD_OK && r.status == PUSH_DUPLICATE,
	    "a duplicate of a closed step is one still");
	world_close(&x);
}

/* A rank says CLOCK without a push, and one is refused. */
static void nothing_to_apply(void)
{
	struct receipt r;
	struct world x;
	float row;

	world_open(&x, "bsp rows", false, "sgd", 1, 2);
	row = pull_row(&x, SYNC_NEVER, ID);
	ok(push_row(&x, 0, 0, 10, ID, NAN, &r) == SHARD_OK && r.status == PUSH_REFUSED,
	    "a push with a value that is not finite is refused");
	ok(push_row(&x, 0, 0, 10, ID, NAN, &r) == SHARD_OK && r.status == PUSH_REFUSED,
	    "and refused again when it is repeated");
	clock_of(&x, 0, 0, 10);
	clock_of(&x, 1, 0, 10);
	ok(shard_closed(x.shard) == 1 && pull_row(&x, 1, ID) == row,
	    "the step is closed without it");
	ok(push_row(&x, 0, 1, 10, ID, 1, &r) == SHARD_OK && pull_row(&x, 1, ID) == row - 1,
	    "the next step's push is applied");
	world_close(&x);
}

/* Steps that close without a rank: its gradient of the dense table is lost, that of the row is not. */
static void backup(void)
{
	struct receipt r;
	struct world x;
	float row;

	world_open_with(&x, "bsp rows", false, "sgd", 1, 3, 1, false);
	row = pull_row(&x, SYNC_NEVER, ID);
	step_of(&x, 0, 0, 10, 1);
	step_of(&x, 1, 0, 10, 1);
	ok(shard_closed(x.shard) == 1, "two of three are enough");
	push_w(&x, 2, 0, 10, 9, &r);
	ok(r.status == PUSH_LATE, "the third is too late for the dense table");
	push_row(&x, 2, 0, 10, ID, 1, &r);
	ok(r.status == PUSH_APPLIED && pull_row(&x, 1, ID) == row - 1, "and not for the row");
	push_row(&x, 2, 0, 10, ID, 1, &r);
	ok(r.status == PUSH_DUPLICATE && pull_row(&x, 1, ID) == row - 1, "where it counts once");
	ok(step_of(&x, 0, 1, 10, 1) && step_of(&x, 1, 1, 10, 1) && shard_closed(x.shard) == 2,
	    "steps go on");
	world_close(&x);
}

/* A rank is lost after it has pushed the row of the open step. */
static void lost_rank(void)
{
	struct taken taken = { 0 };
	struct receipt r;
	struct world x;
	float row;

	world_open(&x, "bsp rows", false, "sgd", 1, 2);
	row = pull_row(&x, SYNC_NEVER, ID);
	push_row(&x, 1, 0, 10, ID, 1, &r);
	dismiss(x.shard, 1, 1);
	ok(shard_list_taken(x.shard, 1, 1, &taken) == SHARD_WAIT,
	    "its pushes are settled when the step is closed");
	push_row(&x, 0, 0, 10, ID, 2, &r);
	step_of(&x, 0, 0, 10, 1);
	ok(shard_closed(x.shard) == 1 && pull_row(&x, 1, ID) == row - 3,
	    "the step closes without the rank, whose push counts");
	ok(shard_list_taken(x.shard, 1, 1, &taken) == SHARD_OK &&
	        taken_of(&taken, ROWS, part_of(&x, ID)) == 1 && taken_of(&taken, W, 0) == 0,
	    "the answer is that the row's push was taken, and the dense table's was not");
	taken_release(&taken);
	ok(push_row(&x, 1, 0, 10, ID, 1, &r) == SHARD_FENCED, "the rank is fenced");
	world_close(&x);
}

static const struct ckpt_part *rows_of(const struct world *x, const struct ckpt_part *parts,
    size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(parts[i].table, "rows") == 0 && parts[i].part == part_of(x, ID))
			return &parts[i];
	return NULL;
}

/* A checkpoint of a step has the pushes of the steps before it, and no others. */
static void checkpoint(void)
{
	const struct ckpt_part *rows;
	struct ckpt_part *parts;
	struct receipt r;
	struct world x;
	uint64_t at;
	float row;
	size_t n;

	world_open(&x, "bsp rows", false, "sgd", 1, 2);
	row = pull_row(&x, SYNC_NEVER, ID);
	ok(shard_snap_begin(x.shard, 1, &at), "a snapshot is ordered for step 1");
	push_row(&x, 0, 0, 10, ID, 1, &r);
	push_row(&x, 1, 0, 10, ID, 1, &r);
	step_of(&x, 0, 0, 10, 1);
	step_of(&x, 1, 0, 10, 1);
	push_row(&x, 1, 1, 10, ID, 100, &r);
	ok(pull_row(&x, 1, ID) == row - 102,
	    "a push of step 1 is applied before anybody has looked");
	ok(shard_snap_take(x.shard) == SHARD_OK && shard_snap_parts(x.shard, &parts, &n),
	    "the snapshot is taken");
	rows = rows_of(&x, parts, n);
	ok(rows && rows->n == 1 && rows->w[0] == row - 2 && rows->nlast == 2 &&
	        rows->last[0] == 1 && rows->last[1] == 1,
	    "it has the pushes of step 0 and no other");
	shard_snap_release(parts, n);
	/* The job rests in the middle of step 1. */
	ok(shard_snap_begin(x.shard, 1, &at) && shard_snap_take(x.shard) == SHARD_OK &&
	        shard_snap_parts(x.shard, &parts, &n),
	    "a snapshot of the open step can be taken, too");
	rows = rows_of(&x, parts, n);
	ok(rows && rows->w[0] == row - 102 && rows->last[0] == 1 && rows->last[1] == 2,
	    "and says which push of this step it has");
	shard_snap_release(parts, n);
	world_close(&x);
}

static void set_on_arrival(struct world *x, uint32_t number, uint64_t step, bool on_arrival)
{
	struct settings_epoch r = { .step = step, .number = number, .rule = optim_find("sgd") };

	sync_parse("bsp", &r.mode, NULL);
	schedule_parse("constant", &r.schedule, NULL);
	r.rule->defaults(&r.hyper);
	r.hyper.lr = 1;
	r.tables.n = 1;
	snprintf(r.tables.of[0].pattern, sizeof r.tables.of[0].pattern, "*");
	r.tables.of[0].rule = r.rule;
	r.tables.of[0].hyper = r.hyper;
	r.tables.of[0].on_arrival = on_arrival;
	shard_add_epoch(x->shard, &r);
	shard_end_vote(x->shard);
}

/* All tables from step 1 on, and none from step 2 on. */
static void live_change(void)
{
	struct receipt r;
	struct world x;

	world_open(&x, "bsp", false, "sgd", 1, 2);
	set_on_arrival(&x, 1, 1, true);
	set_on_arrival(&x, 2, 2, false);
	step_of(&x, 0, 0, 10, 1);
	step_of(&x, 1, 0, 10, 3);
	ok(pull_w(&x, 1) == -2, "step 0 is summed");
	push_w(&x, 0, 1, 10, 1, &r);
	ok(r.status == PUSH_APPLIED && pull_w(&x, SYNC_NEVER) == -3,
	    "step 1 is applied on arrival");
	ok(push_w(&x, 0, 2, 10, 1, &r) == SHARD_WAIT, "step 2 waits for its end");
	clock_of(&x, 0, 1, 10);
	push_w(&x, 1, 1, 10, 3, &r);
	clock_of(&x, 1, 1, 10);
	ok(shard_closed(x.shard) == 2 && pull_w(&x, 2) == -6, "which has both");
	step_of(&x, 0, 2, 10, 1);
	step_of(&x, 1, 2, 10, 3);
	ok(pull_w(&x, 3) == -8, "and step 2 is summed");
	world_close(&x);
}

int main(void)
{
	both_kinds();
	nothing_to_apply();
	backup();
	lost_rank();
	checkpoint();
	live_change();
	return tap_done();
}
