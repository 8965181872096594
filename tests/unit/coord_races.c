/* SPDX-License-Identifier: ISC */
/* Orders of events that the simulator (coord_sim.c) has found to break something. */
#include "coord_fixture.h"

/* A change was decided for a step well ahead, and the next one is proposed before
 * the workers are there: it must not come before the first. */
static void changes_in_order(void)
{
	struct scene s;
	json_t *view;
	const json_t *m;
	uint64_t last = 0;
	bool ascending = true;
	size_t i;

	scene_open(&s, 1, 3);
	scene_run(&s);
	live(&s, 2.5, 1);
	live(&s, 3, 1);
	/* Both others are lost; the server is at step 100 and wants more. */
	vote(&s, 0, false, 100, 0);
	ok(json_int(s.proposal[0], "step", 0) > 100,
	    "a change is proposed beyond where the server is");
	vote(&s, 0, true, 100, 0);
	ok(json_int(s.proposal[0], "step", 0) > 100,
	    "the next one not before it, whatever the workers have told: %lld",
	    (long long)json_int(s.proposal[0], "step", 0));
	vote(&s, 0, true, 100, 0);
	view = coord_view(s.c);
	json_array_foreach(json_object_get(view, "members"), i, m) {
		ascending &= (uint64_t)json_int(m, "step", 0) >= last &&
		    json_int(m, "epoch", 0) < 1000;
		last = (uint64_t)json_int(m, "step", 0);
	}
	ok(i == 3 && ascending, "who takes part is told in the order of the steps");
	json_decref(view);
	scene_close(&s);
}

/* Stopped for longer than its heartbeats may be late, then continued, on the same
 * session. */
static void slept_too_long(void)
{
	struct scene s;

	scene_open(&s, 2, 1);
	s.cfg.replicas = 2;
	scene_run(&s);
	for (int i = 0; i < 10; i++) {
		say(&s, &s.server[0], "{\"op\":\"beat\"}");
		say(&s, &s.worker[0], "{\"op\":\"beat\"}");
		pass(&s, 0.2);
	}
	ok(happened(&s, "server-1 (h1, pid 101) is lost: no heartbeat"),
	    "a server that sleeps is lost");
	say(&s, &s.server[1], "{\"op\":\"beat\"}");
	ok(s.e.code == ERR_CLOSED, "awake, its session is ended: %s", s.e.msg);
	s.server[1].kind = COORD_NOBODY;
	ok(strcmp(join_as_server(&s, 1), "{\"index\":1}") == 0 &&
	        happened(&s, "1 of 1 partition is being copied"),
	    "so that it joins again, and is given copies");
	scene_close(&s);
}

/* The last messages of a broken session arrive after those of the next one of the same process. */
static void late_messages_of_a_session(void)
{
	struct coord_self before, worker;
	unsigned long long rev, epoch;
	struct scene s;

	scene_open(&s, 2, 1);
	s.cfg.replicas = 2;
	scene_begin(&s);
	join_as_server(&s, 0);
	join_as_server(&s, 1);
	say(&s, &s.worker[0],
	    "{\"op\":\"worker_join\",\"rank\":0,\"pid\":200,\"host\":\"h\",\"examples\":100,\"tables\":"
	    "[{\"name\":\"w\",\"rows\":500000,\"cols\":1}]}");
	before = s.server[0];
	coord_session_gone(s.c, &s.server[0], s.now);
	s.server[0].kind = COORD_NOBODY;
	join_as_server(&s, 0);
	rev = coord_rev(s.c);
	say(&s, &s.server[0], "{\"op\":\"ack\",\"rev\":%llu}", rev);
	say(&s, &before, "{\"op\":\"ack\",\"rev\":%llu}", rev - 1);
	ok(in_phase(&s, PHASE_FORMING), "a server of two has the layout");
	say(&s, &s.server[1], "{\"op\":\"ack\",\"rev\":%llu}", rev);
	ok(in_phase(&s, PHASE_RUNNING),
	    "an older answer of the first one does not hold up the job");
	/* A worker answers in the same order, while a third server joins. */
	epoch = (unsigned long long)status_int(&s, "layout_epoch");
	ok(!coord_scale(s.c, 3, -1, s.now, &s.e), "a third server is called for: %s", s.e.msg);
	join_as_server(&s, 2);
	ok((unsigned long long)status_int(&s, "layout_epoch") > epoch, "and gets replicas");
	epoch = (unsigned long long)status_int(&s, "layout_epoch");
	worker = s.worker[0];
	say(&s, &s.worker[0], "{\"op\":\"confirm\",\"epoch\":%llu}", epoch);
	say(&s, &worker, "{\"op\":\"confirm\",\"epoch\":%llu}", epoch - 1);
	for (unsigned i = 0; i < 2; i++)
		say(&s, &s.server[i], "{\"op\":\"copied\",\"server\":2,\"epoch\":%llu}", epoch);
	ok((unsigned long long)status_int(&s, "layout_epoch") > epoch,
	    "an older answer of a worker does not hold up the servers");
	scene_close(&s);
}

