/* SPDX-License-Identifier: ISC */
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/control.h"
#include "tests/sim/examples.h"
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
 * checkpoint's step. From these values the pushes of the new books count. With workers of the product there are no books,
 * and their examples are counted when the job is done (examples.c).
 *
 * In some of these cases a byte of the newest checkpoint has changed meanwhile. The job must then go
 * back to the one before it. The coordinator may choose the damaged one by its manifest, and say so in
 * its state, until a server has read its share. */

#define REPLICA_SLOT 13
#define READER_SLOT  15
#define CELLS        "64"

static struct {
	bool any, power_cut;
	unsigned left; /* times to go back */
	bool down,
	    asked;      /* it is under way; asked: the coordinator has been started with --resume */
	bool resumed;   /* what it has gone back to is known */
	bool went_back; /* to a checkpoint, at least once */
	unsigned generation;
	char began[64]; /* the life of the coordinator before */
	char books[24]; /* of this generation, and of the one before */
	/* copy of the books of when the last checkpoint that was answered had been requested; the books
	 * of the generation before */
	char low[24], was[24];
	char from[200]; /* the path that the coordinator has chosen */
	unsigned copies;
	struct proc *replica, *base;
	/* The checkpoints that were answered */
	struct answered {
		char path[200], low[24];
	} answered[64];
	unsigned nanswered;
	/* The files in which a byte was changed; a new checkpoint of that step has another file. */
	struct damaged {
		char dir[200], file[300];
		uint64_t digest;
	} damaged[2];
	unsigned ndamaged;
	/* The generation that made the checkpoint `from`; -1: the job has not gone back yet. */
	long long from_generation;
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
	if (r.any && !examples_are_drawn())
		copy_books(low);
}

void resume_note_answer(const char *low, const char *text)
{
	json_t *j = r.any ? json_loads(text, 0, NULL) : NULL;
	const char *path = json_string_value(json_object_get(j, "path"));

	if (path && r.nanswered < 64) {
		struct answered *a = &r.answered[r.nanswered++];

		snprintf(a->path, sizeof a->path, "%.190s", path);
		snprintf(a->low, sizeof a->low, "%s", low);
		snprintf(r.low, sizeof r.low, "%s", low);
	}
	json_decref(j);
}

/* ---- damage ---- */

static uint64_t digest_file(const char *path)
{
	uint64_t h = UINT64_C(14695981039346656037);
	size_t n = 0;
	const char *text = disk_get(path, &n);

	for (size_t i = 0; text && i < n; i++)
		h = (h ^ (uint8_t)text[i]) * UINT64_C(1099511628211);
	return h;
}

/* The name of a checkpoint without the directories. */
static const char *name_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool is_damaged(const char *path)
{
	for (unsigned i = 0; i < r.ndamaged; i++)
		if (strcmp(name_of(path), name_of(r.damaged[i].dir)) == 0 &&
		    digest_file(r.damaged[i].file) == r.damaged[i].digest)
			return true;
	return false;
}

/* A checkpoint by its manifest. */
struct found {
	char dir[200];
	long long generation, step;
};

struct looking {
	struct found newest, second;
	unsigned nfiles;
	char file[300];
};

/* False: there is no manifest. */
static bool read_manifest(const char *name, struct found *out)
{
	char path[300];
	const char *text;
	size_t n;
	json_t *j;

	snprintf(out->dir, sizeof out->dir, "c.run/checkpoints/%.100s", name);
	snprintf(path, sizeof path, "%s/MANIFEST.json", out->dir);
	text = disk_get(path, &n);
	j = text ? json_loadb(text, n, 0, NULL) : NULL;
	out->generation = json_integer_value(json_object_get(j, "generation"));
	out->step = json_integer_value(json_object_get(j, "step"));
	json_decref(j);
	return j != NULL;
}

static bool is_newer(const struct found *a, const struct found *b)
{
	return a->generation != b->generation ? a->generation > b->generation : a->step > b->step;
}

static void look_at_checkpoint(void *ctx, const char *name)
{
	struct looking *l = ctx;
	struct found found;

	if (strncmp(name, "step-", 5) != 0 || is_damaged(name) || !read_manifest(name, &found))
		return;
	if (is_newer(&found, &l->newest)) {
		l->second = l->newest;
		l->newest = found;
	} else if (is_newer(&found, &l->second)) {
		l->second = found;
	}
}

/* Chooses one of the files that no other checkpoint shares. */
static void look_at_file(void *ctx, const char *name)
{
	struct looking *l = ctx;

	if ((strncmp(name, "server-", 7) == 0 || strcmp(name, "MANIFEST.json") == 0) &&
	    sim_below(++l->nfiles) == 0)
		snprintf(l->file, sizeof l->file, "%s/%.90s", l->newest.dir, name);
}

