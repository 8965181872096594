/* SPDX-License-Identifier: ISC */
/* The coordinator's state machine, with time in the hand: who may join, what
 * holds from which step, what a death leads to, and how a job ends. */
#include "coord_fixture.h"

/* ---- forming ---- */

static void forming(void)
{
	struct scene s;

	scene_open(&s, 2, 2);
	scene_begin(&s);
	ok(in_phase(&s, PHASE_FORMING) &&
	        strcmp(status_str(&s, "waiting_for"), "server-0, server-1, worker-0, worker-1") ==
	            0,
	    "at first it waits for everybody, by name");
	ok(strcmp(join_as_server(&s, 1), "{\"index\":1}") == 0, "a server joins with its number");
	ok(strcmp(join_as_worker(&s, 0, -1), "{\"rank\":0}") == 0, "a worker gets the first rank");
	ok(strcmp(status_str(&s, "waiting_for"), "server-0, worker-1") == 0,
	    "then for those who are missing");
	join_as_server(&s, 0);
	ok(strcmp(join_as_worker(&s, 1, 1), "{\"rank\":1}") == 0, "or the rank that it asks for");
	ok(in_phase(&s, PHASE_FORMING) && happened(&s, "1 table over 2 servers"),
	    "with all there, partitions are dealt out");
	say(&s, &s.server[0], "{\"op\":\"ack\",\"rev\":%llu}", (unsigned long long)coord_rev(s.c));
	ok(in_phase(&s, PHASE_FORMING), "the job does not run before each server has them");
	ack_all(&s);
	ok(in_phase(&s, PHASE_RUNNING) && strcmp(worker_is(&s, 0), "active") == 0 &&
	        strcmp(worker_is(&s, 1), "active") == 0,
	    "then it runs, with both workers");
	ok(status_str(&s, "waiting_for")[0] == 0, "and waits for nobody");
	scene_close(&s);
}

static void forming_deadline(void)
{
	struct scene s;

	scene_open(&s, 1, 2);
	scene_begin(&s);
	join_as_server(&s, 0);
	join_as_worker(&s, 1, 1);
	live(&s, 59, 2);
	ok(in_phase(&s, PHASE_FORMING), "it waits up to the deadline");
	live(&s, 2, 2);
	ok(in_phase(&s, PHASE_FAILED) &&
	        strcmp(status_str(&s, "reason"), "waited 60 s for worker-0") == 0,
	    "then it fails and says who did not come: %s", status_str(&s, "reason"));
	scene_close(&s);

	scene_open(&s, 1, 2);
	s.cfg.join_wait = 100 * NSEC_PER_SEC;
	scene_begin(&s);
	join_as_server(&s, 0);
	join_as_worker(&s, 1, 1);
	live(&s, 158, 2);
	ok(in_phase(&s, PHASE_FORMING), "the deadline begins when the time to join is over");
	live(&s, 3, 2);
	ok(in_phase(&s, PHASE_FAILED) &&
	        strcmp(status_str(&s, "reason"), "waited 160 s for worker-0") == 0,
	    "and both are in the reason: %s", status_str(&s, "reason"));
	scene_close(&s);

	scene_open(&s, 1, 1);
	scene_begin(&s);
	join_as_worker(&s, 0, -1);
	pass(&s, 6);
	ok(strcmp(worker_is(&s, 0), "empty") == 0 && in_phase(&s, PHASE_FORMING),
	    "a worker that dies before the start frees its rank");
	s.worker[0].incarnation = 99;
	ok(strcmp(join_as_worker(&s, 0, 0), "{\"rank\":0}") == 0, "for who comes next");
	scene_close(&s);
}

/* Between the dealing of partitions and the start a member is a member. */
static void dies_at_the_start(void)
{
	struct scene s;
	uint64_t step, epoch, offset;

	scene_open(&s, 1, 2);
	scene_begin(&s);
	join_as_server(&s, 0);
	join_as_worker(&s, 0, -1);
	join_as_worker(&s, 1, -1);
	live(&s, 6, 1);
	ack_all(&s);
	ok(in_phase(&s, PHASE_RUNNING) && s.proposals > 0,
	    "a worker that dies while the servers take the layout over is voted out");
	vote(&s, 0, true, 0, 0);
	ok(members_of(&s, &step, &epoch, &offset) == 1 && strcmp(worker_is(&s, 1), "lost") == 0,
	    "and no member any more");
	scene_close(&s);
}

