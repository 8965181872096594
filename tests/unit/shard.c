/* SPDX-License-Identifier: ISC */
/* Partitions, gate and clocks of one server: what a step means in each mode,
 * what a push is answered, and that no order of arrival can change it. */
#include <math.h>

#include "shard/part.h"
#include "shard/shard_ops.h"
#include "shard_fixture.h"

/* ---- bsp ---- */

static void bsp_averages(void)
{
	struct world x;
	struct receipt r;

	world_open(&x, "bsp", false, "sgd", 1, 3);
	ok(push_w(&x, 0, 0, 10, 1, &r) == SHARD_OK && r.status == PUSH_MERGED,
	    "bsp: a push is merged");
	ok(pull_w(&x, SYNC_NEVER) == 0 && shard_closed(x.shard) == 0,
	    "and changes nothing by itself");
	clock_of(&x, 0, 0, 10);
	push_w(&x, 1, 0, 30, 2, &r);
	clock_of(&x, 1, 0, 30);
	ok(!shard_may_pull(x.shard, 1), "two of three are not enough");
	push_w(&x, 2, 0, 60, 4, &r);
	ok(!shard_may_pull(x.shard, 1), "nor the last push without its CLOCK");
	clock_of(&x, 2, 0, 60);
	ok(shard_may_pull(x.shard, 1) && shard_closed(x.shard) == 1,
	    "the last CLOCK closes the step");
	/* (10*1 + 30*2 + 60*4) / 100 */
	ok(fabsf(pull_w(&x, 1) + 3.1f) < 1e-6f, "with the mean weighted by examples: %.7f",
	    (double)pull_w(&x, 1));
	ok(version_of(x.shard, W, 0) == 1, "which is one update");
	ok(version_of(x.shard, BIG, 0) == 0, "a partition that nobody pushed has none");
	world_close(&x);
}

static void bsp_prefetch(void)
{
	struct world x;
	struct receipt r;
	float w[N];
	uint64_t version;

	world_open(&x, "bsp", false, "sgd", 1, 2);
	push_w(&x, 0, 0, 10, 1, &r);
	ok(shard_may_prefetch(x.shard, 1) &&
	        shard_pull(x.shard, W, 0, 1, w, &version) == SHARD_WAIT,
	    "a partition that not all have pushed to is not shown early");
	push_w(&x, 1, 0, 10, 3, &r);
	ok(!shard_may_pull(x.shard, 1) && shard_pull(x.shard, W, 0, 1, w, &version) == SHARD_OK &&
	        w[0] == -2 && version == 1,
	    "one that all have is, before any CLOCK");
	ok(shard_pull(x.shard, BIG, 1, 1, w, &version) == SHARD_WAIT, "and no other");
	ok(!shard_may_prefetch(x.shard, 2), "nor further ahead");
	ok(!shard_vote(x.shard, 1, inc_of(1), 1, false).yes,
	    "who takes part at that step is settled by the answer");
	ok(shard_vote(x.shard, 1, inc_of(1), 2, false).yes && shard_may_prefetch(x.shard, 1) &&
	        !shard_may_prefetch(x.shard, 2),
	    "at the next it is not yet");
	world_close(&x);
}

static void bsp_absent(void)
{
	struct world x;
	struct receipt r;
	float before;

	world_open(&x, "bsp", false, "sgd", 1, 3);
	before = pull_row(&x, SYNC_NEVER, 5);
	ok(fabsf(before) > 0 && fabsf(before) <= 0.5f && before != pull_row(&x, SYNC_NEVER, 6),
	    "a row that was never pushed has an initial value of its own");
	push_row(&x, 0, 0, 10, 5, 1, &r);
	clock_of(&x, 0, 0, 10);
	clock_of(&x, 1, 0, 30);
	clock_of(&x, 2, 0, 0);
	ok(shard_closed(x.shard) == 1,
	    "ranks that push nothing to a partition end the step by their CLOCK");
	/* A row that others' batches do not have has a zero gradient there. */
	ok(fabsf(pull_row(&x, 1, 5) - (before - 10.0f / 40.0f)) < 1e-6f,
	    "and their examples count in the mean");
	ok(step_of(&x, 0, 1, 64, 1) && clock_of(&x, 1, 1, 0) == SHARD_OK &&
	        clock_of(&x, 2, 1, 0) == SHARD_OK && pull_w(&x, 2) == -1,
	    "a rank with no examples in the last step weighs nothing");
	world_close(&x);
}