/* Forgets that the checkpoint was answered: the job cannot go back to it. */
static void forget_answers(const char *dir)
{
	unsigned n = 0;

	for (unsigned i = 0; i < r.nanswered; i++)
		if (strcmp(name_of(r.answered[i].path), name_of(dir)) != 0)
			r.answered[n++] = r.answered[i];
	r.nanswered = n;
	*r.low = 0;
}

/* Changes a byte of the newest checkpoint, if there is another whole one to which the job can go back:
 * made since the job went back the last time, because the books of this generation begin with what it had then. */
static void damage_newest(void)
{
	struct looking l = { .newest = { .generation = -1 }, .second = { .generation = -1 } };
	struct damaged *d;
	char *text;
	size_t n;

	disk_list("c.run/checkpoints", look_at_checkpoint, &l);
	if (l.second.generation <= r.from_generation ||
	    r.ndamaged == sizeof r.damaged / sizeof *r.damaged)
		return;
	disk_list(l.newest.dir, look_at_file, &l);
	if (!*l.file || !disk_get(l.file, &n) || !n)
		return;
	text = malloc(n);
	if (!text)
		sim_panic("no memory");
	memcpy(text, disk_get(l.file, &n), n);
	text[sim_below((uint32_t)n)] ^= (char)(1 + sim_below(255));
	disk_put(l.file, text, n);
	free(text);
	d = &r.damaged[r.ndamaged++];
	snprintf(d->dir, sizeof d->dir, "%s", l.newest.dir);
	snprintf(d->file, sizeof d->file, "%s", l.file);
	d->digest = digest_file(d->file);
	forget_answers(d->dir);
	states_note(STATE_checkpoint_damaged);
	sim_trace("judge      > %s is damaged", d->file);
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
	struct found from;

	if (*r.from && read_manifest(name_of(r.from), &from))
		r.from_generation = from.generation;
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
	/* A later checkpoint of the same step, which nobody requested, may have replaced the one that was
	 * answered: it has pushes up to the end of its generation. */
	sim_trace("judge      > base %s, step %s, between %s and %s", r.from, step,
	    a ? a->low : r.low, r.was);
	r.base = proc_start(READER_SLOT, "base", ledger_main,
	    (const char *[]){ "ledger", "base", "-C", "base.run", "--book", r.books, "--cells",
	        CELLS, "--low", a ? a->low : r.low, "--high", r.was, "--steps", step, NULL });
}

/* The coordinator that was started with --resume has chosen a checkpoint, or none. */
static void note_choice(void)
{
	char phase[16];

	read_state("restore", r.from, sizeof r.from);
	read_state("phase", phase, sizeof phase);
	if (is_damaged(r.from)) {
		if (strcmp(phase, "forming") != 0)
			scenario_fail("CHECKPOINT: the job goes on from %s, which is damaged",
			    r.from);
		return;
	}
	if (!*r.from) {
		if (r.nanswered)
			scenario_fail(
			    "CHECKPOINT: a checkpoint was answered, and the job begins again");
		states_note(STATE_begun_anew);
		end_base();
	} else if (examples_are_drawn()) {
		/* Examples are counted when the job is done. */
		states_note(STATE_resumed);
		if (r.generation > 1)
			states_note(STATE_resumed_twice);
		r.went_back = true;
		end_base();
	} else {
		r.replica = proc_start(REPLICA_SLOT, "replica", ps_serve_main,
		    (const char *[]){ "ps-serve", "--read-only", r.from, "-C", "base.run",
		        "--threads", "1", NULL });
	}
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
		if (*began && strcmp(began, r.began) != 0)
			note_choice();
		if (r.resumed)
			return;
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
	if (sim_chance(40))
		damage_newest();
	r.generation++;
	snprintf(r.was, sizeof r.was, "%s", r.books);
	snprintf(r.books, sizeof r.books, "books%u", r.generation);
	if (!*r.low && !examples_are_drawn())
		copy_books(r.low); /* the new ones: none */
	read_state("began", r.began, sizeof r.began);
	r.down = r.resumed = false;
	r.asked = true;
	scenario_start_all();
	follow_resume(NULL);
}

/* A job with an end may be over, so that none of its processes would come back. */
static bool is_any_worker_done(void)
{
	for (unsigned i = 0; i < scenario_members(); i++)
		if (scenario_member(i)->kind == WORKER && scenario_member(i)->finished)
			return true;
	return false;
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
	if (examples_are_drawn() && is_any_worker_done()) {
		r.left = 0;
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
	r.from_generation = -1;
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

bool resume_has_gone_back(void)
{
	return r.went_back;
}

bool resume_has_damaged(void)
{
	return r.ndamaged != 0;
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
