/* SPDX-License-Identifier: ISC */
/* Workers that keep the others waiting, by hanging in their step or by an absurd one. */
#include "coord_fixture.h"

static void step_beat(struct scene *s, unsigned i, long long step, const char *doing,
    double seconds)
{
	say(s, &s->worker[i],
	    "{\"op\":\"beat\",\"stats\":{\"step\":%lld,\"doing\":\"%s\",\"doing_seconds\":%g}}",
	    step, doing, seconds);
}

struct life {
	long long step;
	const char *doing;
};

/* Workers do the same for so long: their heartbeats say so. */
static void go_on(struct scene *s, double seconds, const struct life *w, unsigned n)
{
	int64_t begin = s->now;

	while (s->now - begin < (int64_t)(seconds * 1e9)) {
		beat_servers(s);
		for (unsigned i = 0; i < n; i++)
			step_beat(s, i, w[i].step, w[i].doing, (double)(s->now - begin) / 1e9);
		pass(s, 0.2);
	}
}

static void open_in(struct scene *s, const char *sync, unsigned workers)
{
	scene_open(s, 1, workers);
	json_object_set_new(s->config, "sync", json_string(sync));
	scene_run(s);
}

static void absurd_step(void)
{
	struct scene s;

	open_in(&s, "asp", 3);
	step_beat(&s, 0, 100, "compute", 0);
	step_beat(&s, 1, 90, "compute", 0);
	step_beat(&s, 2, 1000000000000000, "compute", 0);
	ok(coord_newest_step(s.c) == 100,
	    "asp: a worker that says to be at step 10^15 is not believed");
	say(&s, &s.worker[2], "{\"op\":\"leave\"}");
	ok(json_int(s.proposal[0], "step", 0) == 101,
	    "a change is proposed for a step that is reached");
	vote(&s, 0, true, 100, 0);
	ok(coord_newest_step(s.c) == 100, "nor is it when it is out");
	step_beat(&s, 0, -1, "compute", 0);
	ok(coord_newest_step(s.c) == 90, "a number that is no step is none");
	step_beat(&s, 0, INT64_MAX, "compute", 0);
	ok(coord_newest_step(s.c) == 90, "nor is 2^63 - 1");
	scene_close(&s);
}

static void hangs(const char *sync, long long ahead)
{
	const struct life w[] = { { 7 + ahead, "wait" }, { 7, "compute" }, { 7 + ahead, "wait" } };
	struct scene s;

	open_in(&s, sync, 3);
	go_on(&s, 44, w, 3);
	ok(!happened(&s, "worker_lost"), "%s: a worker computes for 44 s, of a deadline of 60 s",
	    sync);
	go_on(&s, 44,
	    (const struct life[]){ { 8 + ahead, "wait" }, { 8, "compute" }, { 8 + ahead, "wait" } },
	    3);
	ok(!happened(&s, "worker_lost"), "and its next step for 44 s");
	go_on(&s, 46,
	    (const struct life[]){ { 9 + ahead, "wait" }, { 9, "compute" }, { 9 + ahead, "wait" } },
	    3);
	ok(happened(&s,
	       "worker_lost: worker-1 (h, pid 201) is lost: it made no progress at step 9 for 45."),
	    "and for 45 s it is given up");
	vote(&s, 0, true, 9, 9);
	ok(strcmp(worker_is(&s, 1), "lost") == 0 && strcmp(worker_is(&s, 0), "active") == 0 &&
	        strcmp(worker_is(&s, 2), "active") == 0,
	    "and nobody else");
	scene_close(&s);
}

static void nobody_waits(const char *sync, const struct life *w, const char *what)
{
	struct scene s;

	open_in(&s, sync, 2);
	go_on(&s, 100, w, 2);
	ok(!happened(&s, "worker_lost"), "%s", what);
	scene_close(&s);
}

/* With a backup worker the others wait now and then, but for nobody in particular. */
static void others_go_on(void)
{
	struct scene s;

	open_in(&s, "bsp", 3);
	for (int i = 0; i < 100; i++)
		go_on(&s, 1,
		    (const struct life[]){ { 8 + i, "wait" }, { 7, "compute" }, { 8 + i, "wait" } },
		    3);
	ok(!happened(&s, "worker_lost"), "where the others go on it is let be");
	scene_close(&s);
}

static const struct life hung[] = { { 8, "wait" }, { 7, "compute" } };

static void excused(void)
{
	struct scene s;

	open_in(&s, "bsp", 2);
	go_on(&s, 30, hung, 2);
	coord_pause(s.c, true, "admin", s.now, NULL);
	go_on(&s, 100, hung, 2);
	coord_pause(s.c, false, "admin", s.now, NULL);
	go_on(&s, 40, hung, 2);
	ok(!happened(&s, "worker_lost"),
	    "while the job is paused no time counts, nor does what was before");
	go_on(&s, 46, hung, 2);
	ok(happened(&s, "worker_lost: worker-1"), "afterwards it does");
	scene_close(&s);
	open_in(&s, "bsp", 2);
	for (int i = 0; i < 500; i++) {
		say(&s, &s.server[0], "{\"op\":\"beat\",\"stats\":{\"quota_held\":[[1,%d]]}}",
		    i + 1);
		step_beat(&s, 0, 8, "wait", i * 0.2);
		step_beat(&s, 1, 7, "push", i * 0.2);
		pass(&s, 0.2);
	}
	ok(!happened(&s, "worker_lost"), "nor while its quota holds it");
	scene_close(&s);
	open_in(&s, "bsp", 3);
	say(&s, &s.worker[2], "{\"op\":\"leave\"}");
	go_on(&s, 100, hung, 2);
	ok(!happened(&s, "worker-1 (h, pid 201) is lost"), "nor while the servers vote");
	scene_close(&s);
}