static void no_job(void)
{
	struct scene s;

	scene_open(&s, 1, 0);
	scene_begin(&s);
	join_as_server(&s, 0);
	ack_all(&s);
	ok(in_phase(&s, PHASE_RUNNING),
	    "without a job the cluster runs when its servers are there");
	join_as_worker(&s, 0, -1);
	ok(s.e.code == ERR_NOTREADY && strstr(s.e.msg, "does not train"), "a worker is told: %s",
	    s.e.msg);
	scene_close(&s);
}

/* A worker has died and its lease has not ended: one that asks for a rank is told so, if it can
 * wait. */
static void held_ranks(void)
{
	static const char join[] =
	    "{\"op\":\"worker_join\",\"rank\":%d,\"waits\":%s,\"pid\":9,\"host\":\"h\",\"examples\":100,\"tables\":[]}";
	struct scene s;
	const char *answer;

	scene_open(&s, 1, 2);
	scene_run(&s);
	say(&s, &s.worker[2], join, -1, "true");
	ok(s.e.code == ERR_LIMIT, "where all ranks are taken by workers that live: %s", s.e.msg);
	coord_session_gone(s.c, &s.worker[1], s.now);
	live(&s, 3, 1);
	answer = say(&s, &s.worker[2], join, -1, "true");
	ok(strstr(answer, "1 of 2 ranks is held by a worker whose lease ends soon, silent for 3") &&
	        strstr(answer, ": worker-1"),
	    "a rank of one that died is named: %s", answer);
	answer = say(&s, &s.worker[2], join, 1, "true");
	ok(strstr(answer, ": worker-1"), "that rank is to be waited for");
	say(&s, &s.worker[2], join, 0, "true");
	ok(s.e.code == ERR_EXISTS, "another one is not");
	say(&s, &s.worker[2], join, -1, "false");
	ok(s.e.code == ERR_LIMIT, "one that does not wait is refused");
	live(&s, 3, 1);
	answer = say(&s, &s.worker[2], join, -1, "true");
	ok(strcmp(answer, "{\"rank\":1}") == 0, "when the lease has ended it gets the rank: %s",
	    answer);
	scene_close(&s);
}

/* Three of four workers are replaced at once, while the fourth one is at a step: all take part from
 * the same step on. */
static void newcomers_at_once(void)
{
	struct scene s;
	int64_t first = 0;
	bool same = true;

	scene_open(&s, 1, 4);
	scene_run(&s);
	for (unsigned i = 0; i < 4; i++)
		say(&s, &s.worker[i], "{\"op\":\"beat\",\"stats\":{\"step\":26}}");
	for (unsigned i = 1; i < 4; i++) {
		s.worker[i] = (struct coord_self){ .incarnation = 90 + i,
			.name = s.name[PEERS + i],
			.key = s.name[PEERS + i] };
		join_as_worker(&s, i, (int)i);
	}
	for (unsigned i = 1; i < 4; i++) {
		first = first ? first : json_int(s.proposal[0], "step", 0);
		same &= json_int(s.proposal[0], "step", 0) == first &&
		    json_int(s.proposal[0], "rank", -1) == (int)i;
		vote(&s, 0, true, 27, 26);
		say(&s, &s.worker[i], "{\"op\":\"beat\",\"stats\":{\"step\":0}}");
	}
	ok(same && first == 27, "newcomers take part from the same step on, %lld",
	    (long long)first);
	s.worker[3] = (struct coord_self){ .incarnation = 99,
		.name = s.name[PEERS + 3],
		.key = s.name[PEERS + 3] };
	join_as_worker(&s, 3, 3);
	ok(json_int(s.proposal[0], "step", 0) == 27,
	    "one that is replaced again does not begin before that");
	scene_close(&s);
}

