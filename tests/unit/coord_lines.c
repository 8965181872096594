/* SPDX-License-Identifier: ISC */
/* Lines that break while both ends are well: who is spared, who is waited for. */
#include "coord_fixture.h"

/* How many servers hold a copy of the first run, and the first of them. */
static size_t chain_of(const struct scene *s, int *head)
{
	json_t *v = coord_view(s->c);
	const json_t *t = json_array_get(json_object_get(json_object_get(v, "layout"), "tables"),
	    0);
	const json_t *chain = json_array_get(json_array_get(json_object_get(t, "runs"), 0), 2);
	size_t n = json_array_size(chain);

	*head = (int)json_integer_value(json_array_get(chain, 0));
	json_decref(v);
	return n;
}

static void report(struct scene *s, unsigned from, unsigned server, bool sure)
{
	say(s, &s->server[from],
	    "{\"op\":\"unreachable\",\"server\":%u,\"epoch\":%lld,\"sure\":%s}", server,
	    (long long)status_int(s, "layout_epoch"), sure ? "true" : "false");
}

static void two_copies(struct scene *s, unsigned servers)
{
	scene_open(s, servers, 1);
	s->cfg.replicas = 2;
	scene_run(s);
}

/* A head that cannot reach its copy may be the one that is cut off. */
static void a_report_is_asked_about(void)
{
	struct scene s;
	int head;

	two_copies(&s, 2);
	ok(chain_of(&s, &head) == 2, "two copies");
	report(&s, (unsigned)head, (unsigned)!head, false);
	ok(chain_of(&s, &head) == 2 && strcmp(json_str(s.proposal[head], "op", ""), "sure") == 0 &&
	        json_int(s.proposal[head], "server", -1) == !head,
	    "who reports is asked once more");
	report(&s, (unsigned)head, (unsigned)!head, true);
	ok(chain_of(&s, &head) == 1 && happened(&s, "which gets no new replicas for 2 s"),
	    "then its copy is spared");
	live(&s, 2.5, 1);
	ok(happened(&s, "1 of 1 partition is being copied"), "and made anew after a while");
	scene_close(&s);
}

static void shunned_for_longer(void)
{
	struct scene s;
	int head;

	two_copies(&s, 2);
	chain_of(&s, &head);
	for (unsigned i = 0; i < 4; i++) {
		report(&s, (unsigned)head, (unsigned)!head, true);
		live(&s, i == 3 ? 1 : 17, 1);
	}
	ok(happened(&s, "for 2 s") && happened(&s, "for 4 s") && happened(&s, "for 16 s"),
	    "each time for twice as long");
	live(&s, 90, 1);
	report(&s, (unsigned)head, (unsigned)!head, true);
	s.events[0] = 0;
	live(&s, 2.5, 1);
	ok(happened(&s, "being copied"), "and from the beginning when it has been well");
	scene_close(&s);
}

/* Nothing is heard of any server: nobody could be told who takes over. */
static void the_coordinator_is_cut_off(void)
{
	struct scene s;
	int head;

	two_copies(&s, 2);
	for (unsigned i = 0; i < 25; i++) {
		say(&s, &s.worker[0], "{\"op\":\"beat\"}");
		pass(&s, 1);
	}
	ok(!happened(&s, "is lost") && happened(&s, "all servers are silent: waiting up to 30 s") &&
	        chain_of(&s, &head) == 2,
	    "of two silent servers none is lost");
	beat_servers(&s);
	live(&s, 5, 1);
	ok(in_phase(&s, PHASE_RUNNING) && chain_of(&s, &head) == 2,
	    "they are heard again, and nothing has happened");
	pass(&s, 2);
	for (unsigned i = 0; i < 20; i++) {
		say(&s, &s.worker[0], "{\"op\":\"beat\"}");
		say(&s, &s.server[1], "{\"op\":\"beat\"}");
		pass(&s, 0.2);
	}
	ok(!happened(&s, "server-0 (h0, pid 100) is lost"),
	    "when one of them is heard again the other has a while to come back");
	for (unsigned i = 0; i < 10; i++) {
		say(&s, &s.worker[0], "{\"op\":\"beat\"}");
		say(&s, &s.server[1], "{\"op\":\"beat\"}");
		pass(&s, 0.2);
	}
	ok(happened(&s, "server-0 (h0, pid 100) is lost: no heartbeat"),
	    "one of them is, when the other is heard");
	for (unsigned i = 0; i < 31; i++) {
		say(&s, &s.worker[0], "{\"op\":\"beat\"}");
		pass(&s, 1);
	}
	ok(in_phase(&s, PHASE_FAILED) && happened(&s, "server-1 (h1, pid 101) is lost"),
	    "in the end it is said: %s", status_str(&s, "reason"));
	scene_close(&s);
}

