/* SPDX-License-Identifier: ISC */
/* Relays at the coordinator: who goes through which, and when one is lost. */
#include "coord_fixture.h"

static struct coord_self relay[4];

static void scene_of(struct scene *s, unsigned workers)
{
	static const char *const name[] = { "relay-a", "relay-b", "relay-c", "relay-d" };

	scene_open(s, 1, workers);
	for (unsigned i = 0; i < 4; i++)
		relay[i] = (struct coord_self){ .incarnation = 50 + i,
			.name = name[i],
			.key = name[i] };
}

static const char *join_as_relay(struct scene *s, unsigned i, const char *zone)
{
	return say(s, &relay[i],
	    "{\"op\":\"relay_join\",\"pid\":%u,\"host\":\"h\",\"tcp\":\"h:%u\",\"zone\":\"%s\"}",
	    300 + i, i, zone);
}

static const char *join_in_zone(struct scene *s, unsigned i, const char *zone)
{
	return say(s, &s->worker[i],
	    "{\"op\":\"worker_join\",\"rank\":%u,\"pid\":%u,\"host\":\"h\",\"examples\":100,\"zone\":\"%s\","
	    "\"tables\":[{\"name\":\"w\",\"rows\":5,\"cols\":1}]}",
	    i, 200 + i, zone);
}

static int relay_of(const struct scene *s, unsigned rank)
{
	json_t *v = coord_view(s->c);
	int n = (int)json_int(json_array_get(json_object_get(v, "workers"), rank), "relay", -1);

	json_decref(v);
	return n;
}

/* Of a relay in the view. */
static int64_t says(const struct scene *s, unsigned i, const char *key)
{
	json_t *v = coord_view(s->c), *r = json_array_get(json_object_get(v, "relays"), i),
	       *x = json_object_get(r, key);
	int64_t n = json_is_boolean(x) ? json_is_true(x) : json_int(r, key, -2);

	json_decref(v);
	return n;
}

static unsigned epoch(const struct scene *s)
{
	return (unsigned)(coord_layout_number(s->c) & UINT32_MAX);
}

static void beat_relay(struct scene *s, unsigned i)
{
	say(s, &relay[i], "{\"op\":\"beat\"}");
}

static void begin(struct scene *s, unsigned workers)
{
	scene_of(s, workers);
	scene_begin(s);
	join_as_server(s, 0);
}

static void by_zone(void)
{
	struct scene s;

	begin(&s, 6);
	ok(strcmp(join_as_relay(&s, 0, "rack1"), "{\"relay\":0}") == 0, "a relay joins");
	join_as_relay(&s, 1, "rack2");
	join_as_relay(&s, 2, "rack2");
	join_in_zone(&s, 0, "rack1");
	for (unsigned i = 1; i < 5; i++)
		join_in_zone(&s, i, "rack2");
	join_in_zone(&s, 5, "");
	ack_all(&s);
	ok(in_phase(&s, PHASE_RUNNING), "the job runs");
	ok(relay_of(&s, 0) == 0 && relay_of(&s, 5) == -1,
	    "a worker goes through the relay of its zone, one without a zone through none");
	ok(relay_of(&s, 1) == 1 && relay_of(&s, 2) == 2 && relay_of(&s, 3) == 1 &&
	        relay_of(&s, 4) == 2,
	    "two relays of one zone have as many workers each");
	ok(says(&s, 1, "live") == 1 && says(&s, 1, "upstream") == -1, "the view tells of them");
	scene_close(&s);
}

static void late_relay(void)
{
	struct scene s;
	unsigned before;

	begin(&s, 2);
	join_in_zone(&s, 0, "rack1");
	join_in_zone(&s, 1, "rack1");
	ack_all(&s);
	before = epoch(&s);
	join_as_relay(&s, 0, "rack1");
	ok(relay_of(&s, 0) == 0 && relay_of(&s, 1) == 0 && epoch(&s) == before + 1,
	    "one that comes later gets its zone's workers, in a new epoch");
	before = epoch(&s);
	join_as_relay(&s, 1, "elsewhere");
	ok(epoch(&s) == before, "one that gets none changes nothing");
	scene_close(&s);
}