/* Many members change at one step, while a worker is still at the one before: the members of that
 * step stay known. */
static void many_changes_at_a_step(void)
{
	struct scene s;
	json_t *view, *members;

	scene_open(&s, 1, 8);
	scene_run(&s);
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 1; i < 8; i++) {
			say(&s, &s.worker[i], "{\"op\":\"leave\",\"steps\":3}");
			vote(&s, 0, true, 4, 3);
		}
		for (unsigned i = 1; i < 8; i++) {
			s.worker[i] = (struct coord_self){ .incarnation = 100 * (round + 1) + i,
				.name = s.name[PEERS + i],
				.key = s.name[PEERS + i] };
			join_as_worker(&s, i, (int)i);
			vote(&s, 0, true, 4, 3);
		}
	}
	view = coord_view(s.c);
	members = json_object_get(view, "members");
	ok(json_int(json_array_get(members, 0), "step", -1) == 0 &&
	        json_int(json_array_get(members, 15), "step", -1) == 4 &&
	        json_array_size(json_object_get(json_array_get(members, 15), "ranks")) == 8 &&
	        json_array_size(members) + (size_t)json_int(view, "members_base", 0) == 43,
	    "after many changes at one step the members before it are still known");
	json_decref(view);
	scene_close(&s);
}

/* ---- wrong joins ---- */

static void wrong_joins(void)
{
	struct scene s;

	scene_open(&s, 1, 2);
	scene_begin(&s);
	join_as_server(&s, 0);
	ok(strcmp(join_as_server(&s, 1), "") == 0 && s.e.code == ERR_NOTREADY,
	    "a server too many: %s", s.e.msg);
	join_as_worker(&s, 0, 5);
	ok(s.e.code == ERR_CONFIG && strstr(s.e.msg, "5"), "a rank that is not there: %s", s.e.msg);
	say(&s, &s.worker[0], "{\"op\":\"worker_join\",\"rank\":-1,\"examples\":0,\"tables\":[]}");
	ok(s.e.code == ERR_CONFIG, "a worker without data: %s", s.e.msg);
	join_as_worker(&s, 0, 0);
	say(&s, &s.worker[1], "{\"op\":\"worker_join\",\"rank\":-1,\"examples\":99,\"tables\":[]}");
	ok(s.e.code == ERR_CONFIG && strstr(s.e.msg, "99") && strstr(s.e.msg, "100"),
	    "other data than the others': %s", s.e.msg);
	say(&s, &s.worker[1],
	    "{\"op\":\"worker_join\",\"rank\":-1,\"examples\":100,\"tables\":[{\"name\":\"w\",\"rows\":6,\"cols\":1}]}");
	ok(s.e.code == ERR_EXISTS, "another model's tables: %s", s.e.msg);
	join_as_worker(&s, 1, 0);
	ok(s.e.code == ERR_EXISTS && strstr(s.e.msg, "another key"),
	    "a rank that another key holds: %s", s.e.msg);
	ok(strcmp(join_as_worker(&s, 1, -1), "{\"rank\":1}") == 0, "but any free one is given");
	join_as_worker(&s, 2, -1);
	ok(s.e.code == ERR_LIMIT, "and no more when all are taken: %s", s.e.msg);
	say(&s, &s.worker[2], "{\"op\":\"lease\"}");
	ok(s.e.code == ERR_FORBIDDEN, "who has not joined may ask for nothing: %s", s.e.msg);
	say(&s, &s.worker[0], "{\"op\":\"vote\"}");
	ok(s.e.code == ERR_FORBIDDEN, "a worker has no vote: %s", s.e.msg);
	ack_all(&s);
	say(&s, &s.worker[0], "{\"op\":\"worker_join\",\"rank\":0,\"examples\":100,\"tables\":[]}");
	ok(s.e.code == 0, "a session that is made again is recognised by its incarnation");
	coord_fail(s.c, CAUSE_UNKNOWN, "test", s.now);
	s.worker[2].incarnation = 300;
	join_as_worker(&s, 2, -1);
	ok(s.e.code == ERR_NOTREADY && strstr(s.e.msg, "failed: test"),
	    "nobody joins a job that is over: %s", s.e.msg);
	scene_close(&s);
}