/* The coordinator is a store, too: that it hears itself says nothing.  And one
 * server alone may well be dead. */
static void own_store(void)
{
	struct scene s;

	two_copies(&s, 3);
	for (unsigned i = 0; i < 100; i++) {
		coord_own_server_alive(s.c, s.server[0].incarnation, s.now);
		say(&s, &s.worker[0], "{\"op\":\"beat\"}");
		pass(&s, 0.05);
	}
	ok(!happened(&s, "is lost"), "of two silent servers beside its own none is lost");
	for (unsigned i = 0; i < 160; i++) {
		coord_own_server_alive(s.c, s.server[0].incarnation, s.now);
		say(&s, &s.server[2], "{\"op\":\"beat\"}");
		say(&s, &s.worker[0], "{\"op\":\"beat\"}");
		pass(&s, 0.05);
	}
	ok(happened(&s, "server-1 (h1, pid 101) is lost"), "one is when the other is heard");
	for (unsigned i = 0; i < 40; i++) {
		coord_own_server_alive(s.c, s.server[0].incarnation, s.now);
		say(&s, &s.worker[0], "{\"op\":\"beat\"}");
		pass(&s, 0.05);
	}
	ok(!happened(&s, "server-2 (h2, pid 102) is lost"),
	    "the last that has a copy is waited for");
	scene_close(&s);

	scene_open(&s, 2, 1);
	s.cfg.replicas = 1;
	scene_run(&s);
	for (unsigned i = 0; i < 40; i++) {
		coord_own_server_alive(s.c, s.server[0].incarnation, s.now);
		pass(&s, 0.05);
	}
	ok(happened(&s, "server-1 (h1, pid 101) is lost"),
	    "without copies one alone that holds nothing is lost in time");
	scene_close(&s);
}

/* What a server begins with may be large. */
static void busy(void)
{
	struct scene s;

	scene_open(&s, 2, 1);
	s.cfg.replicas = 1;
	scene_begin(&s);
	join_as_server(&s, 0);
	join_as_server(&s, 1);
	join_as_worker(&s, 0, 0);
	for (unsigned i = 0; i < 400; i++) {
		say(&s, &s.server[0], "{\"op\":\"beat\"}");
		say(&s, &s.server[1], "{\"op\":\"beat\",\"busy\":true}");
		say(&s, &s.worker[0], "{\"op\":\"beat\"}");
		pass(&s, 0.25);
	}
	ok(in_phase(&s, PHASE_FORMING),
	    "who reads what the job begins with is waited for beyond the deadline");
	live(&s, 61, 1);
	ok(in_phase(&s, PHASE_FAILED), "but not who does nothing: %s", status_str(&s, "reason"));
	scene_close(&s);
}

/* Its end of the session came through, ours did not: no death. */
static void deaf(void)
{
	struct scene s;
	int head;

	two_copies(&s, 2);
	say(&s, &s.server[0], "{\"op\":\"deaf\"}");
	coord_session_gone(s.c, &s.server[0], s.now);
	for (unsigned i = 0; i < 5; i++) {
		say(&s, &s.server[1], "{\"op\":\"beat\"}");
		say(&s, &s.worker[0], "{\"op\":\"beat\"}");
		pass(&s, 0.2);
	}
	ok(!happened(&s, "is lost"), "who says that it does not hear is not gone");
	s.server[0].kind = COORD_NOBODY;
	s.server[0].reconnecting = false;
	join_as_server(&s, 0);
	live(&s, 3, 1);
	ok(!happened(&s, "is lost") && chain_of(&s, &head) == 2, "and is back with a new session");
	coord_session_gone(s.c, &s.server[0], s.now);
	pass(&s, 0.5);
	ok(happened(&s, "server-0 (h0, pid 100) is lost: its connection broke"),
	    "one that breaks without a word is");
	scene_close(&s);
}

