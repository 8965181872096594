/* SPDX-License-Identifier: ISC */
/* A coordinator that is started again from what the one before it wrote. */
#include "coord_fixture.h"
#include "layout/layout.h"

/* The state without what a restart may change. */
static char *essence(const struct scene *s)
{
	json_t *state = saved_state(s->c);
	char *text;

	json_object_del(state, "rev");
	json_object_del(json_object_get(state, "layout"), "epoch");
	text = json_text(state);
	json_decref(state);
	return text;
}

static int64_t epoch_of(const struct scene *s)
{
	json_t *o = coord_status(s->c, s->now);
	int64_t epoch = json_int(o, "layout_epoch", 0);

	json_decref(o);
	return epoch;
}

static void everything_is_there(void)
{
	struct scene s;
	int64_t epoch;
	uint64_t rev;
	char *before, *after;

	scene_open(&s, 2, 2);
	scene_run(&s);
	live(&s, 1, 3);
	epoch = epoch_of(&s);
	rev = coord_rev(s.c);
	before = essence(&s);
	ok(scene_again(&s), "a running cluster is gone on with: %s", s.e.msg);
	after = essence(&s);
	ok(strcmp(before, after) == 0, "nothing is missing");
	ok(epoch_of(&s) == epoch + 1 && coord_rev(s.c) > rev,
	    "the epoch is the next, and the view a newer one");
	ok(in_phase(&s, PHASE_RUNNING) && happened(&s, "recovered"), "it runs");
	ok(strcmp(join_as_server(&s, 1), "{\"index\":1}") == 0 &&
	        strcmp(join_as_worker(&s, 0, -1), "{\"rank\":0}") == 0,
	    "who was there has its place");
	ok(!happened(&s, "joined"), "and is not taken for new");
	free(before);
	free(after);
	scene_close(&s);
}

static void a_lease_to_come_back(void)
{
	struct scene s;

	scene_open(&s, 2, 2);
	s.cfg.replicas = 2;
	scene_run(&s);
	live(&s, 1, 3);
	scene_again(&s);
	/* Longer than a server's heartbeats may be late. */
	pass(&s, 2.5);
	ok(!happened(&s, "lost"), "everybody has time to come back");
	join_as_server(&s, 0);
	say(&s, &s.server[0], "{\"op\":\"beat\"}");
	pass(&s, 0.6);
	ok(happened(&s, "server-1 (h1, pid 101) is lost") && !happened(&s, "server-0 (h0"),
	    "who does not is lost");
	scene_close(&s);
}

/* A host is lost with a server and the coordinator, and the server is started again before the next
 * coordinator has missed it. */
static void a_server_that_was_restarted(void)
{
	struct scene s;
	struct coord_self other = { .incarnation = 77, .name = "other" };

	scene_open(&s, 2, 2);
	s.cfg.replicas = 2;
	scene_run(&s);
	live(&s, 1, 3);
	scene_again(&s);
	other.key = s.server[0].key;
	ok(strcmp(
	       say(&s, &other,
	           "{\"op\":\"server_join\",\"index\":-1,\"pid\":5,\"host\":\"h0\",\"tcp\":\"h0:2\"}"),
	       "{\"index\":0}") == 0,
	    "a process of the key of a server that is awaited replaces it: %s", s.e.msg);
	ok(happened(&s, "server-0 (h0, pid 100) is lost: it was restarted"), "which is lost");
	join_as_server(&s, 1);
	other.incarnation++;
	other.key = s.server[1].key;
	other.kind = COORD_NOBODY;
	say(&s, &other,
	    "{\"op\":\"server_join\",\"index\":-1,\"pid\":6,\"host\":\"h1\",\"tcp\":\"h1:2\"}");
	ok(s.e.code == ERR_NOTREADY, "one that is back is not replaced: %s", s.e.msg);
	scene_close(&s);
}

/* Members look for a coordinator that takes over more often than for one that is started again. */
static void a_lease_after_the_first(void)
{
	struct scene s;

	scene_open(&s, 2, 2);
	s.cfg.replicas = 2;
	s.cfg.took_over = true;
	scene_run(&s);
	live(&s, 1, 3);
	scene_again(&s);
	pass(&s, 0.3);
	for (int i = 0; i < 19; i++) {
		join_as_server(&s, 0);
		pass(&s, 0.1);
	}
	ok(!happened(&s, "lost"), "a server has two seconds from the return of the first one");
	join_as_server(&s, 0);
	pass(&s, 0.2);
	ok(happened(&s, "server-1 (h1, pid 101) is lost") && !happened(&s, "server-0 (h0"),
	    "and is lost then");
	scene_close(&s);
}