static void bsp_refused(void)
{
	struct world x;
	struct receipt r;
	struct shard_stats st;

	world_open(&x, "bsp", false, "sgd", 1, 2);
	ok(push_w(&x, 0, 0, 10, NAN, &r) == SHARD_OK && r.status == PUSH_REFUSED, "NaN is refused");
	clock_of(&x, 0, 0, 10);
	push_w(&x, 1, 0, 30, 2, &r);
	clock_of(&x, 1, 0, 30);
	ok(pull_w(&x, 1) == -2, "and counts as an empty contribution");
	ok(push_w(&x, 0, 1, 10, INFINITY, &r) == SHARD_OK && r.status == PUSH_REFUSED,
	    "so is infinity");
	clock_of(&x, 0, 1, 10);
	push_w(&x, 1, 1, 30, -INFINITY, &r);
	clock_of(&x, 1, 1, 30);
	ok(pull_w(&x, 2) == -2 && version_of(x.shard, W, 0) == 1,
	    "with nothing but refused pushes there is no update");
	shard_stats(x.shard, &st);
	ok(st.status[PUSH_REFUSED] == 3 && st.status[PUSH_MERGED] == 1, "refused ones are counted");
	world_close(&x);
}

static void bsp_again(void)
{
	struct world x;
	struct receipt r;

	world_open(&x, "bsp", false, "sgd", 1, 2);
	push_w(&x, 0, 0, 10, 1, &r);
	ok(push_w(&x, 0, 0, 10, 1, &r) == SHARD_OK && r.status == PUSH_DUPLICATE,
	    "the same push again is a duplicate");
	clock_of(&x, 0, 0, 10);
	ok(clock_of(&x, 0, 0, 10) == SHARD_OK, "the same CLOCK again is fine");
	push_w(&x, 1, 0, 10, 3, &r);
	clock_of(&x, 1, 0, 10);
	ok(pull_w(&x, 1) == -2, "and each counts once");
	ok(push_w(&x, 0, 0, 10, 1, &r) == SHARD_OK && r.status == PUSH_DUPLICATE,
	    "after the step has closed too");
	ok(push_w(&x, 0, 2, 10, 1, &r) == SHARD_WAIT,
	    "a push of a step that is not open yet waits");
	ok(clock_of(&x, 0, 2, 10) == SHARD_WAIT, "and so does its CLOCK");
	dismiss(x.shard, 1, 0);
	clock_of(&x, 0, 1, 0);
	admit(x.shard, 1, inc_of(1), 2);
	ok(push_w(&x, 1, 1, 10, 9, &r) == SHARD_OK && r.status == PUSH_LATE && pull_w(&x, 2) == -2,
	    "a first push of a step that has closed is late, and dropped");
	world_close(&x);
}

