/* SPDX-License-Identifier: ISC */
/* The picture of a server's partitions that a checkpoint is written from. */
#include <pthread.h>

#include "ckpt/write.h"
#include "shard/part.h"
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

/* The workers are done, and one has pulled what the last step made. The step after that never begins, so it
 * must not count as the first one that is possible. */
static void after_the_last_step(void)
{
	struct ckpt_part *parts;
	struct world x;
	uint64_t at;
	size_t n;

	world_open(&x, "bsp", false, "sgd", 1, 2);
	step_of(&x, 0, 0, 10, 1);
	step_of(&x, 1, 0, 10, 1);
	ok(shard_slowest_clock(x.shard) == 1, "the workers have completed a step");
	ok(shard_may_pull(x.shard, 1), "and pull its values");
	for (uint32_t rank = 0; rank < 2; rank++)
		shard_done(x.shard, rank, inc_of(rank));
	ok(!shard_snap_begin(x.shard, 0, &at) && at == 1 && shard_slowest_clock(x.shard) == 0 &&
	        shard_step(x.shard) == 2,
	    "when they are done, a snapshot of that step is the first possible one");
	ok(shard_snap_begin(x.shard, 1, &at) && shard_snap_take(x.shard) == SHARD_OK,
	    "which is taken at once");
	shard_snap_end(x.shard);
	ok(shard_snap_begin(x.shard, 2, &at) && shard_snap_take(x.shard) == SHARD_WAIT,
	    "a later step may still come");
	shard_note_end(x.shard, true);
	ok(shard_snap_take(x.shard) == SHARD_OK && shard_snap_parts(x.shard, &parts, &n) && n &&
	        parts[0].step == 2 && parts[0].version == 1,
	    "but not when the job is done: its values are those of all later steps");
	shard_snap_release(parts, n);
	ok(layout_grow(&x.layout, "w", 10, 9, NULL) == ERR_OK, "a table has grown");
	x.layout.table[W].run[0].count = x.layout.table[W].nparts;
	ok(shard_install(x.shard, &x.layout, NULL, NULL) == ERR_OK &&
	        shard_snap_begin(x.shard, 2, &at) && shard_snap_take(x.shard) == SHARD_OK &&
	        shard_snap_parts(x.shard, &parts, &n),
	    "a partition that was made for a later step, which never comes, holds up no snapshot");
	ok(find(parts, n, "w", 1) && find(parts, n, "w", 1)->step == 2,
	    "and is in it as the others");
	shard_snap_release(parts, n);
	world_close(&x);
}