static void is_lost(void)
{
	struct scene s;
	unsigned before;

	begin(&s, 2);
	join_as_relay(&s, 0, "rack1");
	join_as_relay(&s, 1, "rack1");
	join_in_zone(&s, 0, "rack1");
	join_in_zone(&s, 1, "rack1");
	ack_all(&s);
	before = epoch(&s);
	coord_session_gone(s.c, &relay[relay_of(&s, 0)], s.now);
	coord_note_turn(s.c, s.now);
	s.now += 500 * NSEC_PER_MSEC;
	coord_note_turn(s.c, s.now);
	coord_tick(s.c, s.now);
	ok(relay_of(&s, 0) == 0,
	    "a relay whose connection breaks has a moment, in which the coordinator makes turns");
	live(&s, 0.4, 3);
	ok(happened(&s, "relay-0 (h, pid 300) is lost: its connection broke") &&
	        says(&s, 0, "live") == 0,
	    "then it is lost");
	ok(relay_of(&s, 0) == 1 && relay_of(&s, 1) == 1 && epoch(&s) == before + 1,
	    "its workers go through the other, in a new epoch");
	for (int i = 0; i < 9; i++) {
		live(&s, 0.2, 3);
		beat_relay(&s, 1);
	}
	ok(says(&s, 1, "live") == 1, "one that beats lives");
	live(&s, 2, 3);
	ok(happened(&s, "relay-1 (h, pid 301) is lost: no heartbeat") && relay_of(&s, 0) == -1 &&
	        epoch(&s) == before + 2,
	    "without any they go to the servers");
	say(&s, &relay[1], "{\"op\":\"leave\"}");
	ok(s.e.code == ERR_CLOSED, "one that was taken for lost is told so: %s", s.e.msg);
	ok(strcmp(join_as_relay(&s, 1, "rack1"), "{\"relay\":1}") == 0 && relay_of(&s, 0) == 1 &&
	        relay_of(&s, 1) == 1,
	    "and has its workers again when it joins anew");
	relay[1].incarnation = 99;
	relay[1].kind = COORD_NOBODY;
	before = epoch(&s);
	ok(strcmp(join_as_relay(&s, 1, "rack1"), "{\"relay\":1}") == 0 &&
	        happened(&s, "it was restarted") && epoch(&s) > before && relay_of(&s, 0) == 1,
	    "so has one that was started again before it was missed");
	say(&s, &relay[1], "{\"op\":\"leave\"}");
	ok(relay_of(&s, 0) == -1 && happened(&s, "it leaves"), "one that leaves has none");
	scene_close(&s);
}

static void is_missed(void)
{
	struct scene s;
	unsigned before;

	begin(&s, 2);
	join_as_relay(&s, 0, "rack1");
	join_in_zone(&s, 0, "rack1");
	join_in_zone(&s, 1, "rack1");
	ack_all(&s);
	before = epoch(&s);
	say(&s, &s.worker[0], "{\"op\":\"relay_missed\",\"relay\":0,\"epoch\":%u}", before - 1);
	say(&s, &s.worker[0], "{\"op\":\"relay_missed\",\"relay\":3,\"epoch\":%u}", before);
	say(&s, &s.worker[0], "{\"op\":\"relay_missed\"}");
	ok(relay_of(&s, 0) == 0 && epoch(&s) == before,
	    "what is said of another epoch, or of another relay, is old news");
	say(&s, &s.worker[0],
	    "{\"op\":\"relay_missed\",\"relay\":0,\"epoch\":%u,\"message\":\"no route\"}", before);
	ok(relay_of(&s, 0) == -1 && relay_of(&s, 1) == 0 && epoch(&s) == before + 1 &&
	        happened(&s, "no route"),
	    "a worker that cannot reach its relay goes without");
	join_as_relay(&s, 1, "other");
	ok(relay_of(&s, 0) == -1, "and is not given it again");
	join_as_relay(&s, 2, "rack1");
	ok(relay_of(&s, 0) == 2 && relay_of(&s, 1) == 0, "but another");
	scene_close(&s);
}

