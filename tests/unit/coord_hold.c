/* SPDX-License-Identifier: ISC */
/* A hold: the workers of a job rest for its last checkpoint, and it ends with its coordinator. */
#include "coord_fixture.h"

static int64_t view_int(const struct scene *s, const char *key)
{
	json_t *v = coord_view(s->c);
	int64_t n = json_int(v, key, 0);

	json_decref(v);
	return n;
}

static void open_in(struct scene *s, const char *sync)
{
	scene_open(s, 1, 2);
	s->cfg.lockstep = strcmp(sync, "bsp") == 0;
	json_object_set_new(s->config, "sync", json_string(sync));
	scene_run(s);
}

/* Each worker reports that it rests before its step. */
static void rest_at(struct scene *s, long long first, long long second)
{
	int64_t number = view_int(s, "paused");

	say(s, &s->worker[0], "{\"op\":\"beat\",\"stats\":{\"step\":%lld,\"paused\":%lld}}", first,
	    (long long)number);
	say(s, &s->worker[1], "{\"op\":\"beat\",\"stats\":{\"step\":%lld,\"paused\":%lld}}", second,
	    (long long)number);
}

static int64_t told_step(const struct scene *s, bool by_result)
{
	json_t *o = by_result ? coord_result(s->c, s->now) : coord_status(s->c, s->now);
	int64_t step = json_int(o, by_result ? "steps" : "step", -1);

	json_decref(o);
	return step;
}

static void held_and_stopped(const char *sync, long long first, long long second, long long last)
{
	struct scene s;
	uint64_t step = 0;

	open_in(&s, sync);
	ok(!coord_hold(s.c, "ps-ctl stop", s.now, NULL) && view_int(&s, "paused") == 1,
	    "%s: a hold makes the workers rest", sync);
	ok(!coord_is_at_rest(s.c, &step), "%s: they do not rest before they say so", sync);
	rest_at(&s, first, second);
	ok(coord_is_at_rest(s.c, &step) && step == (uint64_t)last, "%s: they rest at step %lld",
	    sync, last);
	coord_stop_saved(s.c, step, "ps-ctl stop", s.now);
	ok(told_step(&s, false) == last && told_step(&s, true) == last,
	    "%s: status and result name the step of the checkpoint", sync);
	say(&s, &s.worker[0], "{\"op\":\"leave\",\"steps\":%lld}", first + 7);
	ok(told_step(&s, false) == last && told_step(&s, true) == last,
	    "%s: a worker that ends later does not change it", sync);
	scene_close(&s);
}

/* In bsp, a worker may end early, as by SIGTERM, and the others go on without it. */
static void ended_early(void)
{
	struct scene s;
	uint64_t step = 0;

	open_in(&s, "bsp");
	say(&s, &s.worker[0], "{\"op\":\"beat\",\"stats\":{\"step\":1}}");
	say(&s, &s.worker[0], "{\"op\":\"done\",\"steps\":1}");
	say(&s, &s.worker[1], "{\"op\":\"beat\",\"stats\":{\"step\":9}}");
	ok(told_step(&s, false) == 9, "a worker that ended at step 1 is not where the job is: %lld",
	    (long long)told_step(&s, false));
	say(&s, &s.worker[1], "{\"op\":\"done\",\"steps\":11}");
	say(&s, &s.worker[evaluator_of(&s)], "{\"op\":\"result\",\"digest\":\"dd\"}");
	ok(coord_is_at_rest(s.c, &step) && step == 11,
	    "a checkpoint of the job that is done is of step %llu", (unsigned long long)step);
	ok(told_step(&s, false) == 11 && told_step(&s, true) == 11,
	    "which status and result name, too");
	scene_close(&s);
}

static void given_up(void)
{
	struct scene s;

	open_in(&s, "bsp");
	coord_release_hold(s.c);
	ok(!happened(&s, "resumed"), "a release without a hold does nothing");
	coord_hold(s.c, "ps-ctl stop", s.now, NULL);
	coord_release_hold(s.c);
	ok(!coord_is_held(s.c) && !view_int(&s, "paused") && happened(&s, "resumed: "),
	    "a job that is released continues");
	coord_hold(s.c, "ps-ctl stop", s.now, NULL);
	ok(view_int(&s, "paused") == 2, "the next hold is another pause");
	coord_pause(s.c, false, "admin", s.now, NULL);
	ok(!coord_is_held(s.c) && !view_int(&s, "paused"), "a user may resume a job that is held");
	coord_hold(s.c, "ps-ctl stop", s.now, NULL);
	rest_at(&s, 5, 5);
	coord_pause(s.c, true, "admin", s.now, NULL);
	ok(view_int(&s, "paused") == 3, "a pause of a job that is held wakes nobody");
	coord_release_hold(s.c);
	ok(view_int(&s, "paused") == 3, "a job that a user has paused meanwhile stays paused");
	scene_close(&s);
}

static void paused_before(void)
{
	struct scene s;
	uint64_t step = 0;

	open_in(&s, "bsp");
	coord_pause(s.c, true, "admin", s.now, NULL);
	rest_at(&s, 9, 9);
	coord_hold(s.c, "ps-ctl stop", s.now, NULL);
	ok(coord_is_at_rest(s.c, &step) && step == 9,
	    "workers that rest already need not come to rest");
	coord_release_hold(s.c);
	ok(view_int(&s, "paused") == 1, "a job that a user had paused stays paused");
	coord_hold(s.c, "ps-ctl stop", s.now, NULL);
	ok(scene_again(&s) && view_int(&s, "paused") == 1 && !coord_is_held(s.c),
	    "also after a restart of the coordinator");
	scene_close(&s);
}

static void coordinator_restarts(void)
{
	struct scene s;

	open_in(&s, "bsp");
	coord_hold(s.c, "ps-ctl stop", s.now, NULL);
	ok(scene_again(&s) && !coord_is_held(s.c) && !view_int(&s, "paused"),
	    "a hold ends with its coordinator");
	coord_hold(s.c, "ps-ctl stop", s.now, NULL);
	ok(view_int(&s, "paused") == 2, "the hold of the next one is another pause");
	scene_close(&s);
}

static void refused(void)
{
	struct scene s;
	struct err e = { 0 };

	scene_open(&s, 1, 2);
	scene_begin(&s);
	ok(coord_hold(s.c, "ps-ctl stop", s.now, &e) == ERR_NOTREADY && !coord_is_held(s.c),
	    "a job that has not begun is not held");
	scene_close(&s);
}

int main(void)
{
	held_and_stopped("bsp", 12, 12, 12);
	held_and_stopped("ssp:3", 12, 10, 12);
	held_and_stopped("asp", 40, 12, 40);
	ended_early();
	given_up();
	paused_before();
	coordinator_restarts();
	refused();
	return tap_done();
}