static void bsp_members(void)
{
	struct world x;
	struct receipt r;
	struct shard_vote v;

	world_open(&x, "bsp", false, "sgd", 1, 2);
	push_w(&x, 1, 0, 10, 5, &r);
	step_of(&x, 0, 0, 10, 1);
	ok(shard_closed(x.shard) == 0, "a rank without its CLOCK is waited for");
	dismiss(x.shard, 1, 0);
	ok(shard_closed(x.shard) == 1 && pull_w(&x, 1) == -3,
	    "until it is dismissed: what it had pushed is in the mean");
	ok(push_w(&x, 1, 1, 10, 5, &r) == SHARD_FENCED && clock_of(&x, 1, 1, 10) == SHARD_FENCED &&
	        shard_done(x.shard, 1, inc_of(1)) == SHARD_FENCED,
	    "a dismissed one is fenced");
	ok(step_of(&x, 0, 1, 10, 1) && pull_w(&x, 2) == -4, "the others go on");

	v = shard_vote(x.shard, 1, 777, 1, false);
	ok(!v.yes && v.first_free == 2,
	    "a change at a step that was pushed already is voted down, with the first free step told");
	v = shard_vote(x.shard, 1, 777, 3, false);
	ok(v.yes, "one beyond it is agreed to");
	ok(step_of(&x, 0, 2, 10, 1), "steps before it go on");
	ok(!shard_may_pull(x.shard, 3) && push_w(&x, 0, 3, 10, 1, &r) == SHARD_WAIT &&
	        clock_of(&x, 0, 3, 10) == SHARD_WAIT,
	    "from its step on nothing is taken");
	ok(!shard_incarnation_holds(x.shard, 1, 777), "before the decision the new one is not in");
	admit(x.shard, 1, 777, 3);
	shard_end_vote(x.shard);
	ok(shard_may_pull(x.shard, 3) && step_of(&x, 0, 3, 30, 1) && shard_closed(x.shard) == 3,
	    "then it is waited for");
	{
		float g[N] = { 5, 5, 5, 5 };
		struct push p = { .rank = 1,
			.incarnation = 777,
			.step = 3,
			.table = W,
			.examples = 10,
			.payload = (const uint8_t *)g,
			.len = sizeof g };

		ok(shard_push(x.shard, &p, &r) == SHARD_OK &&
		        shard_clock(x.shard, 1, 777, 3, 10) == SHARD_OK && pull_w(&x, 4) == -7,
		    "and counted in");
	}
	world_close(&x);
}

/* The step before the one from which a rank is held anew must not count the
 * examples that its former holder stated long ago. */
static void bsp_rank_again(void)
{
	struct world x;

	world_open(&x, "bsp", false, "sgd", 1, 2);
	step_of(&x, 0, 0, 10, 1);
	step_of(&x, 1, 0, 90, 1);
	dismiss(x.shard, 1, 0);
	step_of(&x, 0, 1, 10, 1);
	shard_vote(x.shard, 1, 500, 3, false);
	admit(x.shard, 1, 500, 3);
	shard_end_vote(x.shard);
	step_of(&x, 0, 2, 10, 1);
	ok(shard_closed(x.shard) == 3 && pull_w(&x, 3) == -3,
	    "a rank that is held anew has no examples from before: %g", (double)pull_w(&x, 3));
	world_close(&x);
}

static void done_stays_done(const char *mode)
{
	struct world x;

	world_open(&x, mode, false, "sgd", 1, 2);
	ok(shard_done(x.shard, 1, inc_of(1)) == SHARD_OK, "%s: DONE is taken", mode);
	/* The next view may have been written before the coordinator knew. */
	admit(x.shard, 1, inc_of(1), 0);
	clock_of(&x, 0, 0, 1);
	clock_of(&x, 0, 1, 1);
	ok(shard_may_pull(x.shard, 2),
	    "%s: and is not undone by a view that still calls the rank active", mode);
	world_close(&x);
}

/* ---- deterministic ---- */

/* Sums that round differently in another order, pushed in two orders. */
static float in_order(const uint32_t order[static 3], unsigned *held)
{
	static const float value[3] = { 1e8f, 1, -1e8f };
	struct world x;
	struct receipt r;
	bool done[3] = { 0 };
	float w;

	world_open(&x, "bsp", true, "sgd", 1, 3);
	for (unsigned left = 3; left;)
		for (unsigned i = 0; i < 3; i++) {
			uint32_t s = order[i];

			if (done[s])
				continue;
			if (push_w(&x, s, 0, 1, value[s], &r) == SHARD_WAIT) {
				++*held;
				continue;
			}
			done[s] = true;
			left--;
		}
	for (uint32_t s = 0; s < 3; s++)
		clock_of(&x, s, 0, 1);
	w = pull_w(&x, 1);
	world_close(&x);
	return w;
}

