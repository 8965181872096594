/* SPDX-License-Identifier: ISC */
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/sim/control.h"
#include "tests/sim/parts.h"
#include "tests/sim/states.h"

int ps_serve_main(int argc, char **argv);
int ledger_main(int argc, char **argv);

/* A job that goes back to a checkpoint: all processes die at once by a power cut, or all servers die and what
 * is left of the job is ended, as ps-ctl does when it rolls back. Then a coordinator is started with --resume,
 * and the others, whose pushes go into new books.
 *
 * What the job has gone back to is read from the checkpoint itself, by a read replica, and compared (ledger
 * base): it has everything that was acknowledged when a checkpoint was requested that was answered later, and of
 * each worker the steps before some step and no others; if the mode was bsp throughout, those before the
 * checkpoint's step. From these values the pushes of the new books count. */

#define REPLICA_SLOT 13
#define READER_SLOT  15
#define CELLS        "64"

static struct {
	bool any, power_cut;
	unsigned left; /* times to go back */
	bool down,
	    asked;    /* it is under way; asked: the coordinator has been started with --resume */
	bool resumed; /* what it has gone back to is known */
	unsigned generation;
	char began[64]; /* the life of the coordinator before */
	char books[24]; /* of this generation, and of the one before */
	char low[24],
	    was[24];    /* books of when the last checkpoint that was answered had been requested */
	char from[200]; /* the path that the coordinator has chosen */
	unsigned copies;
	struct proc *replica, *base;
	/* The checkpoints that were answered */
	struct answered {
		char path[200], low[24], high[24];
	} answered[64];
	unsigned nanswered;
} r;

/* ---- copies of the books ---- */

struct copying {
	const char *from, *to;
};

static void copy_book(void *ctx, const char *name)
{
	const struct copying *c = ctx;
	char from[300], to[300];
	const char *text;
	size_t n;

	snprintf(from, sizeof from, "%s/%s", c->from, name);
	snprintf(to, sizeof to, "%s/%s", c->to, name);
	text = disk_get(from, &n);
	disk_put(to, text, n);
}

static void copy_books(char out[24])
{
	struct copying c = { r.books, out };
	char keep[40];

	snprintf(out, 24, "copy%u", r.copies++);
	/* A directory that has no book yet must be there, too. */
	snprintf(keep, sizeof keep, "%s/none", out);
	disk_put(keep, "", 0);
	disk_list(r.books, copy_book, &c);
}

const char *resume_books(void)
{
	return r.books;
}

void resume_note_request(char low[24])
{
	low[0] = 0;
	if (r.any)
		copy_books(low);
}

void resume_note_answer(const char *low, const char *text)
{
	json_t *j = r.any && *low ? json_loads(text, 0, NULL) : NULL;
	const char *path = json_string_value(json_object_get(j, "path"));

	if (path && r.nanswered < 64) {
		struct answered *a = &r.answered[r.nanswered++];

		snprintf(a->path, sizeof a->path, "%.190s", path);
		snprintf(a->low, sizeof a->low, "%s", low);
		copy_books(a->high);
		snprintf(r.low, sizeof r.low, "%s", low);
	}
	json_decref(j);
}

/* ---- going back ---- */

/* A string of the coordinator's state. */
static void read_state(const char *key, char *out, size_t size)
{
	size_t n;
	const char *text = disk_get("c.run/state.json", &n);
	json_t *j = text ? json_loadb(text, n, 0, NULL) : NULL;
	const char *v = json_string_value(json_object_get(j, key));

	snprintf(out, size, "%s", v ? v : "");
	json_decref(j);
}

bool resume_is_down(void)
{
	return r.down;
}

bool resume_is_under_way(void)
{
	return r.down || (r.asked && !r.resumed);
}

/* Only the first coordinator of a generation gets --resume (start_coordinator_process in members.c). */
bool resume_wants_checkpoint(void)
{
	char began[64];

	if (!r.asked)
		return false;
	read_state("began", began, sizeof began);
	return strcmp(began, r.began) == 0;
}

static void end_base(void)
{
	r.resumed = true;
	r.asked = r.left != 0;
	if (r.replica && r.replica->alive)
		proc_kill(r.replica);
	r.replica = r.base = NULL;
	sim_trace("judge      < generation %u has begun", r.generation);
}