/* A server that comes while the others vote has a vote, too: it will take part
 * in the steps that they hold back. */
static void joins_during_a_vote(void)
{
	struct scene s;

	scene_open(&s, 2, 2);
	s.cfg.replicas = 2;
	scene_run(&s);
	for (int i = 0; i < 10; i++) {
		say(&s, &s.server[0], "{\"op\":\"beat\"}");
		say(&s, &s.worker[0], "{\"op\":\"beat\"}");
		pass(&s, 0.2);
	}
	/* worker-1 is lost while server-1 is away. */
	for (int i = 0; i < 18; i++) {
		say(&s, &s.server[0], "{\"op\":\"beat\"}");
		say(&s, &s.worker[0], "{\"op\":\"beat\"}");
		pass(&s, 0.2);
	}
	ok(s.proposal[0] && happened(&s, "worker-1 (h, pid 201) is lost"), "a leave is under vote");
	s.server[1].kind = COORD_NOBODY;
	s.server[1].incarnation = 77;
	join_as_server(&s, 1);
	vote(&s, 0, true, 3, 3);
	ok(strcmp(worker_is(&s, 1), "active") == 0,
	    "it waits for the vote of a server that has come meanwhile");
	vote(&s, 1, true, 0, 0);
	ok(strcmp(worker_is(&s, 1), "lost") == 0, "and is decided by both");
	scene_close(&s);
}

/* A server has its copies, and the worker that is the last not to have told that it knows of them
 * leaves, or is lost. */
static void leaves_without_knowing(bool lost)
{
	struct scene s;
	int epoch;

	scene_open(&s, 2, 2);
	s.cfg.replicas = 2;
	scene_run(&s);
	for (int i = 0; i < 10; i++) {
		say(&s, &s.server[0], "{\"op\":\"beat\"}");
		say(&s, &s.worker[0], "{\"op\":\"beat\"}");
		say(&s, &s.worker[1], "{\"op\":\"beat\"}");
		pass(&s, 0.2);
	}
	s.server[1].kind = COORD_NOBODY;
	s.server[1].incarnation = 77;
	join_as_server(&s, 1);
	epoch = (int)status_int(&s, "layout_epoch");
	say(&s, &s.server[0], "{\"op\":\"copied\",\"server\":1,\"epoch\":%d}", epoch);
	say(&s, &s.worker[0], "{\"op\":\"confirm\",\"epoch\":%d}", epoch);
	ok(happened(&s, "server-1 has copied its replicas") && !happened(&s, "joined their chains"),
	    "a worker has not heard of the layout");
	if (!lost)
		say(&s, &s.worker[1], "{\"op\":\"leave\"}");
	for (int i = 0; lost && i < 30; i++) {
		beat_servers(&s);
		say(&s, &s.worker[0], "{\"op\":\"beat\"}");
		pass(&s, 0.2);
	}
	vote(&s, 0, true, 3, 3);
	vote(&s, 1, true, 3, 3);
	ok(happened(&s, "joined their chains"), "it is %s: nobody waits for it",
	    lost ? "lost" : "gone");
	scene_close(&s);
}

/* The server that joins the chain of the only partition, or -1. */
static int joining_server(const struct scene *s)
{
	json_t *view = coord_view(s->c);
	const json_t *tables = json_object_get(json_object_get(view, "layout"), "tables"),
	             *runs = json_object_get(json_array_get(tables, 0), "runs");
	int joining = (int)json_integer_value(json_array_get(json_array_get(runs, 0), 3));

	json_decref(view);
	return joining;
}