/* ---- death of a worker ---- */

/* The kernel kills a process of a control group without memory, which says nothing. */
static void lost_without_memory(void)
{
	struct scene s;

	scene_open(&s, 2, 3);
	scene_run(&s);
	say(&s, &s.worker[1],
	    "{\"op\":\"beat\",\"about\":{\"memory_limit_bytes\":1000000,\"memory_used_bytes\":950000}}");
	say(&s, &s.worker[2],
	    "{\"op\":\"beat\",\"about\":{\"memory_limit_bytes\":1000000,\"memory_used_bytes\":800000}}");
	s.worker[1].incarnation = 77;
	join_as_worker(&s, 1, 1);
	ok(happened(&s,
	       "worker-1 joined from h (pid 201) in place of another process; it was probably killed for lack "
	       "of memory: its control group had used "),
	    "a worker that was started again is said to lack memory");
	live(&s, 6, 3);
	ok(happened(&s, "worker-2 (h, pid 202) is lost: no message for") &&
	        strstr(strstr(s.events, "worker-2 (h, pid 202) is lost"), "for lack of memory") ==
	            NULL,
	    "one that had memory left is not");
	say(&s, &s.server[1],
	    "{\"op\":\"beat\",\"about\":{\"memory_limit_bytes\":1000000,\"memory_used_bytes\":990000}}");
	coord_session_gone(s.c, &s.server[1], s.now);
	pass(&s, 0.5);
	ok(strstr(status_str(&s, "reason"), "for lack of memory") != NULL,
	    "a server without memory is the reason of the failure: %s", status_str(&s, "reason"));
	scene_close(&s);
}

static void shrink(void)
{
	struct scene s;
	uint64_t step, epoch, offset;

	scene_open(&s, 2, 3);
	scene_run(&s);
	ok(members_of(&s, &step, &epoch, &offset) == 7 && step == 0,
	    "three members from step 0 on");
	say(&s, &s.worker[1], "{\"op\":\"beat\",\"stats\":{\"step\":2}}");
	live(&s, 4.9, 5);
	ok(strcmp(worker_is(&s, 1), "active") == 0 && s.proposals == 0,
	    "a silent worker lives until its lease is over");
	live(&s, 0.4, 5);
	ok(s.proposals == 2 && happened(&s, "worker-1 (h, pid 201) is lost: no message for"),
	    "then the servers vote");
	ok(json_int(s.proposal[0], "step", 0) == 3 &&
	        strcmp(json_str(s.proposal[0], "kind", ""), "leave") == 0 &&
	        json_int(s.proposal[0], "rank", -1) == 1,
	    "on its leaving from the step after the last it told of");
	vote(&s, 0, true, 3, 2);
	ok(s.proposals == 2 && strcmp(worker_is(&s, 1), "active") == 0,
	    "one yes of two decides nothing");
	vote(&s, 0, true, 3, 2);
	ok(strcmp(worker_is(&s, 1), "active") == 0, "nor does the same vote twice");
	vote(&s, 1, false, 7, 2);
	ok(s.proposals == 4 && json_int(s.proposal[0], "step", 0) > 7,
	    "a no asks again, beyond the first free step that came with it: step %lld",
	    (long long)json_int(s.proposal[0], "step", 0));
	say(&s, &s.server[1], "{\"op\":\"vote\",\"id\":1,\"yes\":true}");
	vote(&s, 0, true, 8, 2);
	ok(strcmp(worker_is(&s, 1), "active") == 0, "a vote on the former proposal does not count");
	vote(&s, 1, true, 8, 2);
	ok(strcmp(worker_is(&s, 1), "lost") == 0 && members_of(&s, &step, &epoch, &offset) == 5 &&
	        step == 9,
	    "all yes: it is out from step 9 on");
	/* 9 steps of 30 with 100 examples: epochs of 4 steps. */
	ok(epoch == 2 && offset == 30,
	    "and the data goes on where 9 steps of three workers ended (epoch %llu, offset %llu)",
	    (unsigned long long)epoch, (unsigned long long)offset);
	ok(in_phase(&s, PHASE_RUNNING), "the job goes on with the rest");
	say(&s, &s.worker[1], "{\"op\":\"done\",\"steps\":9}");
	ok(s.e.code == ERR_FENCED && strcmp(worker_is(&s, 1), "lost") == 0,
	    "a lost one that was only slow is told: %s", s.e.msg);

	s.worker[1].incarnation = 501;
	ok(strcmp(join_as_worker(&s, 1, 1), "{\"rank\":1}") == 0,
	    "a restarted one takes its rank over");
	ok(s.proposals == 6 && strcmp(json_str(s.proposal[1], "kind", ""), "join") == 0,
	    "by the servers' vote");
	vote(&s, 0, true, 9, 2);
	vote(&s, 1, true, 9, 2);
	ok(strcmp(worker_is(&s, 1), "active") == 0 && members_of(&s, &step, &epoch, &offset) == 7,
	    "and is a member again");
	live(&s, 6, 0);
	for (int i = 0; i < 3; i++) {
		vote(&s, 0, true, 90, 2);
		vote(&s, 1, true, 90, 2);
	}
	ok(in_phase(&s, PHASE_FAILED) && strstr(status_str(&s, "reason"), "all workers have ended"),
	    "when all are gone the job fails: %s", status_str(&s, "reason"));
	scene_close(&s);
}