static void compare_base(void)
{
	const struct answered *a = NULL;
	const char *number = strrchr(r.from, '-');
	char step[24];

	for (unsigned i = 0; i < r.nanswered; i++)
		if (strcmp(r.answered[i].path, r.from) == 0)
			a = &r.answered[i];
	snprintf(step, sizeof step, "%s",
	    scenario_is_bsp() && number ? number + 1 + strspn(number + 1, "0") : "0");
	if (!*step)
		snprintf(step, sizeof step, "0");
	states_note(STATE_resumed);
	if (!a)
		states_note(STATE_unanswered_resumed);
	if (r.generation > 1)
		states_note(STATE_resumed_twice);
	sim_trace("judge      > base %s, step %s, between %s and %s", r.from, step,
	    a ? a->low : r.low, a ? a->high : r.was);
	r.base = proc_start(READER_SLOT, "base", ledger_main,
	    (const char *[]){ "ledger", "base", "-C", "base.run", "--book", r.books, "--cells",
	        CELLS, "--low", a ? a->low : r.low, "--high", a ? a->high : r.was, "--steps", step,
	        NULL });
}

static void follow_resume(void *ctx)
{
	unsigned long long begun, acked, lost, doubled, torn;
	size_t n;

	(void)ctx;
	if (r.resumed || scenario_has_failed())
		return;
	if (!r.replica) {
		char began[64];

		read_state("began", began, sizeof began);
		if (*began && strcmp(began, r.began) != 0) {
			read_state("restore", r.from, sizeof r.from);
			if (!*r.from) {
				if (r.nanswered)
					scenario_fail(
					    "CHECKPOINT: a checkpoint was answered, and the job begins again");
				states_note(STATE_begun_anew);
				end_base();
				return;
			}
			r.replica = proc_start(REPLICA_SLOT, "replica", ps_serve_main,
			    (const char *[]){ "ps-serve", "--read-only", r.from, "-C", "base.run",
			        "--threads", "1", NULL });
		}
	} else if (!r.replica->alive) {
		scenario_fail("CHECKPOINT: the checkpoint %s cannot be served: %s", r.from,
		    r.replica->last);
	} else if (!r.base) {
		if (disk_get("base.run/cluster.json", &n))
			compare_base();
	} else if (!r.base->alive) {
		if (sscanf(r.base->printed,
		        "begun %llu acknowledged %llu lost %llu doubled %llu torn %llu", &begun,
		        &acked, &lost, &doubled, &torn) != 5)
			scenario_fail("CHECKPOINT: the checkpoint %s cannot be compared: %s",
			    r.from, r.base->last);
		else if (lost || doubled || torn)
			scenario_fail("CHECKPOINT: the checkpoint %s: %s: %s", r.from,
			    r.base->printed, r.base->last);
		end_base();
		return;
	}
	event_at(sim_now + 5 * MSEC, follow_resume, NULL);
}

static void start_generation(void *ctx)
{
	(void)ctx;
	scenario_kill_all();
	if (r.power_cut && disk_lose_unsynced("c.run"))
		states_note(STATE_unsynced_lost);
	r.generation++;
	snprintf(r.was, sizeof r.was, "%s", r.books);
	snprintf(r.books, sizeof r.books, "books%u", r.generation);
	if (!*r.low)
		copy_books(r.low); /* the new ones: none */
	read_state("began", r.began, sizeof r.began);
	r.down = r.resumed = false;
	r.asked = true;
	scenario_start_all();
	follow_resume(NULL);
}

/* All die, or all servers do; then ps-ctl ends the others. */
static void go_back(void *ctx)
{
	(void)ctx;
	if (scenario_is_peace() || !r.left)
		return;
	if (r.down || (r.asked && !r.resumed) || !scenario_coordinator()->proc->alive) {
		event_at(sim_now + 100 * MSEC, go_back, NULL);
		return;
	}
	r.left--;
	r.down = true;
	r.power_cut = sim_chance(60);
	sim_trace("judge      > %s", r.power_cut ? "power cut" : "roll-back");
	if (r.power_cut) {
		scenario_kill_all();
		event_at(sim_now + sim_below(300) * MSEC, start_generation, NULL);
	} else {
		scenario_kill_servers();
		event_at(sim_now + (100 + sim_below(600)) * MSEC, start_generation, NULL);
	}
	event_at(sim_now + (500 + sim_below(800)) * MSEC, go_back, NULL);
}

void resume_leave_out(void)
{
	memset(&r, 0, sizeof r);
	snprintf(r.books, sizeof r.books, "books");
}

void resume_draw(void)
{
	resume_leave_out();
	r.any = sim_chance(30);
	if (r.any)
		r.left = 1 + sim_chance(30);
}

bool resume_is_drawn(void)
{
	return r.any;
}

bool resume_is_due(void)
{
	return r.left != 0;
}

static void ask_for_checkpoint(void *ctx)
{
	(void)ctx;
	if (scenario_is_peace())
		return;
	if (!resume_is_under_way())
		scenario_take_checkpoint();
	event_at(sim_now + (30 + sim_below(300)) * MSEC, ask_for_checkpoint, NULL);
}

void resume_begin(void)
{
	if (!r.any)
		return;
	event_at(sim_now + (400 + sim_below(1200)) * MSEC, go_back, NULL);
	ask_for_checkpoint(NULL);
}