static void deterministic_order(void)
{
	static const uint32_t order[6][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 }, { 1, 2, 0 },
		{ 2, 0, 1 }, { 2, 1, 0 } };
	unsigned held = 0, differ = 0;
	float first = in_order(order[0], &held);

	ok(held == 0, "deterministic: pushes in the order of ranks are taken at once");
	for (unsigned i = 1; i < 6; i++)
		differ += in_order(order[i], &held) != first;
	ok(!differ && held > 0,
	    "in any other they wait for their turn, and the sum has the same bits (%u waited)",
	    held);
}

/* A worker that is replaced at step c gets the version of step c. */
static void previous_version(void)
{
	struct world x;
	struct receipt r;
	struct shard_vote v;
	float before, row, now;

	world_open(&x, "bsp", true, "sgd", 1, 2);
	step_of(&x, 0, 0, 10, 1);
	step_of(&x, 1, 0, 10, 1);
	before = pull_w(&x, 1);
	row = pull_row(&x, 1, 9);
	push_w(&x, 0, 1, 10, 4, &r);
	push_row(&x, 0, 1, 10, 9, 1, &r);
	push_w(&x, 1, 1, 10, 4, &r);
	push_row(&x, 1, 1, 10, 9, 1, &r);
	ok(shard_closed(x.shard) == 1 && pull_w(&x, SYNC_NEVER) == before - 4,
	    "a partition makes its update when all have pushed, before all have sent CLOCK");
	v = shard_vote(x.shard, 1, 900, 0, true);
	ok(v.yes && v.clock == 1, "the vote on a resumed rank tells its clock");
	admit(x.shard, 1, 900, v.clock);
	ok(pull_w(&x, 1) == before, "the new holder pulls what the old one had at that step");
	now = pull_row(&x, SYNC_NEVER, 9);
	ok(pull_row(&x, 1, 9) == row && now == row - 1, "of sparse rows too (%g, now %g)",
	    (double)row, (double)now);
	ok(pull_row(&x, 1, 11) == pull_row(&x, SYNC_NEVER, 11),
	    "and of rows that the step did not touch");
	ok(push_w(&x, 1, 1, 10, 4, &r) == SHARD_FENCED, "the old one is fenced");
	{
		float g[N] = { 4, 4, 4, 4 };
		struct push p = { .rank = 1,
			.incarnation = 900,
			.step = 1,
			.table = W,
			.examples = 10,
			.payload = (const uint8_t *)g,
			.len = sizeof g };

		ok(shard_push(x.shard, &p, &r) == SHARD_OK && r.status == PUSH_DUPLICATE,
		    "what the old one had pushed, the new one pushes for nothing");
	}
	clock_of(&x, 0, 1, 10);
	shard_clock(x.shard, 1, 900, 1, 10);
	ok(shard_closed(x.shard) == 2 && pull_w(&x, 2) == before - 4,
	    "and the step closes as if nothing had been");
	world_close(&x);
}

/* ---- ssp, asp ---- */