/* It died between the votes for a change and its announcement. */
static void a_change_under_vote(void)
{
	struct scene s;
	int64_t first;

	scene_open(&s, 2, 2);
	scene_run(&s);
	live(&s, 5.5, 1);
	ok(happened(&s, "worker-1 (h, pid 201) is lost") && s.proposal[0],
	    "a worker is lost, its leave proposed");
	first = json_int(s.proposal[0], "id", 0);
	vote(&s, 0, true, 3, 3);
	scene_again(&s);
	ok(strcmp(worker_is(&s, 1), "active") == 0, "with one vote of two nothing is decided");
	coord_tick(s.c, s.now);
	ok(json_int(s.proposal[0], "id", 0) > first, "it is voted on again, under another number");
	join_as_server(&s, 0);
	join_as_server(&s, 1);
	vote(&s, 0, true, 3, 3);
	vote(&s, 1, true, 3, 3);
	ok(strcmp(worker_is(&s, 1), "lost") == 0, "and decided");
	first = json_int(s.proposal[0], "id", 0);
	scene_again(&s);
	ok(strcmp(worker_is(&s, 1), "lost") == 0, "what was decided stays so");
	coord_tick(s.c, s.now);
	ok(json_int(s.proposal[0], "id", 0) == first, "and is not voted on again");
	scene_close(&s);
}

static void leases_of_data(void)
{
	struct scene s;
	char first[200], second[200];

	scene_open(&s, 1, 2);
	s.cfg.lockstep = false;
	s.cfg.epochs = 1;
	scene_run(&s);
	snprintf(first, sizeof first, "%s",
	    say(&s, &s.worker[0], "{\"op\":\"lease\",\"more\":true,\"done\":[],\"holds\":[]}"));
	ok(strstr(first, "\"id\":0") != NULL, "worker-0 leases a range: %s", first);
	scene_again(&s);
	join_as_worker(&s, 0, 0);
	join_as_worker(&s, 1, 1);
	snprintf(second, sizeof second, "%s",
	    say(&s, &s.worker[1], "{\"op\":\"lease\",\"more\":true,\"done\":[],\"holds\":[]}"));
	ok(strstr(second, "\"id\":1") != NULL, "which is still its own: worker-1 has the next: %s",
	    second);
	/* The answer to the first was lost with the coordinator. */
	snprintf(second, sizeof second, "%s",
	    say(&s, &s.worker[0], "{\"op\":\"lease\",\"more\":true,\"done\":[],\"holds\":[]}"));
	ok(strcmp(first, second) == 0, "a range whose lease never arrived is leased again: %s",
	    second);
	snprintf(second, sizeof second, "%s",
	    say(&s, &s.worker[0],
	        "{\"op\":\"lease\",\"more\":true,\"done\":[],\"holds\":[[0,0,0,10,0]]}"));
	ok(strstr(second, "\"id\":2") != NULL, "one that is held is not: %s", second);
	scene_close(&s);
}

static void strangers(void)
{
	struct coord_io io;
	struct scene s;
	struct state decoded;
	json_t *state, *view;

	scene_open(&s, 1, 1);
	scene_run(&s);
	state = saved_state(s.c);
	ok(!state_decode(state, &decoded, &s.e) && coord_state_is_running(&decoded),
	    "a state that can be gone on with");
	coord_free(s.c);
	io = (struct coord_io){ &s, scene_to_server, scene_view_changed, scene_event,
		scene_lease_changed };
	s.c = coord_new(&s.cfg, &io, s.now);
	coord_begin_after(s.c, &decoded);
	state_release(&decoded);
	say(&s, &s.server[0], "{\"op\":\"server_join\",\"index\":0,\"epoch\":1}");
	ok(s.e.code == ERR_FENCED, "begun anew, it turns a server of before away: %s", s.e.msg);
	join_as_server(&s, 0);
	view = coord_view(s.c);
	ok(layout_json_epoch(json_object_get(view, "layout")) == 0,
	    "before the partitions are placed, it tells a server no epoch that a coordinator started again would not know");
	json_decref(view);
	join_as_worker(&s, 0, -1);
	ok(epoch_of(&s) == 2, "epochs are not used twice");
	coord_stop(s.c, "enough", s.now);
	json_decref(state);
	state = saved_state(s.c);
	ok(!state_decode(state, &decoded, &s.e) && !coord_state_is_running(&decoded),
	    "what is over is not gone on with");
	state_release(&decoded);
	json_decref(state);
	scene_close(&s);
}

