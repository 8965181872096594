/* SPDX-License-Identifier: ISC */
/* Workers that join, leave or are replaced between the placement of the partitions and the first
 * step, or while an earlier process of their rank still waits for its step. */
#include "coord_fixture.h"

/* A member of the view: a number of one worker. */
static int64_t worker_int(const struct scene *s, unsigned rank, const char *key)
{
	json_t *v = coord_view(s->c);
	int64_t n = json_int(json_array_get(json_object_get(v, "workers"), rank), key, -1);

	json_decref(v);
	return n;
}

static bool holds_rank(const struct scene *s, unsigned rank, const char *incarnation)
{
	json_t *v = coord_view(s->c);
	const json_t *row = json_array_get(json_object_get(v, "workers"), rank);
	bool is = strcmp(json_str(row, "state", ""), "active") == 0 &&
	    strcmp(json_str(row, "incarnation", ""), incarnation) == 0;

	json_decref(v);
	return is;
}

/* The partitions are placed, and the servers have not acknowledged them. */
static void place(struct scene *s, unsigned workers)
{
	scene_begin(s);
	for (unsigned i = 0; i < s->cfg.servers; i++)
		join_as_server(s, i);
	for (unsigned i = 0; i < workers; i++)
		join_as_worker(s, i, -1);
	live(s, 2.5, 7);
	ok(coord_is_placed(s->c) && in_phase(s, PHASE_FORMING), "the servers take the layout over");
}

/* With workers MIN:MAX, one more worker comes after the first members were chosen. */
static void one_more_member(void)
{
	struct scene s;
	uint64_t step, epoch, offset;

	scene_open(&s, 1, 4);
	s.cfg.workers_min = 1;
	s.cfg.workers_max = 4;
	place(&s, 1);
	join_as_worker(&s, 1, -1);
	join_as_worker(&s, 2, -1);
	join_as_worker(&s, 3, -1);
	ok(members_of(&s, &step, &epoch, &offset) == 15 && step == 0,
	    "workers that join before the servers have the layout are members from the first step on");
	ok(in_phase(&s, PHASE_FORMING), "the servers must hear of them first");
	ack_all(&s);
	ok(in_phase(&s, PHASE_RUNNING) && strcmp(worker_is(&s, 2), "active") == 0 && !s.proposals,
	    "then they take part, and nothing is voted on");
	scene_close(&s);
}

/* A member is lost, and another process has its rank, before the servers have the layout. */
static void replaced_before_the_first_step(enum coord_policy policy)
{
	struct scene s;
	uint64_t step, epoch, offset;

	scene_open(&s, 1, 2);
	s.cfg.on_worker_loss = policy;
	place(&s, 2);
	live(&s, 6, 1);
	ok(happened(&s, "worker-1 (h, pid 201) is lost"), "a first member is lost");
	ok(strcmp(join_as_worker(&s, 2, -1), "{\"rank\":1}") == 0, "another worker has its rank");
	ack_all(&s);
	ok(in_phase(&s, PHASE_RUNNING) && holds_rank(&s, 1, "22") && !s.proposals,
	    "it takes part from the first step on, and nothing is voted on");
	ok(members_of(&s, &step, &epoch, &offset) == 3 && step == 0, "by the members of that step");
	scene_close(&s);
}

/* A worker's rank is replaced twice in a deterministic job: the second process has not gone on yet. */
static void replaced_while_it_waits(void)
{
	struct scene s;

	scene_open(&s, 1, 2);
	s.cfg.on_worker_loss = COORD_WAIT;
	s.cfg.deterministic = true;
	scene_run(&s);
	live(&s, 6, 1);
	join_as_worker(&s, 2, -1);
	ok(strcmp(json_str(s.proposal[0], "kind", ""), "resume") == 0, "a rank is to be resumed");
	ok(strcmp(join_as_worker(&s, 3, -1), "") == 0, "which is taken");
	s.worker[3].key = s.worker[2].key;
	ok(strcmp(join_as_worker(&s, 3, 1), "{\"rank\":1}") == 0, "another process has the rank");
	vote(&s, 0, true, 8, 8);
	ok(strcmp(worker_is(&s, 1), "joining") == 0,
	    "the vote about the process before it is void");
	ok(strcmp(json_str(s.proposal[0], "kind", ""), "resume") == 0 &&
	        strcmp(json_str(s.proposal[0], "incarnation", ""), "23") == 0,
	    "it resumes the rank, too: no step of it may be missing");
	vote(&s, 0, true, 8, 8);
	ok(holds_rank(&s, 1, "23") && worker_int(&s, 1, "from") == 7, "at the step that is open");
	scene_close(&s);
}

/* A worker that waits for its first step is told to leave. */
static void leaves_before_its_first_step(void)
{
	struct scene s;

	scene_open(&s, 1, 2);
	place(&s, 2);
	say(&s, &s.worker[1], "{\"op\":\"leave\"}");
	ack_all(&s);
	ok(in_phase(&s, PHASE_RUNNING) && s.proposal[0] &&
	        strcmp(json_str(s.proposal[0], "kind", ""), "leave") == 0,
	    "a worker that leaves before its first step is out by a vote");
	vote(&s, 0, true, 0, 0);
	ok(strcmp(worker_is(&s, 1), "left") == 0 && !happened(&s, "lost"), "it has left");
	scene_close(&s);

	scene_open(&s, 1, 2);
	scene_begin(&s);
	join_as_server(&s, 0);
	join_as_worker(&s, 0, -1);
	say(&s, &s.worker[0], "{\"op\":\"leave\"}");
	ok(strcmp(worker_is(&s, 0), "empty") == 0,
	    "one that leaves before all are there is no member");
	s.worker[2].kind = COORD_NOBODY;
	join_as_worker(&s, 2, -1);
	join_as_worker(&s, 3, -1);
	ack_all(&s);
	ok(in_phase(&s, PHASE_RUNNING), "others have its rank");
	scene_close(&s);
}

int main(void)
{
	one_more_member();
	replaced_before_the_first_step(COORD_SHRINK);
	replaced_before_the_first_step(COORD_WAIT);
	replaced_while_it_waits();
	leaves_before_its_first_step();
	return tap_done();
}