static void at_once(void)
{
	struct world x;
	struct receipt r;

	world_open(&x, "ssp:1", false, "sgd", 0.5f, 2);
	ok(push_w(&x, 0, 0, 10, 1, &r) == SHARD_OK && r.status == PUSH_APPLIED && r.version == 1 &&
	        pull_w(&x, 0) == -0.5f,
	    "ssp applies a push on arrival, whatever its examples");
	ok(push_w(&x, 0, 0, 10, 1, &r) == SHARD_OK && r.status == PUSH_DUPLICATE &&
	        pull_w(&x, 0) == -0.5f,
	    "once");
	clock_of(&x, 0, 0, 10);
	ok(shard_may_pull(x.shard, 1), "one step ahead is allowed by ssp:1");
	push_w(&x, 0, 1, 10, 1, &r);
	clock_of(&x, 0, 1, 10);
	ok(!shard_may_pull(x.shard, 2), "two are not");
	push_w(&x, 1, 0, 10, 1, &r);
	ok(r.staleness == 2, "a push that was computed from version 0 and found 2 is 2 stale (%u)",
	    r.staleness);
	clock_of(&x, 1, 0, 10);
	ok(shard_may_pull(x.shard, 2) && shard_closed(x.shard) == UINT64_MAX,
	    "the slow one's CLOCK lets the fast one go on");
	ok(push_w(&x, 1, 1, 10, NAN, &r) == SHARD_OK && r.status == PUSH_REFUSED && r.version == 3,
	    "NaN is refused here too");
	shard_done(x.shard, 1, inc_of(1));
	clock_of(&x, 0, 2, 10);
	clock_of(&x, 0, 3, 10);
	ok(shard_may_pull(x.shard, 4), "who is DONE holds nobody up");
	world_close(&x);

	world_open(&x, "asp", false, "sgd", 1, 2);
	for (uint64_t s = 0; s < 50; s++) {
		push_w(&x, 0, s, 1, 1, &r);
		clock_of(&x, 0, s, 1);
	}
	ok(shard_may_pull(x.shard, 50) && pull_w(&x, 50) == -50, "asp never waits");
	ok(push_w(&x, 1, 0, 1, 1, &r) == SHARD_OK && r.status == PUSH_APPLIED && r.staleness == 50,
	    "and takes a push that is 50 updates old");
	world_close(&x);
}

/* What a rank says at its CLOCK that it has pushed is waited for, and not when the rank
 * has another holder. */
static void announced_pushes_are_awaited(void)
{
	struct world x;
	struct receipt r;
	uint64_t version;
	float w[N];

	world_open(&x, "ssp:1", false, "sgd", 0.5f, 2);
	shard_expect(x.shard, 1, inc_of(1), 0, W, 0, 1);
	for (uint64_t step = 0; step < 3; step++) {
		push_w(&x, 0, step, 10, 1, &r);
		clock_of(&x, 0, step, 10);
		clock_of(&x, 1, step, 10);
	}
	ok(shard_pull(x.shard, W, 0, 1, w, &version) == SHARD_OK &&
	        shard_pull(x.shard, W, 0, 2, w, &version) == SHARD_WAIT,
	    "a push that its CLOCK tells of, and which is not here, is waited for when it is too old");
	admit(x.shard, 1, 4711, 3);
	ok(shard_pull(x.shard, W, 0, 3, w, &version) == SHARD_OK,
	    "it will not come when who pushed it has been replaced");
	world_close(&x);
}

static void outside(void)
{
	struct world x;
	float g[N] = { 1, 1, 1, 1 };
	struct push p = { .rank = SHARD_OUTSIDE,
		.step = 0,
		.table = W,
		.payload = (const uint8_t *)g,
		.len = sizeof g };
	struct receipt r;

	world_open(&x, "bsp", false, "sgd", 1, 1);
	ok(shard_push(x.shard, &p, &r) == SHARD_OK && r.status == PUSH_APPLIED &&
	        shard_push(x.shard, &p, &r) == SHARD_OK && pull_w(&x, SYNC_NEVER) == -2,
	    "a push from outside the job is applied on arrival, each time");
	ok(step_of(&x, 0, 0, 4, 1) && pull_w(&x, 1) == -3, "and stands outside the waits");
	world_close(&x);
}

/* ---- what is malformed ---- */

