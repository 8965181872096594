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
static void begin(struct scene *s, unsigned replicas)
{
	scene_open(s, 2, 2);
	s->cfg.lockstep = false;
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

	begin(&s, 1);
	coord_session_gone(s.c, &s.server[1], s.now);
	ok(coord_snap_begin(s.c, 5), "a snapshot is ordered while a server has no session");
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
	coord_snap_write(s.c, "dir");
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

	begin(&s, 2);
	coord_snap_begin(s.c, 5);
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

	begin(&s, 1);
	coord_snap_begin(s.c, 5);
	before = coord_snap_id(s.c);
	ok(scene_again(&s), "a coordinator recovers");
	coord_snap_begin(s.c, 7);
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

int main(void)
{
	an_order_is_lost();
	a_server_is_replaced();
	an_answer_is_late();
	return tap_done();
}