static void trees(void)
{
	struct scene s;

	begin(&s, 2);
	join_as_relay(&s, 0, "dc1/rack1");
	ok(says(&s, 0, "upstream") == -1,
	    "a relay without one of an outer zone sends to the servers");
	join_as_relay(&s, 1, "dc1");
	join_as_relay(&s, 2, "dc10");
	ok(says(&s, 0, "upstream") == 1 && says(&s, 1, "upstream") == -1 &&
	        says(&s, 2, "upstream") == -1,
	    "one of dc1/rack1 through that of dc1");
	join_in_zone(&s, 0, "dc1/rack1");
	join_in_zone(&s, 1, "dc1/rack2/host3");
	ok(relay_of(&s, 0) == 0 && relay_of(&s, 1) == 1,
	    "a worker without a relay in its zone goes through that of the zone around it");
	ack_all(&s);
	say(&s, &relay[0], "{\"op\":\"relay_missed\",\"relay\":1,\"epoch\":%u}", epoch(&s) + 1);
	ok(says(&s, 0, "upstream") == 1,
	    "a relay that misses another in another epoch changes nothing");
	say(&s, &relay[0], "{\"op\":\"relay_missed\",\"relay\":1,\"epoch\":%u}", epoch(&s));
	ok(says(&s, 0, "upstream") == -1 && relay_of(&s, 1) == 1,
	    "in this one it sends to the servers");
	say(&s, &relay[1], "{\"op\":\"leave\"}");
	ok(says(&s, 0, "upstream") == -1 && relay_of(&s, 1) == -1,
	    "and when that is lost both go on without");
	scene_close(&s);
}

static void refused(void)
{
	static const char *const bad[] = { "", "/a", "a/", "a//b",
		"0123456789012345678901234567890123456789012345678901234567890123" };
	struct scene s;

	begin(&s, 1);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		ok(!join_as_relay(&s, 0, bad[i])[0] && s.e.code == ERR_CONFIG, "no zone is \"%s\"",
		    bad[i]);
	say(&s, &s.worker[0], "{\"op\":\"relay_missed\",\"relay\":0,\"epoch\":0}");
	ok(s.e.code == ERR_FORBIDDEN, "who has not joined has nothing to miss");
	join_as_relay(&s, 0, "z");
	say(&s, &relay[0], "{\"op\":\"vote\",\"id\":1,\"yes\":true}");
	ok(s.e.code == ERR_FORBIDDEN, "a relay has no vote: %s", s.e.msg);
	scene_close(&s);
	for (int k = 0; k < 3; k++) {
		scene_of(&s, 1);
		s.cfg.lockstep = k != 0;
		s.cfg.deterministic = k == 1;
		if (k == 2)
			json_object_set_new(s.config, "backup", json_integer(1));
		scene_begin(&s);
		ok(!join_as_relay(&s, 0, "z")[0] && s.e.code == ERR_CONFIG, "refused: %s", s.e.msg);
		scene_close(&s);
	}
}

static void recovered(void)
{
	struct scene s, t;
	json_t *state;
	struct err e = { 0 };
	struct coord_io io = { &t, scene_to_server, scene_view_changed, scene_event,
		scene_lease_changed };

	begin(&s, 2);
	join_as_relay(&s, 0, "dc/r");
	join_as_relay(&s, 1, "dc");
	join_in_zone(&s, 0, "dc/r");
	join_in_zone(&s, 1, "");
	ack_all(&s);
	state = saved_state(s.c);
	scene_open(&t, 1, 2);
	t.c = coord_new(&t.cfg, &io, t.now);
	ok(recover_from(t.c, state, t.now, &e) == ERR_OK, "a coordinator goes on with relays %s",
	    e.msg);
	ok(relay_of(&t, 0) == 0 && relay_of(&t, 1) == -1 && says(&t, 0, "upstream") == 1 &&
	        says(&t, 0, "live") == 1,
	    "as they were");
	relay[0].kind = COORD_NOBODY;
	ok(strcmp(join_as_relay(&t, 0, "dc/r"), "{\"relay\":0}") == 0 &&
	        !happened(&t, "relay_joined"),
	    "they come back as they are");
	live(&t, 4, 3);
	ok(says(&t, 1, "live") == 0 && says(&t, 0, "upstream") == -1, "or are lost");
	scene_close(&t);
	json_object_set_new(json_array_get(json_object_get(state, "workers"), 0), "relay",
	    json_integer(7));
	scene_open(&t, 1, 2);
	t.c = coord_new(&t.cfg, &io, t.now);
	ok(recover_from(t.c, state, t.now, &e) != ERR_OK,
	    "a state that names a relay that there is not is refused");
	scene_close(&t);
	json_decref(state);
	scene_close(&s);
}

int main(void)
{
	by_zone();
	late_relay();
	is_lost();
	is_missed();
	trees();
	refused();
	recovered();
	return tap_done();
}