static void malformed(void)
{
	struct world x;
	struct receipt r;
	float g[N] = { 1, 1, 1, 1 };

	world_open(&x, "bsp", false, "sgd", 1, 1);
	ok(push_dense(&x, W, 0, 0, 0, 1, g, N - 1, &r) == SHARD_BAD,
	    "a push that is too short is malformed");
	ok(push_dense(&x, W, 1, 0, 0, 1, g, N, &r) == SHARD_BAD &&
	        push_dense(&x, 9, 0, 0, 0, 1, g, N, &r) == SHARD_BAD,
	    "so is one to a partition or table that is not here");
	ok(push_dense(&x, W, 0, 0, 0, 0, g, N, &r) == SHARD_BAD, "or with no examples");
	ok(push_dense(&x, W, 0, 5, 0, 1, g, N, &r) == SHARD_FENCED &&
	        push_dense(&x, W, 0, UINT32_MAX - 1, 0, 1, g, N, &r) == SHARD_FENCED,
	    "a rank that nobody holds is fenced");
	ok(pull_w(&x, SYNC_NEVER) == 0 && push_w(&x, 0, 0, 1, 1, &r) == SHARD_OK,
	    "and none of it changed anything");
	world_close(&x);
}

/* Wakes for the pushes and CLOCKs of a step of so many ranks, each of which has asked for
 * the next beforehand, and whether all can have it then. */
static unsigned wakes_of_step(const char *mode, bool deterministic, uint32_t ranks, bool *shown)
{
	struct world x;
	struct receipt r;
	uint64_t version;
	unsigned before;
	float w[N];

	world_open(&x, mode, deterministic, "sgd", 1, ranks);
	before = atomic_load(&x.wakes);
	for (uint32_t i = 0; i < ranks; i++) {
		push_w(&x, i, 0, 1, 1, &r);
		if (shard_may_prefetch(x.shard, 1))
			shard_pull(x.shard, W, 0, 1, w, &version);
		clock_of(&x, i, 0, 1);
	}
	*shown = shard_may_pull(x.shard, 1) &&
	    shard_pull(x.shard, W, 0, 1, w, &version) == SHARD_OK;
	before = atomic_load(&x.wakes) - before;
	world_close(&x);
	return before;
}

/* Each wake looks at everybody: were there one for each push, a step of n ranks took n * n. */
static void wakes(void)
{
	bool shown, more;
	unsigned few = wakes_of_step("bsp", false, 4, &shown),
	         many = wakes_of_step("bsp", false, 64, &more);

	ok(shown && more && few >= 1 && many == few,
	    "bsp: a step of 64 ranks wakes as often as one of 4: %u, %u", few, many);
	few = wakes_of_step("ssp:0", false, 4, &shown);
	many = wakes_of_step("ssp:0", false, 64, &more);
	ok(shown && more && few >= 1 && many >= few, "ssp: somebody is woken: %u, %u", few, many);
	wakes_of_step("bsp", true, 64, &shown);
	ok(shown, "deterministic: the step comes");
}

/* What has ranks out of order, holes and takers-over still closes with the last one. */
static void last_of_many(void)
{
	struct world x;
	struct receipt r;
	enum { RANKS = 50 };
	bool early = false;

	world_open(&x, "bsp", false, "sgd", 1, RANKS);
	for (uint64_t step = 0; step < 3; step++)
		for (uint32_t k = 0; k < RANKS; k++) {
			uint32_t rank = (uint32_t)((k * 17 + step * 7) % RANKS);

			early |= shard_closed(x.shard) > step;
			/* Every fifth has nothing to push. */
			if (rank % 5)
				push_w(&x, rank, step, 1, 1, &r);
			clock_of(&x, rank, step, rank % 5 ? 1 : 0);
		}
	ok(!early && shard_closed(x.shard) == 3 && version_of(x.shard, W, 0) == 3,
	    "50 ranks in any order: each step closes with its last");
	/* One is gone in the middle of a step: the others' last word closes it. */
	for (uint32_t rank = 0; rank < RANKS; rank++)
		if (rank != 13)
			clock_of(&x, rank, 3, 1);
	ok(shard_closed(x.shard) == 3, "a rank that says nothing holds the step");
	dismiss(x.shard, 13, 3);
	ok(shard_closed(x.shard) == 4, "until it is dismissed");
	world_close(&x);
}