/* Every part of the file missing or of another kind: an error or a start, never harm. */
static void damaged(void)
{
	struct coord_io io;
	struct scene s;
	json_t *state, *bad;
	const char *key;
	json_t *value;
	unsigned refused = 0, taken = 0;

	scene_open(&s, 2, 2);
	scene_run(&s);
	io = (struct coord_io){ &s, scene_to_server, scene_view_changed, scene_event,
		scene_lease_changed };
	state = saved_state(s.c);
	json_object_foreach(state, key, value) {
		for (int kind = 0; kind < 3; kind++) {
			struct coord *c = coord_new(&s.cfg, &io, s.now);

			bad = json_deep_copy(state);
			if (kind)
				json_object_set_new(bad, key,
				    kind == 1 ? json_integer(-7)
				              : json_pack("[{s:i}]", "rank", 999));
			else
				json_object_del(bad, key);
			if (recover_from(c, bad, s.now, &s.e))
				refused++;
			else
				taken++;
			coord_tick(c, s.now);
			coord_free(c);
			json_decref(bad);
		}
	}
	ok(refused > 15 && taken > 15, "%u damaged states are refused, %u were good for a start",
	    refused, taken);
	bad = json_deep_copy(state);
	json_object_set_new(bad, "cluster_id", json_string("ff"));
	coord_free(s.c);
	s.c = coord_new(&s.cfg, &io, s.now);
	ok(recover_from(s.c, bad, s.now, &s.e) == ERR_CONFIG, "another cluster's is: %s", s.e.msg);
	json_decref(bad);
	json_decref(state);
	scene_close(&s);
}

static char *leases_of(const struct scene *s)
{
	json_t *state = saved_state(s->c);
	char *text = json_dumps(json_object_get(state, "tasks"), JSON_SORT_KEYS);

	json_decref(state);
	return text;
}

/* Leases since the last state come from a log, which may begin before that state. */
static void leases_from_a_log(void)
{
	struct scene s;
	unsigned ranges = 0, bad = 0;
	json_t *state = NULL;
	char *before, *after;

	scene_open(&s, 1, 2);
	s.cfg.lockstep = false;
	s.cfg.epochs = 3;
	scene_run(&s);
	for (int i = 0; i < 12; i++) {
		char done[32] = "";

		if (i >= 2)
			snprintf(done, sizeof done, "[%d,1]", i - 2);
		ranges += strstr(say(&s, &s.worker[i % 2],
		                     "{\"op\":\"lease\",\"more\":true,\"done\":[%s],\"holds\":[]}",
		                     done),
		              "task") != NULL;
		if (i == 4)
			state = saved_state(s.c);
	}
	before = leases_of(&s);
	ok(ranges == 12 && scene_again_from(&s, state),
	    "twelve leases, and a state that has five of them");
	for (unsigned i = 0; i < s.nlogged; i++)
		bad += !coord_replay_lease(s.c, s.logged[i].number, &s.logged[i].change);
	after = leases_of(&s);
	ok(!bad && strcmp(before, after) == 0, "the log gives the others back: %s, %s", before,
	    after);
	ok(!coord_replay_lease(s.c, s.logged[s.nlogged - 1].number + 2, &s.logged[0].change),
	    "a gap in the log is noticed");
	free(before);
	free(after);
	json_decref(state);
	scene_close(&s);
}

int main(void)
{
	everything_is_there();
	a_lease_to_come_back();
	a_lease_after_the_first();
	a_server_that_was_restarted();
	a_change_under_vote();
	leases_of_data();
	leases_from_a_log();
	strangers();
	damaged();
	return tap_done();
}
