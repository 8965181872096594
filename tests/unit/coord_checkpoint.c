/* SPDX-License-Identifier: ISC */
/* One checkpoint, from its order until its files are there (coord/checkpoint.h): when it is asked again, and
 * when it is dropped. */
#include "coord/checkpoint.h"
#include "coord_fixture.h"

static const struct checkpoint_order requested = { .requested = true, .mark = 1 };

static void answer(struct scene *s, unsigned server, const char *state, unsigned first_free)
{
	say(s, &s->server[server],
	    "{\"op\":\"snap\",\"id\":%llu,\"state\":\"%s\",\"first_free\":%u,\"clocks\":{\"0\":9},\"description\":{}}",
	    (unsigned long long)coord_snap_id(s->c), state, first_free);
}

static enum checkpoint_action next(struct scene *s, struct err *e)
{
	*e = (struct err){ 0 };
	return checkpoint_next(s->c, s->now, e);
}

static void open_job(struct scene *s, const char *sync)
{
	scene_open(s, 2, 2);
	s->cfg.replicas = 1;
	s->cfg.lockstep = strcmp(sync, "bsp") == 0;
	json_object_set_new(s->config, "sync", json_string(sync));
	scene_begin(s);
	join_as_server(s, 0);
	join_as_server(s, 1);
	for (unsigned i = 0; i < 2; i++)
		say(s, &s->worker[i],
		    "{\"op\":\"worker_join\",\"rank\":%u,\"pid\":%u,\"host\":\"h\",\"examples\":100,\"tables\":"
		    "[{\"name\":\"w\",\"rows\":500000,\"cols\":1}]}",
		    i, 200 + i);
	ack_all(s);
}

static void reach(struct scene *s, unsigned step)
{
	for (unsigned i = 0; i < 2; i++)
		say(s, &s->worker[i], "{\"op\":\"beat\",\"stats\":{\"step\":%u}}", step);
}

static void is_made(void)
{
	struct scene s;
	struct err e;

	open_job(&s, "bsp");
	reach(&s, 5);
	checkpoint_begin(s.c, &requested);
	ok(next(&s, &e) == CHECKPOINT_AGAIN && coord_snap_step(s.c) == 7,
	    "in bsp it is asked for two steps ahead of the workers");
	ok(next(&s, &e) == CHECKPOINT_WAIT && !checkpoint_limit(s.c), "and waited for");
	answer(&s, 0, "late", 40);
	ok(next(&s, &e) == CHECKPOINT_AGAIN && coord_snap_step(s.c) == 43,
	    "a server is past the step: it is asked for a later one, %llu",
	    (unsigned long long)coord_snap_step(s.c));
	answer(&s, 0, "late", 100);
	ok(next(&s, &e) == CHECKPOINT_AGAIN && coord_snap_step(s.c) == 104,
	    "further ahead with each attempt: %llu", (unsigned long long)coord_snap_step(s.c));
	answer(&s, 0, "taken", 0);
	answer(&s, 1, "taken", 0);
	ok(next(&s, &e) == CHECKPOINT_WRITE && next(&s, &e) == CHECKPOINT_WRITE,
	    "the snapshot is taken: a directory is wanted");
	checkpoint_write(s.c, "dir", s.now);
	ok(next(&s, &e) == CHECKPOINT_WAIT && coord_snap_state(s.c) == SNAP_WRITING,
	    "the servers write");
	answer(&s, 0, "saved", 0);
	answer(&s, 1, "saved", 0);
	ok(next(&s, &e) == CHECKPOINT_COMMIT, "all files are there");
	checkpoint_end(s.c);
	ok(coord_snap_state(s.c) == SNAP_NONE, "it has ended");
	scene_close(&s);
}