/* Of another host, by a join file: it asks for no place of its own. */
static void comes_by_file(void)
{
	struct scene s;

	two_copies(&s, 3);
	for (unsigned i = 0; i < 2; i++) {
		coord_session_gone(s.c, &s.server[i + 1], s.now);
		for (unsigned k = 0; k < 3; k++) {
			say(&s, &s.server[0], "{\"op\":\"beat\"}");
			if (!i)
				say(&s, &s.server[2], "{\"op\":\"beat\"}");
			pass(&s, 0.2);
		}
	}
	s.server[2].kind = s.server[3].kind = COORD_NOBODY;
	ok(strcmp(say(&s, &s.server[2], "{\"op\":\"server_join\",\"index\":-1,\"tcp\":\"h2:1\"}"),
	       "{\"index\":2}") == 0,
	    "who was lost has its place again");
	ok(strcmp(say(&s, &s.server[3], "{\"op\":\"server_join\",\"index\":-1,\"tcp\":\"h3:1\"}"),
	       "{\"index\":1}") == 0,
	    "a new one has that of one which is lost");
	s.server[4].kind = COORD_NOBODY;
	say(&s, &s.server[4], "{\"op\":\"server_join\",\"index\":-1,\"tcp\":\"h4:1\"}");
	ok(s.e.code == ERR_NOTREADY, "one too many is told so: %s", s.e.msg);
	scene_close(&s);
}

/* A worker that cannot go on says so: nobody waits for its lease to end. */
static void gives_up(void)
{
	struct scene s;

	scene_open(&s, 2, 2);
	scene_run(&s);
	say(&s, &s.worker[0], "{\"op\":\"give_up\",\"message\":\"server-1 cannot be reached\"}");
	ok(happened(&s, "worker-0 (h, pid 200) is lost: server-1 cannot be reached"),
	    "at once, and why");
	say(&s, &s.worker[0], "{\"op\":\"beat\"}");
	vote(&s, 0, true, 3, 1);
	vote(&s, 1, true, 3, 1);
	ok(strcmp(worker_is(&s, 0), "lost") == 0, "a last beat does not bring it back");
	join_as_worker(&s, 2, 0);
	ok(happened(&s, "worker-0 joined from h (pid 202)"), "another has its rank");
	scene_close(&s);

	scene_open(&s, 2, 2);
	s.cfg.on_worker_loss = COORD_WAIT;
	scene_run(&s);
	say(&s, &s.worker[0], "{\"op\":\"give_up\",\"message\":\"why\"}");
	say(&s, &s.worker[0], "{\"op\":\"beat\"}");
	live(&s, 11, 2);
	ok(in_phase(&s, PHASE_FAILED) && !happened(&s, "is back"),
	    "waited for as any that is lost: %s", status_str(&s, "reason"));
	scene_close(&s);
}