static void fenced(void)
{
	struct scene s;
	struct coord_self old;

	scene_open(&s, 1, 2);
	scene_run(&s);
	old = s.worker[0];
	s.worker[0].incarnation = 400;
	ok(strcmp(join_as_worker(&s, 0, 0), "{\"rank\":0}") == 0,
	    "the same key takes a rank over that is not lost yet");
	say(&s, &old, "{\"op\":\"done\"}");
	ok(s.e.code == ERR_FENCED, "the old incarnation is fenced: %s", s.e.msg);
	say(&s, &old, "{\"op\":\"leave\"}");
	ok(s.e.code == ERR_FENCED && s.proposals == 1, "and can change nothing");
	s.worker[0].incarnation = 401;
	join_as_worker(&s, 0, 0);
	vote(&s, 0, true, 1, 1);
	ok(s.proposals == 2 && strcmp(worker_is(&s, 0), "joining") == 0,
	    "a vote for an incarnation that was replaced meanwhile does not count");
	vote(&s, 0, true, 1, 1);
	ok(strcmp(worker_is(&s, 0), "active") == 0, "the next one does");
	scene_close(&s);
}

static void same_process(void)
{
	struct scene s;

	scene_open(&s, 2, 1);
	scene_run(&s);
	for (int i = 0; i < 50; i++) {
		coord_own_server_alive(s.c, s.server[0].incarnation, s.now);
		s.now += 50 * NSEC_PER_MSEC;
		coord_tick(s.c, s.now);
	}
	ok(strstr(s.events, "server-1") && !strstr(s.events, "server_lost: server-0"),
	    "the server in the coordinator's process needs no heartbeats");
	scene_close(&s);
}

/* The supervisor tells how a process ended. */
static void ends_with_words(void)
{
	struct scene s;

	scene_open(&s, 1, 3);
	scene_run(&s);
	ok(coord_worker_pid(s.c, "worker-1", "h") == 201 &&
	        coord_worker_pid(s.c, "worker-1", "elsewhere") == 0 &&
	        coord_worker_pid(s.c, "worker-7", "h") == 0,
	    "a worker has its process on its host");
	coord_process_ended(s.c, "worker-1", false, CAUSE_UNKNOWN, "ended with code 3: old", false,
	    s.now);
	ok(strcmp(worker_is(&s, 1), "active") == 0 && s.proposals == 0,
	    "a former process of a rank ends, and the rank stays");
	coord_process_ended(s.c, "worker-1", true, CAUSE_UNKNOWN, "ended with code 3: no room",
	    false, s.now);
	ok(happened(&s, "worker-1 (h, pid 201) is lost: ended with code 3: no room"),
	    "one that does not return is lost at once, with its words");
	live(&s, 0.2, 5);
	ok(s.proposals == 1, "and the servers vote");
	coord_process_ended(s.c, "worker-2", true, CAUSE_UNKNOWN, "ended by SIGKILL", true, s.now);
	live(&s, 4.5, 1);
	ok(!happened(&s, "worker-2 (h, pid 202) is lost"), "one that may return has its lease");
	live(&s, 0.9, 1);
	ok(happened(&s, "worker-2 (h, pid 202) is lost: ended by SIGKILL; no message for"),
	    "then it is lost by what it ended by");
	scene_close(&s);
}