/* A replica has been copied, and before the workers have confirmed that layout another server is
 * restarted, which makes two layouts at once: the servers never see the first of them, and begin
 * the copy again. */
static void copied_in_an_earlier_layout(void)
{
	struct scene s;
	int epoch, joining;

	scene_open(&s, 3, 1);
	s.cfg.replicas = 2;
	scene_run(&s);
	s.server[1].kind = COORD_NOBODY;
	s.server[1].incarnation = 77;
	join_as_server(&s, 1);
	joining = happened(&s, "1 of 1 partition is being copied") ? joining_server(&s) : -1;
	epoch = (int)status_int(&s, "layout_epoch");
	say(&s, &s.server[0], "{\"op\":\"copied\",\"server\":%d,\"epoch\":%d}", joining, epoch);
	ok(happened(&s, "has copied its replicas from server-0"), "server-%d has its replica",
	    joining);
	s.server[3 - joining].kind = COORD_NOBODY;
	s.server[3 - joining].incarnation = 78;
	join_as_server(&s, (unsigned)(3 - joining));
	ok(status_int(&s, "layout_epoch") > epoch && joining_server(&s) == joining,
	    "a layout later it is still to join");
	epoch = (int)status_int(&s, "layout_epoch");
	say(&s, &s.worker[0], "{\"op\":\"confirm\",\"epoch\":%d}", epoch);
	ok(!happened(&s, "joined their chains"),
	    "what was copied under an earlier layout does not count, as it may lack changes");
	say(&s, &s.server[0], "{\"op\":\"copied\",\"server\":%d,\"epoch\":%d}", joining, epoch);
	ok(happened(&s, "joined their chains"), "it joins when its tail has said so again");
	scene_close(&s);
}

/* A worker was declared lost, and completes its last step while the servers vote on that. */
static void done_during_a_vote(void)
{
	struct scene s;

	scene_open(&s, 1, 2);
	scene_run(&s);
	live(&s, 5.5, 1);
	ok(s.proposal[0] && happened(&s, "worker-1 (h, pid 201) is lost"), "a leave is under vote");
	say(&s, &s.worker[1], "{\"op\":\"done\",\"steps\":3}");
	vote(&s, 0, true, 3, 3);
	ok(strcmp(worker_is(&s, 1), "done") == 0, "who has done all its steps stays done: %s",
	    worker_is(&s, 1));
	say(&s, &s.worker[0], "{\"op\":\"done\",\"steps\":3}");
	ok(in_phase(&s, PHASE_FINISHING), "and the job ends");
	live(&s, 6, 1);
	ok(strcmp(worker_is(&s, 1), "left") == 0, "if it dies afterwards, that is noticed: %s",
	    worker_is(&s, 1));
	scene_close(&s);
}

/* A worker stands still while the servers are awaited, and its rank is free again. Its session does
 * not break. */
static void sleeps_while_the_cluster_forms(void)
{
	struct scene s;

	scene_open(&s, 1, 1);
	scene_begin(&s);
	join_as_worker(&s, 0, 0);
	pass(&s, 6);
	ok(happened(&s, "worker-0 (h, pid 200) is lost"), "a worker that sleeps is lost");
	say(&s, &s.worker[0], "{\"op\":\"beat\"}");
	ok(s.e.code == ERR_CLOSED, "awake, its session is ended: %s", s.e.msg);
	s.worker[0].kind = COORD_NOBODY;
	ok(strcmp(join_as_worker(&s, 0, 0), "{\"rank\":0}") == 0 &&
	        strcmp(worker_is(&s, 0), "joining") == 0,
	    "so that it joins again: %s", worker_is(&s, 0));
	join_as_server(&s, 0);
	ack_all(&s);
	ok(in_phase(&s, PHASE_RUNNING), "and the job runs");
	scene_close(&s);
}

int main(void)
{
	leaves_without_knowing(false);
	leaves_without_knowing(true);
	changes_in_order();
	slept_too_long();
	late_messages_of_a_session();
	copied_in_an_earlier_layout();
	joins_during_a_vote();
	done_during_a_vote();
	sleeps_while_the_cluster_forms();
	return tap_done();
}
