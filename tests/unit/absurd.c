/* SPDX-License-Identifier: ISC */
/* Steps that no honest worker is at: they move no vote, hold up no change, and leave nothing behind
 * for the next holder of the rank. */
#include "core/steps.h"
#include "shard_fixture.h"
#include "wire/record.h"

#define FAR (UINT64_C(1000000000000000))

static void rule(void)
{
	struct steps s = { 0 };

	steps_add(&s, 20000000, true);
	steps_add(&s, 0, false);
	ok(steps_believe(&s, 20000000, true, 20000000),
	    "a worker with nobody beside it is believed");
	steps_add(&s, 30, false);
	ok(!steps_believe(&s, 20000000, true, 20000000) &&
	        steps_believe(&s, 20000000, true, STEPS_LEAP + 30 * STEPS_RATIO),
	    "with one that is gone: up to the leap and so many times as far");
	steps_add(&s, 100000, true);
	ok(steps_believe(&s, 20000000, true, 20000000) && steps_believe(&s, 100000, true, 100000),
	    "the active ones are the measure, where there are others");
	steps_add(&s, FAR, true);
	ok(!steps_believe(&s, FAR, true, FAR) && steps_believe(&s, 20000000, true, 20000000),
	    "what is absurd is so beside the others");
	ok(!steps_believe(&s, FAR, true, UINT64_MAX), "nothing overflows");
}

static struct sync three(const struct sync_ops *ops)
{
	struct sync s;

	sync_init(&s, (struct sync_mode){ .ops = ops, .staleness = 2 });
	for (size_t i = 0; i < 3; i++)
		sync_at(&s, i)->active = true;
	return s;
}

static void first_free(const struct sync_ops *ops, const char *name)
{
	struct sync s = three(ops);

	s.rank[0].pushed_end = 1000;
	sync_clock(&s, 1, 899, 1);
	s.rank[2].pushed_end = FAR;
	ok(sync_first_free(&s) == 1000,
	    "%s: a push of step 10^15 does not move the first free step", name);
	s.rank[2].pushed_end = 5;
	sync_clock(&s, 2, FAR, 1);
	ok(sync_first_free(&s) == 1000, "nor does such a CLOCK");
	sync_note_answer(&s, FAR);
	ok(sync_first_free(&s) == 1000, "nor a pull");
	sync_note_answer(&s, 1200);
	ok(sync_first_free(&s) == 1201, "one that can be does");
	s.rank[2].active = false;
	ok(sync_first_free(&s) == 1201, "the same when the worker is out");
	s.rank[1].active = false;
	ok(sync_first_free(&s) == 1201, "and when one is left");
	s.rank[0].active = false;
	ok(sync_first_free(&s) == 1201, "and when nobody is");
	s.rank[2].active = true;
	ok(sync_first_free(&s) == 1201, "and when it is alone");
	sync_begin_holder(&s, 2, 1300);
	ok(s.rank[2].clock == 1300 && s.rank[2].pushed_end == 5,
	    "of its steps nothing stays for the rank's next holder");
	sync_release(&s);
}

static void bsp(void)
{
	struct sync s = three(&sync_bsp);

	s.closed = 10;
	for (size_t i = 0; i < 2; i++) {
		s.rank[i].pushed_end = 11;
		s.rank[i].clock = 11;
	}
	sync_clock(&s, 2, 1000, 1);
	ok(sync_first_free(&s) == 11,
	    "bsp: a CLOCK beyond what can be closed does not move the first free step");
	s.rank[2].active = false;
	s.closed = 11;
	s.rank[0].active = s.rank[1].active = false;
	ok(sync_completed(&s) <= s.closed, "nor is anything closed for it when nobody is left");
	sync_end_holder(&s, 2, 12);
	ok(s.rank[2].clocked_end == 1001, "what is within the leap is what CLOCKs told");
	s.rank[2].clocked_end = FAR;
	sync_end_holder(&s, 2, 12);
	ok(s.rank[2].clocked_end == 11, "an absurd one has told nothing");
	sync_release(&s);
}