/* The whole run stands still for a while and goes on, one process after the other. */
static void all_stopped(unsigned replicas)
{
	struct scene s;

	scene_open(&s, 2, 2);
	s.cfg.replicas = replicas;
	scene_run(&s);
	live(&s, 1, 3);
	coord_note_turn(s.c, s.now);
	s.now += 100 * NSEC_PER_SEC;
	coord_note_turn(s.c, s.now);
	pass(&s, 0.5);
	ok(!happened(&s, "_lost") && in_phase(&s, PHASE_RUNNING),
	    "%u replicas: nobody was silent while the coordinator itself stood still", replicas);
	live(&s, 1, 1);
	pass(&s, 1);
	ok(!happened(&s, "_lost"), "those that go on are members as before");
	live(&s, 6, 1);
	ok(happened(&s, "worker_lost: worker-1") && !happened(&s, "worker_lost: worker-0"),
	    "and one that does not is lost after its lease");
	scene_close(&s);
}

/* Steps of others are open while the evaluator of the best model waits for its snapshot. */
static void best_is_saved(void)
{
	struct scene s;

	scene_open(&s, 1, 2);
	json_object_set_new(s.config, "job", json_pack("{s:s}", "stop", "loss"));
	scene_run(&s);
	coord_best_begin(s.c);
	say(&s, &s.worker[1], "{\"op\":\"eval\",\"step\":7,\"eval\":{\"loss\":1}}");
	go_on(&s, 100, hung, 2);
	ok(coord_best_awaited(s.c) == 7 && !happened(&s, "worker_lost"),
	    "nor while its model is to be saved");
	coord_best_taken(s.c);
	go_on(&s, 46, hung, 2);
	ok(happened(&s, "worker_lost: worker-1"), "afterwards it does");
	scene_close(&s);
}

/* A coordinator that was started again is stopped before its first turn, while members connect. */
static void stopped_at_start(void)
{
	struct scene s;

	scene_open(&s, 2, 2);
	s.cfg.replicas = 2;
	scene_run(&s);
	live(&s, 1, 3);
	ok(scene_again(&s), "the coordinator is started again");
	s.now += 100 * NSEC_PER_SEC;
	coord_note_turn(s.c, s.now);
	coord_tick(s.c, s.now);
	ok(!happened(&s, "_lost") && in_phase(&s, PHASE_RUNNING),
	    "it stood still before its first turn, and nobody is lost");
	scene_close(&s);
}

/* One turn of the coordinator, which comes this long after the one before. */
static void make_turn(struct scene *s, int milliseconds)
{
	s->now += milliseconds * NSEC_PER_MSEC;
	coord_note_turn(s->c, s->now);
	coord_tick(s->c, s->now);
}

/* A server's connection breaks, and the coordinator gets no processor for a while. The server's new
 * connection waits to be accepted. */
static void slow_turn_after_break(int milliseconds)
{
	struct scene s;

	scene_open(&s, 2, 2);
	scene_run(&s);
	beat_servers(&s);
	make_turn(&s, 50);
	coord_session_gone(s.c, &s.server[1], s.now);
	make_turn(&s, milliseconds);
	ok(!happened(&s, "server_lost") && in_phase(&s, PHASE_RUNNING),
	    "a server may come back after a turn of %d ms", milliseconds);
	make_turn(&s, milliseconds);
	ok(!happened(&s, "server_lost"), "and after one more");
	beat_servers(&s);
	for (int i = 0; i < 20; i++)
		make_turn(&s, 50);
	ok(!happened(&s, "server_lost"), "it is back, and a member as before");
	beat_servers(&s);
	coord_session_gone(s.c, &s.server[1], s.now);
	for (int i = 0; i < 6; i++)
		make_turn(&s, 50);
	ok(!happened(&s, "server_lost"), "later it has 0.3 s of short turns");
	make_turn(&s, 50);
	ok(happened(&s, "server_lost: server-1 (h1, pid 101) is lost: its connection broke"),
	    "and is lost then");
	scene_close(&s);
}

static void policies(void)
{
	struct scene s;

	scene_open(&s, 1, 2);
	s.cfg.on_worker_loss = COORD_WAIT;
	scene_run(&s);
	go_on(&s, 100, hung, 2);
	ok(!happened(&s, "worker_lost"), "on_worker_loss wait: it is waited for");
	scene_close(&s);
	scene_open(&s, 1, 2);
	s.cfg.on_worker_loss = COORD_FAIL;
	scene_run(&s);
	go_on(&s, 46, hung, 2);
	ok(in_phase(&s, PHASE_FAILED) && happened(&s, "it made no progress at step 7 for"),
	    "fail: the job fails, and says why");
	scene_close(&s);
}

int main(void)
{
	absurd_step();
	hangs("bsp", 1);
	hangs("ssp:2", 3);
	nobody_waits("asp", (const struct life[]){ { 50, "wait" }, { 7, "compute" } },
	    "asp: nobody waits for it");
	nobody_waits("ssp:2", (const struct life[]){ { 9, "wait" }, { 7, "compute" } },
	    "ssp: nor where it is near enough");
	nobody_waits("bsp", (const struct life[]){ { 8, "wait" }, { 7, "wait" } },
	    "where all wait nobody is to blame");
	others_go_on();
	excused();
	all_stopped(1);
	all_stopped(2);
	stopped_at_start();
	slow_turn_after_break(310);
	slow_turn_after_break(990);
	slow_turn_after_break(2000);
	best_is_saved();
	policies();
	return tap_done();
}