/* The process of a worker ends after it has sent "leave" and before the servers have voted. */
static void ends_before_the_vote(void)
{
	struct scene s;

	scene_open(&s, 1, 3);
	s.cfg.on_worker_loss = COORD_WAIT;
	scene_run(&s);
	live(&s, 0.2, 7);
	say(&s, &s.worker[1], "{\"op\":\"leave\"}");
	ok(s.proposals == 1 && strcmp(worker_is(&s, 1), "active") == 0,
	    "a worker leaves, and the servers have yet to vote");
	coord_process_ended(s.c, "worker-1", true, CAUSE_UNKNOWN, "ended with code 130", false,
	    s.now);
	live(&s, 8, 5);
	ok(!happened(&s, "worker-1 (h, pid 201) is lost"),
	    "it is not lost when its process ends, nor when it is silent for its lease");
	vote(&s, 0, true, 3, 2);
	ok(strcmp(worker_is(&s, 1), "left") == 0, "it has left when they have voted");
	scene_close(&s);
}

static void policies(void)
{
	struct scene s;
	uint64_t step, epoch, offset;

	scene_open(&s, 1, 2);
	s.cfg.on_worker_loss = COORD_FAIL;
	scene_run(&s);
	live(&s, 5.4, 2);
	ok(in_phase(&s, PHASE_FAILED) && strstr(status_str(&s, "reason"), "worker-0 is lost") &&
	        strstr(status_str(&s, "reason"), "on_worker_loss is fail"),
	    "fail: %s", status_str(&s, "reason"));
	scene_close(&s);

	scene_open(&s, 1, 2);
	s.cfg.on_worker_loss = COORD_WAIT;
	scene_run(&s);
	live(&s, 14, 2);
	ok(in_phase(&s, PHASE_RUNNING) && s.proposals == 0 &&
	        members_of(&s, &step, &epoch, &offset) == 3,
	    "wait: a lost worker stays a member");
	live(&s, 2, 2);
	ok(in_phase(&s, PHASE_FAILED) &&
	        strstr(status_str(&s, "reason"), "worker-0 did not come back within 10 s"),
	    "wait: but not for ever: %s", status_str(&s, "reason"));
	scene_close(&s);

	scene_open(&s, 1, 2);
	s.cfg.on_worker_loss = COORD_WAIT;
	scene_run(&s);
	live(&s, 8, 2);
	say(&s, &s.worker[0], "{\"op\":\"beat\"}");
	live(&s, 20, 3);
	ok(in_phase(&s, PHASE_RUNNING) && happened(&s, "worker-0 is back"),
	    "wait: one that was only slow goes on");
	scene_close(&s);

	scene_open(&s, 1, 2);
	s.cfg.on_worker_loss = COORD_WAIT;
	s.cfg.deterministic = true;
	scene_run(&s);
	live(&s, 8, 2);
	s.worker[0].incarnation = 600;
	join_as_worker(&s, 0, 0);
	ok(strcmp(json_str(s.proposal[0], "kind", ""), "resume") == 0,
	    "wait, deterministic: who comes back resumes");
	vote(&s, 0, true, 9, 7);
	{
		json_t *v = coord_view(s.c);
		const json_t *row = json_array_get(json_object_get(v, "workers"), 0);

		ok(json_int(row, "from", 0) == 6 &&
		        strcmp(json_str(row, "state", ""), "active") == 0,
		    "one step before the one that is open, which it makes again");
		json_decref(v);
	}
	live(&s, 20, 3);
	ok(in_phase(&s, PHASE_RUNNING), "and the wait is over");
	scene_close(&s);
}