static void rank_again(const char *mode)
{
	struct world x;
	struct receipt r;
	float before;

	world_open(&x, mode, false, "sgd", 1, 2);
	push_w(&x, 0, 0, 1, 1, &r);
	clock_of(&x, 0, 0, 1);
	ok(push_w(&x, 1, FAR, 1, 1, &r) == SHARD_OK && clock_of(&x, 1, FAR, 1) == SHARD_OK,
	    "%s: a worker pushes at step 10^15", mode);
	ok(shard_vote(x.shard, 1, inc_of(1), 2, false).yes,
	    "a vote on step 2 passes: the worker's own loss");
	dismiss(x.shard, 1, 2);
	shard_end_vote(x.shard);
	ok(shard_vote(x.shard, 1, 900, 3, false).yes, "and on step 3: another one takes its rank");
	admit(x.shard, 1, 900, 3);
	shard_end_vote(x.shard);
	before = pull_w(&x, SYNC_NEVER);
	shard_push(x.shard,
	    &(struct push){ .rank = 1,
	        .incarnation = 900,
	        .step = 3,
	        .table = W,
	        .examples = 1,
	        .payload = (const uint8_t *)(const float[N]){ 2, 2, 2, 2 },
	        .len = N * sizeof(float) },
	    &r);
	ok(r.status == PUSH_APPLIED && pull_w(&x, SYNC_NEVER) < before,
	    "whose pushes are no duplicates");
	shard_push(x.shard,
	    &(struct push){ .rank = 1,
	        .incarnation = 900,
	        .step = 3,
	        .table = W,
	        .examples = 1,
	        .payload = (const uint8_t *)(const float[N]){ 2, 2, 2, 2 },
	        .len = N * sizeof(float) },
	    &r);
	ok(r.status == PUSH_DUPLICATE, "but when they come again");
	world_close(&x);
}

static void held_push(void)
{
	struct world x;
	struct receipt r;

	world_open(&x, "bsp", false, "sgd", 1, 2);
	ok(push_w(&x, 1, FAR, 1, 1, &r) == SHARD_WAIT, "bsp: a push of step 10^15 waits");
	ok(shard_vote(x.shard, SHARD_OUTSIDE, 0, 1, false).yes, "and moves no vote");
	shard_end_vote(x.shard);
	push_w(&x, 0, 0, 1, 1, &r);
	clock_of(&x, 0, 0, 1);
	dismiss(x.shard, 1, 1);
	shard_done(x.shard, 0, inc_of(0));
	ok(shard_closed(x.shard) == 1, "nor is it closed when all are gone");
	world_close(&x);
}

static void claim(const char *mode)
{
	struct world x;

	world_open(&x, mode, false, "sgd", 1, 2);
	shard_expect(x.shard, 1, inc_of(1), FAR, W, 0, 1);
	ok(shard_own_pushes(x.shard, W, 0, 1, inc_of(1), FAR) == SHARD_OK &&
	        shard_own_pushes(x.shard, W, 0, 1, inc_of(1), FAR + 1) == SHARD_WAIT,
	    "%s: what is still to come of a claim of step 10^15 is found at once", mode);
	world_close(&x);
}

static void on_the_wire(void)
{
	struct record r = { .type = REC_PUSH, .step = STEPS_END };

	ok(record_step_is_absurd(&r), "a push of step 2^62 is refused");
	r.flags = RECORD_NOW;
	ok(!record_step_is_absurd(&r), "one that is outside of the steps is not");
	r = (struct record){ .type = REC_CLOCK, .step = STEPS_END - 1 };
	ok(!record_step_is_absurd(&r), "nor the step before");
	r = (struct record){ .type = REC_SCAN, .step = UINT64_MAX };
	ok(!record_step_is_absurd(&r), "nor where the number is no step");
}

int main(void)
{
	rule();
	first_free(&sync_asp, "asp");
	first_free(&sync_ssp, "ssp");
	bsp();
	rank_again("asp");
	rank_again("ssp:2");
	held_push();
	claim("asp");
	claim("ssp:2");
	on_the_wire();
	return tap_done();
}