static void fails(void)
{
	struct scene s;
	struct err e;

	scene_open(&s, 1, 2);
	scene_begin(&s);
	checkpoint_begin(s.c, &requested);
	ok(next(&s, &e) == CHECKPOINT_DROP && e.code == ERR_NOTREADY, "before the job: %s", e.msg);
	checkpoint_end(s.c);
	scene_close(&s);
	open_job(&s, "bsp");
	checkpoint_begin(s.c, &requested);
	next(&s, &e);
	say(&s, &s.server[0],
	    "{\"op\":\"snap\",\"id\":%llu,\"state\":\"failed\",\"message\":\"no space\"}",
	    (unsigned long long)coord_snap_id(s.c));
	ok(next(&s, &e) == CHECKPOINT_DROP && strstr(e.msg, "no space"), "a server fails: %s",
	    e.msg);
	checkpoint_end(s.c);
	checkpoint_begin(s.c, &requested);
	next(&s, &e);
	for (unsigned i = 1; i < 40; i++) {
		answer(&s, 0, "late", 10);
		ok(next(&s, &e) == CHECKPOINT_AGAIN, "attempt %u is late", i);
	}
	answer(&s, 0, "late", 10);
	ok(next(&s, &e) == CHECKPOINT_DROP && e.code == ERR_STOPPED, "the last of 40 is: %s",
	    e.msg);
	checkpoint_end(s.c);
	scene_close(&s);
}

/* By steps: at multiples of checkpoint_every, or not at all. */
static void by_steps(void)
{
	struct checkpoint_steps steps = { .every = 10 };
	struct checkpoint_order order = { .steps = &steps, .step = 20, .mark = 1 };
	struct scene s;
	struct err e;
	unsigned asked;

	open_job(&s, "bsp");
	reach(&s, 15);
	checkpoint_begin(s.c, &order);
	ok(next(&s, &e) == CHECKPOINT_AGAIN && coord_snap_step(s.c) == 20,
	    "it is asked for its step");
	answer(&s, 0, "late", 33);
	ok(next(&s, &e) == CHECKPOINT_AGAIN && coord_snap_step(s.c) % 10 == 0 &&
	        coord_snap_step(s.c) > 33,
	    "late, for a later multiple: %llu", (unsigned long long)coord_snap_step(s.c));
	answer(&s, 0, "late", 90);
	steps = (struct checkpoint_steps){ 0 };
	ok(next(&s, &e) == CHECKPOINT_DROP && e.code == ERR_STOPPED,
	    "with another checkpoint_every there is no next one: %s", e.msg);
	checkpoint_end(s.c);
	scene_close(&s);
	open_job(&s, "asp");
	reach(&s, 15);
	steps.every = 10;
	checkpoint_begin(s.c, &order);
	asked = s.proposals;
	ok(next(&s, &e) == CHECKPOINT_DROP && e.code == ERR_STOPPED,
	    "in asp it is not asked for before a worker is there: %s", e.msg);
	checkpoint_end(s.c);
	ok(s.proposals == asked,
	    "and no server hears of it, whose answer would lead to the next try");
	scene_close(&s);
}

/* The job is done at step 9, and a server does not answer. */
static void job_is_done(void)
{
	struct scene s;
	struct err e;

	open_job(&s, "bsp");
	reach(&s, 9);
	checkpoint_begin(s.c, &requested);
	next(&s, &e);
	ok(coord_snap_step(s.c) == 11, "it is asked for a step to come");
	for (unsigned i = 0; i < 2; i++)
		say(&s, &s.worker[i], "{\"op\":\"done\",\"steps\":9}");
	say(&s, &s.worker[evaluator_of(&s)], "{\"op\":\"result\",\"digest\":\"dd\"}");
	ok(next(&s, &e) == CHECKPOINT_AGAIN && coord_snap_step(s.c) == 9,
	    "which never comes: it is asked for the last step, %llu",
	    (unsigned long long)coord_snap_step(s.c));
	ok(next(&s, &e) == CHECKPOINT_WAIT && checkpoint_limit(s.c) == s.now + s.cfg.deadline,
	    "and waited for until the deadline");
	s.now += s.cfg.deadline;
	ok(next(&s, &e) == CHECKPOINT_DROP && strstr(e.msg, "step 9"), "then it is dropped: %s",
	    e.msg);
	checkpoint_end(s.c);
	scene_close(&s);
}

int main(void)
{
	is_made();
	fails();
	by_steps();
	job_is_done();
	return tap_done();
}