/* The row after a step with a counted push (3 of 10 examples touch it) and one that counts nothing, by
 * its share of the row before. */
static float half_counted(bool counted_first)
{
	struct world x;
	struct receipt r;
	float was;

	fixture_l2 = 0.5f;
	world_open(&x, "bsp", false, "sgd", 1, 2);
	fixture_l2 = 0;
	was = pull_row(&x, SYNC_NEVER, 5);
	if (counted_first)
		push_counted(&x, 0, 0, 10, 5, 0, 3, &r);
	push_row(&x, 1, 0, 10, 5, 0, &r);
	if (!counted_first)
		push_counted(&x, 0, 0, 10, 5, 0, 3, &r);
	clock_of(&x, 0, 0, 10);
	clock_of(&x, 1, 0, 10);
	was = pull_row(&x, 1, 5) / was;
	world_close(&x);
	return was;
}

static void counts(void)
{
	float a = half_counted(true), b = half_counted(false);

	ok(fabsf(a - (1 - 0.5f * 13 / 20)) < 1e-6f,
	    "all examples of a push that counts none touch its rows: %.7f", (double)a);
	ok(a == b, "in any order of the pushes: %.7f, %.7f", (double)a, (double)b);
}

static unsigned failures_left, asked;

/* For shard_ops.init: a disk that fails. */
static enum err_code fail_to_read(struct part *p, struct shard *s, struct err *e)
{
	if (failures_left) {
		failures_left--;
		return err_set(e, ERR_IO, "the disk fails");
	}
	return part_init(p, s, e);
}

/* For shard_config.read_again: up to three times. */
static bool read_thrice(void *ctx, struct read_retry *r, struct err *e)
{
	(void)ctx;
	(void)r;
	if (++asked <= 3)
		return true;
	err_set(e, ERR_STOPPED, "enough");
	return false;
}

/* Installs a layout whose values cannot be read `failures` times. */
static enum err_code install_from_bad_disk(unsigned failures, bool again, struct err *e)
{
	struct shard_ops ops = shard_store_ops;
	struct shard_config cfg = { .rule = optim_find("sgd"),
		.ops = &ops,
		.wake = count_wake,
		.read_again = again ? read_thrice : NULL };
	struct world x = { 0 };
	enum err_code rc;

	ops.init = fail_to_read;
	failures_left = failures;
	asked = 0;
	cfg.ctx = &x;
	cfg.rule->defaults(&cfg.hyper);
	mode_of("asp", &cfg);
	schedule_parse("constant", &cfg.schedule, NULL);
	add_table(&x, "w", false, N, 1);
	layout_place(&x.layout, (const uint16_t[]){ 0 }, 1, 1);
	if (shard_new(&cfg, &x.shard, e))
		abort();
	rc = shard_install(x.shard, &x.layout, NULL, e);
	world_close(&x);
	return rc;
}

static void bad_disk(void)
{
	struct err e = { 0 };

	ok(!install_from_bad_disk(3, true, &e) && asked == 3,
	    "values that cannot be read are read again");
	ok(install_from_bad_disk(9, true, &e) == ERR_STOPPED && asked == 4 &&
	        strcmp(e.msg, "enough") == 0,
	    "until the owner of the shard does not want it");
	ok(install_from_bad_disk(1, false, &e) == ERR_IO && !asked,
	    "without an owner who wants it they are not");
}

int main(void)
{
	bad_disk();
	wakes();
	last_of_many();
	bsp_averages();
	bsp_prefetch();
	bsp_absent();
	bsp_refused();
	bsp_again();
	bsp_members();
	bsp_rank_again();
	done_stays_done("bsp");
	done_stays_done("ssp:0");
	deterministic_order();
	previous_version();
	at_once();
	announced_pushes_are_awaited();
	outside();
	malformed();
	counts();
	return tap_done();
}