/* Workers rest before a step, and a table was added from a later one on. */
static void before_a_table_begins(void)
{
	struct ckpt_part *parts;
	struct world x;
	uint64_t at;
	size_t n;

	world_open(&x, "bsp", false, "sgd", 1, 2);
	step_of(&x, 0, 0, 10, 1);
	step_of(&x, 1, 0, 10, 1);
	ok(layout_grow(&x.layout, "w", 10, 3, NULL) == ERR_OK, "a table grows from step 3 on");
	x.layout.table[W].run[0].count = x.layout.table[W].nparts;
	ok(shard_install(x.shard, &x.layout, NULL, NULL) == ERR_OK &&
	        shard_snap_begin(x.shard, 1, &at) && shard_snap_take(x.shard) == SHARD_OK &&
	        shard_snap_parts(x.shard, &parts, &n),
	    "a snapshot of step 1 waits for no step: first possible one %llu",
	    (unsigned long long)at);
	ok(find(parts, n, "w", 1) && find(parts, n, "w", 1)->step == 1 &&
	        find(parts, n, "w", 0)->step == 1,
	    "and has all partitions");
	shard_snap_release(parts, n);
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

/* Another mode holds from a step on. */
static void change_mode(struct world *x, uint32_t number, uint64_t step, const char *mode)
{
	struct settings_epoch r = { .step = step, .number = number, .rule = optim_find("sgd") };

	sync_parse(mode, &r.mode, NULL);
	r.rule->defaults(&r.hyper);
	r.hyper.lr = 1;
	schedule_parse("constant", &r.schedule, NULL);
	shard_add_epoch(x->shard, &r);
	shard_end_vote(x->shard);
}

/* A snapshot of a step of asp is ordered while bsp ends, or when the next bsp has begun. */
static void of_another_mode(void)
{
	const struct ckpt_part *w;
	struct ckpt_part *parts;
	struct receipt r;
	struct world x;
	uint64_t at;
	size_t n;

	world_open(&x, "bsp", false, "sgd", 1, 2);
	change_mode(&x, 1, 1, "asp");
	change_mode(&x, 2, 2, "bsp");
	step_of(&x, 0, 0, 10, 1);
	ok(shard_snap_begin(x.shard, 1, &at) && shard_snap_take(x.shard) == SHARD_WAIT,
	    "a snapshot of asp is not taken while the last step of bsp is open");
	step_of(&x, 1, 0, 10, 1);
	ok(shard_snap_take(x.shard) == SHARD_OK && shard_snap_parts(x.shard, &parts, &n),
	    "but when it is closed");
	w = find(parts, n, "w", 0);
	ok(w && w->w[0] == -1 && w->last[0] == 1 && w->last[1] == 1,
	    "with the pushes of that step: %g", w ? (double)w->w[0] : 0.0);
	shard_snap_release(parts, n);
	for (uint32_t rank = 0; rank < 2; rank++)
		if (push_w(&x, rank, 1, 10, 1, &r) != SHARD_OK || clock_of(&x, rank, 1, 10))
			abort();
	ok(shard_snap_begin(x.shard, 1, &at) && shard_snap_take(x.shard) == SHARD_OK,
	    "it can be had until a step of the next bsp is closed");
	step_of(&x, 0, 2, 10, 1);
	step_of(&x, 1, 2, 10, 1);
	shard_snap_end(x.shard);
	ok(shard_snap_begin(x.shard, 1, &at) && shard_snap_take(x.shard) == SHARD_WAIT &&
	        shard_snap_is_late(x.shard, &at) && at == 3,
	    "and is late after that");
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

/* Another thread closes a step between the two halves of shard_snap_begin. */
static void of_a_step_that_has_passed(void)
{
	struct world x;
	uint64_t at = 0;

	world_open(&x, "bsp", false, "sgd", 1, 1);
	for (unsigned i = 0; i < 3; i++)
		step_of(&x, 0, i, 10, 1);
	snapshot_arm(x.shard, 2);
	step_of(&x, 0, 3, 10, 1);
	ok(shard_snap_due(x.shard) && shard_snap_take(x.shard) == SHARD_WAIT,
	    "values of step 3 are not saved as those of step 2");
	ok(shard_snap_is_late(x.shard, &at) && at == 4, "the snapshot is late");
	ok(shard_snap_begin(x.shard, 5, &at) && !shard_snap_is_late(x.shard, &at),
	    "the next one is not");
	world_close(&x);
}

enum { FAST_STEPS = 10000 };

/* A job with fast steps. */
struct runner {
	struct world *x;
	_Atomic uint64_t step;
	_Atomic bool ended;
};

static void *run_steps(void *ctx)
{
	struct runner *r = ctx;

	for (uint64_t i = 0; i < FAST_STEPS; i++) {
		step_of(r->x, 0, i, 10, 1);
		atomic_store(&r->step, i + 1);
	}
	atomic_store(&r->ended, true);
	return NULL;
}

/* Has every part the values of this step? Rate 1 and gradient 1: after n steps, w is -n. */
static bool are_of_step(const struct ckpt_part *parts, size_t n, uint64_t step)
{
	const struct ckpt_part *w = find(parts, n, "w", 0);
	bool same = w && w->w[0] == -(float)step;

	for (size_t i = 0; i < n; i++)
		same &= parts[i].step == step;
	return same;
}

/* Takes the snapshot of a step while the job runs. False: it was late. */
static bool take_running(struct world *x, uint64_t step, bool *right)
{
	enum shard_answer answer = SHARD_WAIT;
	struct ckpt_part *parts;
	uint64_t at;
	size_t n;

	if (!shard_snap_begin(x->shard, step, &at)) {
		*right = at > step;
		return false;
	}
	while (answer == SHARD_WAIT && !shard_snap_is_late(x->shard, &at))
		answer = shard_snap_take(x->shard);
	if (answer != SHARD_OK) {
		*right = answer == SHARD_WAIT && at > step;
		shard_snap_end(x->shard);
		return false;
	}
	*right = shard_snap_parts(x->shard, &parts, &n) && are_of_step(parts, n, step);
	shard_snap_release(parts, n);
	return true;
}

/* Steps close while a snapshot begins: it has the values of its step, or it is late. */
static void of_a_step_that_passes(void)
{
	unsigned whole = 0, late = 0, wrong = 0;
	struct runner r = { 0 };
	struct world x;
	pthread_t t;

	world_open(&x, "bsp", false, "sgd", 1, 1);
	r.x = &x;
	pthread_create(&t, NULL, run_steps, &r);
	while (!atomic_load(&r.ended)) {
		uint64_t step = atomic_load(&r.step) + (whole + late) % 2;
		bool right, taken;

		if (step > FAST_STEPS)
			continue;
		taken = take_running(&x, step, &right);
		whole += taken;
		late += !taken;
		wrong += !right;
	}
	pthread_join(t, NULL);
	ok(!wrong, "of %u snapshots of a running job, and %u that were late, %u are wrong", whole,
	    late, wrong);
	world_close(&x);
}

int main(void)
{
	of_a_step_that_has_passed();
	of_a_step_that_passes();
	between_two_steps();
	after_the_last_step();
	before_a_table_begins();
	of_the_open_step();
	ended();
	of_another_mode();
	ended_meanwhile();
	return tap_done();
}
