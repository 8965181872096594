/* SPDX-License-Identifier: ISC */
/* Orders of a checkpoint, and servers whose sessions break before they have got one or have answered. */
#include "coord_fixture.h"

static void answer(struct scene *s, unsigned server, const char *state)
{
	say(s, &s->server[server],
	    "{\"op\":\"snap\",\"id\":%llu,\"state\":\"%s\",\"clocks\":{\"0\":2},\"description\":{}}",
	    (unsigned long long)coord_snap_id(s->c), state);
}

/* A new session of the same process. */
static void come_again(struct scene *s, unsigned server)
{
	coord_session_gone(s->c, &s->server[server], s->now);
	s->server[server].kind = COORD_NOBODY;
	json_decref(s->proposal[server]);
	s->proposal[server] = NULL;
	join_as_server(s, server);
}

/* Is this the last message to the server? */
static bool has_order(const struct scene *s, unsigned server, const char *op)
{
	return strcmp(json_str(s->proposal[server], "op", ""), op) == 0 &&
	    (uint64_t)json_int(s->proposal[server], "id", 0) == coord_snap_id(s->c);
}

/* Two servers, each of which is the tail of a chain. */
static void begin_cluster(struct scene *s, unsigned replicas)
{
	scene_open(s, 2, 2);
	s->cfg.lockstep = false;
	json_object_set_new(s->config, "sync", json_string("asp"));
	s->cfg.replicas = replicas;
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

static void an_order_is_lost(void)
{
	struct scene s;

	begin_cluster(&s, 1);
	coord_session_gone(s.c, &s.server[1], s.now);
	ok(coord_snap_begin(s.c, 5, s.now), "a snapshot is ordered while a server has no session");
	come_again(&s, 1);
	ok(has_order(&s, 1, "snapshot") && json_int(s.proposal[1], "step", 0) == 5,
	    "it gets the order in its next session");
	come_again(&s, 0);
	answer(&s, 0, "taken");
	ok(coord_snap_state(s.c) == SNAP_ASKED, "one server has answered");
	come_again(&s, 0);
	ok(!s.proposal[0], "a server that has answered does not get the order again");
	answer(&s, 0, "taken");
	ok(coord_snap_state(s.c) == SNAP_ASKED, "an answer that is repeated counts once");
	answer(&s, 1, "taken");
	ok(coord_snap_state(s.c) == SNAP_TAKEN, "both servers have answered");
	come_again(&s, 1);
	ok(!s.proposal[1], "nothing is ordered then");
	coord_snap_write(s.c, "dir", s.now);
	answer(&s, 0, "saved");
	answer(&s, 0, "saved");
	ok(coord_snap_state(s.c) == SNAP_WRITING, "also files of one server count once");
	come_again(&s, 1);
	ok(has_order(&s, 1, "save") && strcmp(json_str(s.proposal[1], "dir", ""), "dir") == 0,
	    "the order to write them is repeated, too");
	answer(&s, 1, "saved");
	ok(coord_snap_state(s.c) == SNAP_SAVED, "the snapshot is saved");
	coord_snap_end(s.c);
	come_again(&s, 0);
	ok(has_order(&s, 0, "snapshot_end"), "the order to drop a snapshot is repeated");
	scene_close(&s);
}

/* Another process in the server's place has nothing of the snapshot. */
static void a_server_is_replaced(void)
{
	struct scene s;

	begin_cluster(&s, 2);
	coord_snap_begin(s.c, 5, s.now);
	s.server[1].kind = COORD_NOBODY;
	s.server[1].incarnation = 77;
	json_decref(s.proposal[1]);
	s.proposal[1] = NULL;
	join_as_server(&s, 1);
	come_again(&s, 1);
	ok(!s.proposal[1] || !has_order(&s, 1, "snapshot"), "a new process does not get the order");
	scene_close(&s);
}

/* The coordinator is killed, and a server has answered what nobody asked in this life. */
static void an_answer_is_late(void)
{
	struct scene s;
	uint64_t before;

	begin_cluster(&s, 1);
	coord_snap_begin(s.c, 5, s.now);
	before = coord_snap_id(s.c);
	ok(scene_again(&s), "a coordinator recovers");
	coord_snap_begin(s.c, 7, s.now);
	ok(coord_snap_id(s.c) > before, "its snapshots have other numbers than those before: %llu",
	    (unsigned long long)coord_snap_id(s.c));
	come_again(&s, 0);
	come_again(&s, 1);
	ok(has_order(&s, 0, "snapshot") && has_order(&s, 1, "snapshot"),
	    "servers that come back later get the order");
	say(&s, &s.server[1], "{\"op\":\"snap\",\"id\":%llu,\"state\":\"taken\",\"clocks\":{}}",
	    (unsigned long long)before);
	answer(&s, 0, "taken");
	ok(coord_snap_state(s.c) == SNAP_ASKED, "an answer to the order before does not count");
	answer(&s, 1, "taken");
	ok(coord_snap_state(s.c) == SNAP_TAKEN, "the answer to its own order does");
	scene_close(&s);
}

/* The reasons why the job waits, as "ID>FOR STEP BECAUSE;", and the seconds of the last one. */
static const char *waits(const struct scene *s, double *seconds)
{
	static char out[600];
	json_t *list = coord_why(s->c, s->now);
	const json_t *o;
	size_t i, n = 0;

	out[0] = 0;
	json_array_foreach(list, i, o) {
		n += (size_t)snprintf(out + n, sizeof out - n, "%s>%s %lld %s;",
		    json_str(o, "id", ""), json_str(o, "for", ""),
		    (long long)json_int(o, "step", -1), json_str(o, "because", ""));
		*seconds = json_num(o, "since_seconds", 0);
	}
	json_decref(list);
	return out;
}

static void a_server_does_not_answer(void)
{
	struct scene s;
	double seconds = 0;

	begin_cluster(&s, 1);
	coord_snap_begin(s.c, 5, s.now);
	answer(&s, 0, "taken");
	ok(!*waits(&s, &seconds), "a checkpoint that has just begun waits for nobody: %s",
	    waits(&s, &seconds));
	live(&s, 2, 3);
	ok(strcmp(waits(&s, &seconds),
	       "the checkpoint>server-1 5 it has not taken its snapshot;") == 0 &&
	        seconds == 2,
	    "then for the server that has not answered: %s", waits(&s, &seconds));
	for (int i = 0; i < 6; i++) {
		say(&s, &s.server[0], "{\"op\":\"beat\"}");
		say(&s, &s.worker[0], "{\"op\":\"beat\"}");
		say(&s, &s.worker[1], "{\"op\":\"beat\"}");
		pass(&s, 0.2);
	}
	ok(strcmp(waits(&s, &seconds),
	       "the checkpoint>server-1 5 h1, pid 101, has been silent for 1.4 s;") == 0,
	    "and is silent: %s", waits(&s, &seconds));
	say(&s, &s.server[1], "{\"op\":\"beat\"}");
	answer(&s, 1, "taken");
	coord_snap_write(s.c, "dir", s.now);
	answer(&s, 1, "saved");
	live(&s, 4, 3);
	ok(!*waits(&s, &seconds), "files take time: %s", waits(&s, &seconds));
	live(&s, 2, 3);
	ok(strcmp(waits(&s, &seconds), "the checkpoint>server-0 5 it has not written its files;") ==
	        0,
	    "but not for ever: %s", waits(&s, &seconds));
	answer(&s, 0, "saved");
	ok(!*waits(&s, &seconds), "nobody is waited for in the end: %s", waits(&s, &seconds));
	scene_close(&s);
}

/* In bsp a snapshot is ordered ahead of its step. */
static void a_step_is_to_come(void)
{
	struct scene s;
	double seconds = 0;

	scene_open(&s, 1, 1);
	s.cfg.replicas = 1;
	scene_run(&s);
	coord_snap_begin(s.c, 100, s.now);
	say(&s, &s.worker[0], "{\"op\":\"beat\",\"stats\":{\"step\":99,\"doing\":\"compute\"}}");
	live(&s, 1, 0);
	ok(!*waits(&s, &seconds), "no server is late before the workers are there: %s",
	    waits(&s, &seconds));
	say(&s, &s.worker[0], "{\"op\":\"beat\",\"stats\":{\"step\":100,\"doing\":\"compute\"}}");
	ok(strncmp(waits(&s, &seconds), "the checkpoint>server-0 100 ", 28) == 0,
	    "it is when they are: %s", waits(&s, &seconds));
	scene_close(&s);
}

static void steps_of_parts(void)
{
	struct scene s;

	scene_open(&s, 1, 1);
	s.cfg.replicas = 1;
	scene_run(&s);
	coord_snap_begin(s.c, 5, s.now);
	ok(coord_snap_is_by_step(s.c), "in bsp all partitions have the snapshot's step");
	coord_snap_rename(s.c, 9);
	ok(coord_snap_step(s.c) == 5, "and keeps it, though a rank is ahead of it");
	scene_close(&s);
}

/* A coordinator that was restarted does not know how far the workers are. */
static void name_of_a_snapshot(void)
{
	struct scene s;

	begin_cluster(&s, 1);
	coord_snap_begin(s.c, 4, s.now);
	for (unsigned i = 0; i < 2; i++)
		say(&s, &s.server[i],
		    "{\"op\":\"snap\",\"id\":%llu,\"state\":\"taken\",\"clocks\":{\"0\":290,\"1\":%u}}",
		    (unsigned long long)coord_snap_id(s.c), 280 + i);
	ok(coord_snap_newest_clock(s.c) == 290,
	    "the servers say how far the fastest rank is in the snapshot");
	ok(coord_snap_rename(s.c, 290) && coord_snap_step(s.c) == 290,
	    "the snapshot is named by a later step than the one that was ordered");
	scene_close(&s);
}

static void take_snapshot(struct scene *s, uint64_t step, unsigned clock)
{
	coord_snap_begin(s->c, step, s->now);
	for (unsigned i = 0; i < 2; i++)
		say(s, &s->server[i],
		    "{\"op\":\"snap\",\"id\":%llu,\"state\":\"taken\",\"clocks\":{\"0\":%u,\"1\":%u}}",
		    (unsigned long long)coord_snap_id(s->c), clock, clock - 1);
}

/* A checkpoint was asked for in bsp, some steps ahead, when another mode began. */
static void name_of_a_step_to_come(void)
{
	struct scene s;

	begin_cluster(&s, 1);
	for (unsigned i = 0; i < 2; i++)
		say(&s, &s.worker[i],
		    "{\"op\":\"beat\",\"stats\":{\"step\":%u,\"doing\":\"compute\"}}", 290 - i);
	take_snapshot(&s, 500, 280);
	ok(coord_snap_rename(s.c, 280) && coord_snap_step(s.c) == 290,
	    "a snapshot is not named by a step that no worker has reached: %llu",
	    (unsigned long long)coord_snap_step(s.c));
	take_snapshot(&s, 285, 280);
	ok(coord_snap_rename(s.c, 280) && coord_snap_step(s.c) == 285,
	    "nor by an earlier step than one that a worker had told of before the order");
	scene_close(&s);
}

/* The fastest worker of one checkpoint is lost before the next one. */
static void name_after_a_loss(void)
{
	struct scene s;

	begin_cluster(&s, 1);
	take_snapshot(&s, 170, 179);
	ok(coord_snap_rename(s.c, 179) && coord_snap_step(s.c) == 179, "a snapshot of step 179");
	coord_snap_write(s.c, "dir", s.now);
	for (unsigned i = 0; i < 2; i++)
		say(&s, &s.server[i], "{\"op\":\"snap\",\"id\":%llu,\"state\":\"saved\"}",
		    (unsigned long long)coord_snap_id(s.c));
	ok(coord_snap_state(s.c) == SNAP_SAVED, "is saved");
	coord_snap_end(s.c);
	take_snapshot(&s, 157, 134);
	ok(coord_snap_rename(s.c, 134) && coord_snap_step(s.c) == 179,
	    "the next one is not named by an earlier step: %llu",
	    (unsigned long long)coord_snap_step(s.c));
	scene_close(&s);
}

/* The checkpoint of a mode that ends meanwhile: bsp holds from a step on. */
static void name_in_another_mode(void)
{
	json_t *set = json_pack("{s:s}", "sync", "bsp");
	const struct setting bsp = { .set = set, .who = "admin", .step = 300 };
	struct scene s;
	uint64_t ticket;
	struct err e;

	begin_cluster(&s, 1);
	for (unsigned i = 0; i < 2; i++)
		say(&s, &s.worker[i],
		    "{\"op\":\"beat\",\"stats\":{\"step\":%u,\"doing\":\"compute\"}}", 290 - i);
	ok(coord_request_settings(s.c, &bsp, s.now, &ticket, &e) == ERR_OK,
	    "another mode is wanted");
	vote(&s, 0, true, 300, 289);
	vote(&s, 1, true, 300, 289);
	ok(coord_is_lockstep(s.c), "and decided: it begins at step %lld",
	    (long long)status_int(&s, "settings_step"));
	take_snapshot(&s, 292, 299);
	ok(!coord_snap_is_by_step(s.c) && coord_snap_rename(s.c, 290) &&
	        coord_snap_step(s.c) == 290,
	    "a snapshot of the mode before is named by its steps");
	take_snapshot(&s, 292, 302);
	ok(!coord_snap_rename(s.c, 302) && coord_snap_state(s.c) == SNAP_LATE &&
	        coord_snap_first_free(s.c) == 300,
	    "it is late if a worker has gone on: %llu",
	    (unsigned long long)coord_snap_first_free(s.c));
	json_decref(set);
	scene_close(&s);
}

/* A coordinator that is started again orders a checkpoint before a worker has told its step. */
static void first_after_a_restart(void)
{
	struct scene s;

	begin_cluster(&s, 1);
	for (unsigned i = 0; i < 2; i++)
		say(&s, &s.worker[i],
		    "{\"op\":\"beat\",\"stats\":{\"step\":%u,\"doing\":\"compute\"}}", 290 - i);
	ok(scene_again(&s), "in asp the coordinator is started again");
	for (unsigned i = 0; i < 2; i++) {
		s.server[i].kind = s.worker[i].kind = COORD_NOBODY;
		join_as_server(&s, i);
	}
	ok(coord_snap_begin(s.c, coord_newest_step(s.c), s.now) && coord_newest_step(s.c) < 290,
	    "it orders a checkpoint of an earlier step");
	for (unsigned i = 0; i < 2; i++)
		say(&s, &s.server[i],
		    "{\"op\":\"snap\",\"id\":%llu,\"state\":\"taken\",\"clocks\":{\"0\":290,\"1\":289}}",
		    (unsigned long long)coord_snap_id(s.c));
	ok(coord_snap_state(s.c) == SNAP_TAKEN && !coord_snap_is_by_step(s.c),
	    "whose partitions have values of other steps");
	coord_snap_rename(s.c, coord_snap_newest_clock(s.c));
	ok(coord_snap_step(s.c) == 290, "and names it by the fastest worker's step in it");
	scene_close(&s);
}

int main(void)
{
	name_of_a_snapshot();
	name_of_a_step_to_come();
	name_after_a_loss();
	name_in_another_mode();
	first_after_a_restart();
	steps_of_parts();
	a_server_does_not_answer();
	a_step_is_to_come();
	an_order_is_lost();
	a_server_is_replaced();
	an_answer_is_late();
	return tap_done();
}