/* Whose part of the model would be gone is not taken for lost so soon. */
static void the_only_copy(void)
{
	struct scene s;
	int head;

	scene_open(&s, 2, 1);
	s.cfg.replicas = 1;
	scene_run(&s);
	chain_of(&s, &head);
	for (unsigned i = 0; i < 50; i++) {
		say(&s, &s.worker[0], "{\"op\":\"beat\"}");
		say(&s, &s.server[!head], "{\"op\":\"beat\"}");
		pass(&s, 0.2);
	}
	ok(in_phase(&s, PHASE_RUNNING) && happened(&s, "is silent and has the only replica of"),
	    "a silent server with the only copy is waited for");
	s.events[0] = 0;
	live(&s, 3, 2);
	ok(in_phase(&s, PHASE_RUNNING) && !happened(&s, "is lost"),
	    "and is a member as before when it is heard again");
	for (unsigned i = 0; i < 160; i++) {
		say(&s, &s.worker[0], "{\"op\":\"beat\"}");
		say(&s, &s.server[!head], "{\"op\":\"beat\"}");
		pass(&s, 0.2);
	}
	ok(in_phase(&s, PHASE_FAILED) && happened(&s, "is lost: no heartbeat for 30"),
	    "for half of the deadline: %s", status_str(&s, "reason"));
	scene_close(&s);

	scene_open(&s, 2, 1);
	s.cfg.replicas = 1;
	scene_run(&s);
	chain_of(&s, &head);
	for (unsigned i = 0; i < 5; i++) {
		say(&s, &s.worker[0], "{\"op\":\"beat\"}");
		say(&s, &s.server[!head], "{\"op\":\"beat\"}");
		pass(&s, 0.2);
	}
	coord_session_gone(s.c, &s.server[head], s.now);
	for (unsigned i = 0; i < 25; i++) {
		say(&s, &s.worker[0], "{\"op\":\"beat\"}");
		say(&s, &s.server[!head], "{\"op\":\"beat\"}");
		pass(&s, 0.2);
	}
	ok(in_phase(&s, PHASE_RUNNING) && !happened(&s, "is lost"),
	    "a server whose connection breaks after a silence may have been cut off, and is waited for");
	live(&s, 3, 2);
	ok(in_phase(&s, PHASE_RUNNING) && !happened(&s, "is lost"), "and is a member as before");
	scene_close(&s);

	scene_open(&s, 2, 1);
	s.cfg.replicas = 1;
	scene_run(&s);
	chain_of(&s, &head);
	coord_session_gone(s.c, &s.server[head], s.now);
	for (unsigned i = 0; i < 2; i++) {
		say(&s, &s.worker[0], "{\"op\":\"beat\"}");
		say(&s, &s.server[!head], "{\"op\":\"beat\"}");
		pass(&s, 0.2);
	}
	ok(in_phase(&s, PHASE_FAILED) && happened(&s, "is lost: its connection broke"),
	    "one whose connection breaks without a silence has ended");
	scene_close(&s);
}

/* The coordinator's process stood still, or has much to do: what it has not read yet is not
 * silence. */
static void what_is_not_read(void)
{
	struct scene s;
	int head;

	two_copies(&s, 3);
	coord_input_processed_until(s.c, s.now);
	s.now += 3 * NSEC_PER_SEC;
	say(&s, &s.server[0], "{\"op\":\"beat\"}");
	ok(coord_tick(s.c, s.now) && !happened(&s, "is lost"),
	    "after three seconds of which nothing was read it doubts");
	say(&s, &s.server[1], "{\"op\":\"beat\"}");
	say(&s, &s.server[2], "{\"op\":\"beat\"}");
	say(&s, &s.worker[0], "{\"op\":\"beat\"}");
	coord_input_processed_until(s.c, s.now);
	ok(!coord_tick(s.c, s.now) && chain_of(&s, &head) == 2 && !happened(&s, "is lost"),
	    "all have been heard then, and nobody is lost");
	s.now += 3 * NSEC_PER_SEC;
	say(&s, &s.server[0], "{\"op\":\"beat\"}");
	say(&s, &s.server[1], "{\"op\":\"beat\"}");
	say(&s, &s.worker[0], "{\"op\":\"beat\"}");
	coord_input_processed_until(s.c, s.now);
	ok(!coord_tick(s.c, s.now) &&
	        happened(&s, "server-2 (h2, pid 102) is lost: no heartbeat for 3000 ms"),
	    "who has said nothing when all is read is");
	scene_close(&s);
}

int main(void)
{
	a_report_is_asked_about();
	shunned_for_longer();
	the_coordinator_is_cut_off();
	own_store();
	busy();
	deaf();
	comes_by_file();
	gives_up();
	the_only_copy();
	what_is_not_read();
	return tap_done();
}