static void leaving(void)
{
	struct scene s;
	uint64_t step, epoch, offset;

	scene_open(&s, 1, 2);
	scene_run(&s);
	say(&s, &s.worker[0], "{\"op\":\"leave\"}");
	vote(&s, 0, true, 1, 1);
	ok(strcmp(worker_is(&s, 0), "left") == 0 && members_of(&s, &step, &epoch, &offset) == 2,
	    "who leaves is out, without a lease to wait for");
	say(&s, &s.worker[1], "{\"op\":\"done\",\"steps\":20}");
	ok(in_phase(&s, PHASE_FINISHING) && evaluator_of(&s) == 1,
	    "and the job ends with those who stayed");
	scene_close(&s);

	scene_open(&s, 1, 2);
	s.cfg.on_worker_loss = COORD_FAIL;
	scene_run(&s);
	say(&s, &s.worker[0], "{\"op\":\"leave\"}");
	vote(&s, 0, true, 1, 1);
	live(&s, 6, 2);
	ok(in_phase(&s, PHASE_RUNNING), "leaving is no loss");
	scene_close(&s);
}

/* ---- servers ---- */

static void servers_lost(void)
{
	struct scene s;

	scene_open(&s, 2, 1);
	scene_run(&s);
	coord_session_gone(s.c, &s.server[1], s.now);
	pass(&s, 0.2);
	ok(in_phase(&s, PHASE_RUNNING),
	    "a server whose connection broke has a moment to come back");
	join_as_server(&s, 1);
	pass(&s, 0.3);
	coord_session_gone(s.c, &s.server[1], s.now);
	live(&s, 1, 1);
	ok(in_phase(&s, PHASE_RUNNING),
	    "and lives as long as it says so, whenever the end of the old connection is seen");
	say(&s, &s.worker[0], "{\"op\":\"leave\"}");
	vote(&s, 0, true, 0, 0);
	join_as_server(&s, 1);
	ok(s.proposals == 3, "what it had not voted on is asked again");
	coord_session_gone(s.c, &s.server[1], s.now);
	pass(&s, 0.5);
	ok(in_phase(&s, PHASE_FAILED) &&
	        strstr(status_str(&s, "reason"),
	            "server-1 (h1, pid 101) is lost: its connection broke"),
	    "a server's broken connection: %s", status_str(&s, "reason"));
	scene_close(&s);

	scene_open(&s, 2, 1);
	scene_run(&s);
	for (int i = 0; i < 20; i++) {
		say(&s, &s.server[0], "{\"op\":\"beat\"}");
		say(&s, &s.worker[0], "{\"op\":\"beat\"}");
		pass(&s, 0.1);
	}
	ok(in_phase(&s, PHASE_FAILED) && strstr(status_str(&s, "reason"), "no heartbeat for"),
	    "a server's silence: %s", status_str(&s, "reason"));
	scene_close(&s);

	scene_open(&s, 2, 1);
	scene_begin(&s);
	join_as_server(&s, 0);
	join_as_server(&s, 1);
	coord_session_gone(s.c, &s.server[1], s.now);
	pass(&s, 0.5);
	ok(in_phase(&s, PHASE_FORMING) && strstr(status_str(&s, "waiting_for"), "server-1"),
	    "before the start it may come again");
	s.server[1].incarnation = 700;
	ok(strcmp(join_as_server(&s, 1), "{\"index\":1}") == 0, "under its number");
	scene_close(&s);
}

/* ---- the end ---- */

int main(void)
{
	forming();
	forming_deadline();
	dies_at_the_start();
	no_job();
	held_ranks();
	newcomers_at_once();
	many_changes_at_a_step();
	wrong_joins();
	lost_without_memory();
	shrink();
	fenced();
	same_process();
	ends_with_words();
	ends_before_the_vote();
	policies();
	leaving();
	servers_lost();
	return tap_done();
}
