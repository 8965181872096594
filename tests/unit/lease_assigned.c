/* SPDX-License-Identifier: ISC */
/* Assigned ranges (coord/leases.h, role/worker/lease_assigned.c): the batch that a rank has at a
 * step is the same in every run, whichever workers die, whether the coordinator is started again,
 * and when the job resumes from a checkpoint. The batches of all ranks are chosen against the
 * coordinator's leases, with a source of ranges of known lengths; functions of this file do the
 * part of batches.c and of the session. */
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/mem.h"
#include "core/rng.h"
#include "coord/leases.h"
#include "msg/answer.h"
#include "tap.h"
#include "worker/batches_state.h"

enum { RANKS = 3, UNITS = 20, EPOCHS = 3, STEPS = 400, FIRST = 5, LOG = 4096 };

/* The batch of a rank at a step. n 0: it has none. */
struct chosen {
	uint64_t id, from, n;
};

struct source {
	struct range_source base;
	struct source_range open;
	bool is_open;
};

struct seat {
	struct batches *batches;
	struct source source;
	bool over;
};

struct world {
	struct leases *t;
	uint64_t range;
	struct rng rng;
	struct seat seat[RANKS];
	struct chosen chosen[RANKS][STEPS];
	uint64_t step;
	bool away,
	    broken; /* the coordinator is away; something that must not happen has happened */
	int64_t now;
	/* the coordinator's state file, and its log of what followed */
	struct state_leases *file;
	struct lease_change log[LOG];
	unsigned logged;
	/* a checkpoint of the step `taken_at` */
	struct state_leases *checkpoint;
	uint64_t taken_at;
	unsigned deaths;
};

static struct world *the_world;

/* ---- the parts of the worker that the leases call ---- */

int64_t clock_now(void)
{
	return the_world->now;
}

int64_t clock_wall(void)
{
	return the_world->now;
}

void clock_stamp(char out[static 32])
{
	out[0] = '\0';
}

struct agent *cluster_view_agent(struct cluster_view *c)
{
	return (struct agent *)c;
}

bool agent_is_up(struct agent *a)
{
	return !((struct world *)(void *)a)->away;
}

enum err_code cluster_view_await_change(struct cluster_view *c, int64_t ns, struct err *e)
{
	(void)c;
	(void)e;
	the_world->now += ns;
	return ERR_OK;
}

/* The size changes twice. */
uint64_t batches_size_at(const struct batches *f, uint64_t step)
{
	(void)f;
	return step < 17 ? 4 : step < 31 ? 3 : 7;
}

static uint64_t item(const json_t *list, size_t i)
{
	return (uint64_t)json_integer_value(json_array_get(list, i));
}

/* As coord_on_lease. */
enum err_code batches_request_lease(struct batches *f, const struct message_lease *m, json_t *done,
    json_t *holds, struct answer_lease *out, json_t **answer, struct err *e)
{
	struct world *w = (struct world *)(void *)f->cluster;
	uint64_t held[LEASES_ASSIGNED_MAX];
	const struct lease *t;
	const json_t *range;
	size_t i, n = 0;

	(void)e;
	json_array_foreach(done, i, range)
		leases_note_done(w->t, f->rank, item(range, 0), item(range, 1));
	json_array_foreach(holds, i, range) {
		w->broken |= n == LEASES_ASSIGNED_MAX;
		if (n < LEASES_ASSIGNED_MAX)
			held[n++] = item(range, 0);
		leases_advance(w->t, f->rank, item(range, 0), item(range, 1), item(range, 2),
		    item(range, 3), 0);
	}
	leases_keep_only(w->t, f->rank, held, n);
	w->broken |= m->more && !leases_may_lease(w->t, f->rank);
	t = m->more ? leases_give(w->t, f->rank, (uint64_t)m->step, (uint64_t)m->batch) : NULL;
	*out = (struct answer_lease){ .finished = !t && leases_finished(w->t) };
	*answer = NULL;
	if (t) {
		struct answer_task *task = mem_alloc(sizeof *task);

		*task = (struct answer_task){ .id = (int64_t)t->id,
			.epoch = (int64_t)t->epoch,
			.begin = (int64_t)t->begin,
			.end = (int64_t)t->end,
			.from = (int64_t)t->attempt.from,
			.step = (int64_t)t->attempt.step,
			.batch = (int64_t)t->attempt.batch };
		out->task = task;
	}
	json_decref(done);
	json_decref(holds);
	return ERR_OK;
}

/* ---- a source ---- */

/* Every fourth range has no example, and some have a single batch. */
static uint64_t range_length(uint64_t id)
{
	return id % 4 == 1 ? 0 : rng_mix(id) % 23 + 1;
}

static struct source *source_of(const struct range_source *s)
{
	return (struct source *)(uintptr_t)s;
}

static enum err_code prepare_range(struct range_source *s, const struct source_range *r,
    struct err *e)
{
	(void)s;
	(void)r;
	(void)e;
	return ERR_OK;
}

static enum err_code open_range(struct range_source *s, const struct source_range *r, struct err *e)
{
	(void)e;
	the_world->broken |= source_of(s)->is_open;
	source_of(s)->open = *r;
	source_of(s)->is_open = true;
	return ERR_OK;
}

static enum err_code ready_examples(struct range_source *s, uint64_t at, uint64_t n, uint64_t *have,
    struct err *e)
{
	uint64_t length = range_length(source_of(s)->open.id);

	(void)e;
	the_world->broken |= !source_of(s)->is_open || at > length;
	*have = at + n <= length ? n : length - at;
	return ERR_OK;
}

/* The end of some ranges becomes known only when they have no further example. */
static uint64_t count_left(const struct range_source *s, uint64_t at)
{
	uint64_t id = source_of(s)->open.id, length = range_length(id);

	return id % 2 && at <= length ? SOURCE_LEFT_UNKNOWN : length - at;
}

static uint64_t units_before(const struct range_source *s, uint64_t at)
{
	(void)at;
	return source_of(s)->open.begin;
}

static enum err_code load_examples(struct range_source *s, uint64_t at, uint64_t n, struct batch *b,
    struct err *e)
{
	(void)e;
	b->first = at;
	b->rows = n;
	b->epoch = source_of(s)->open.id;
	return ERR_OK;
}

static void close_range(struct range_source *s)
{
	source_of(s)->is_open = false;
}

static const struct range_source_ops source_ops = {
	.prepare = prepare_range,
	.open = open_range,
	.ready = ready_examples,
	.left = count_left,
	.units_before = units_before,
	.load = load_examples,
	.close = close_range,
};

/* ---- workers ---- */

static enum err_code settle(void *ctx, struct err *e)
{
	(void)ctx;
	(void)e;
	return ERR_OK;
}

static bool is_awaited(void *ctx)
{
	struct world *w = ctx;

	return rng_below(&w->rng, 2);
}

static void begin_worker(struct world *w, uint32_t rank)
{
	struct seat *s = &w->seat[rank];

	s->source = (struct source){ .base = { .ops = &source_ops, .units = UNITS } };
	s->batches = mem_alloc(sizeof *s->batches);
	s->batches->source = &s->source.base;
	s->batches->cluster = (struct cluster_view *)(void *)w;
	s->batches->rank = rank;
	s->batches->hooks = (struct batches_hooks){ .ctx = w,
		.await_receipts = settle,
		.awaited = is_awaited };
	s->batches->leases = &leases_of_assigned_ranges;
	s->batches->leases->begin(s->batches);
	s->over = false;
}

static void end_worker(struct world *w, uint32_t rank)
{
	struct seat *s = &w->seat[rank];

	if (s->batches)
		s->batches->leases->end(s->batches);
	free(s->batches);
	s->batches = NULL;
}

/* The step of one rank, or the part of it before `until`: 1 chosen, 2 leased ahead, 3 all. */
static void take_step(struct world *w, uint32_t rank, uint64_t step, unsigned until)
{
	struct seat *s = &w->seat[rank];
	struct batches *f = s->batches;
	struct batch b = { 0 };
	struct err e = { 0 };
	bool over = false;

	f->step = step;
	if (f->leases->choose(f, &b, &over, &e)) {
		printf("# rank %u at step %llu: %s\n", rank, (unsigned long long)step, e.msg);
		w->broken = true;
	}
	s->over = over;
	if (over || w->broken)
		return;
	w->chosen[rank][step] = b.rows ? (struct chosen){ b.epoch, b.first, b.rows }
	                               : (struct chosen){ 0 };
	if (until > 1)
		w->broken |= f->leases->ahead(f, &e) != ERR_OK;
	if (until > 2)
		f->leases->used(f);
}

/* A worker dies in its step or between two, and another one takes over: at the open step, or at one
 * or two before it, as the servers have heard its CLOCKs. */
static void replace_worker(struct world *w, uint32_t rank)
{
	unsigned part = (unsigned)rng_below(&w->rng, 4);
	uint64_t back = rng_below(&w->rng, 3), from;

	if (part)
		take_step(w, rank, w->step, part);
	/* With its push of this step, it may be that only the CLOCK before is known, too. */
	from = w->step + (part == 3) - back;
	if (from < FIRST || from > w->step)
		from = w->step;
	if (from < w->taken_at)
		from = w->taken_at;
	end_worker(w, rank);
	leases_take_back(w->t, rank, rng_below(&w->rng, STEPS), NULL);
	begin_worker(w, rank);
	for (; from < w->step; from++)
		take_step(w, rank, from, 3);
	w->deaths++;
}

/* ---- the coordinator ---- */

static void log_change(void *ctx, const struct lease_change *c)
{
	struct world *w = ctx;

	w->broken |= w->logged == LOG;
	if (w->logged < LOG)
		w->log[w->logged++] = *c;
}

static struct leases *new_tasks(struct world *w, uint64_t step)
{
	struct leases *t = leases_new(UNITS, w->range, EPOCHS);

	leases_assign(t, RANKS, step, 1);
	return t;
}

static void write_file(struct world *w)
{
	state_leases_free(w->file);
	w->file = leases_save(w->t);
	w->logged = 0;
}

/* The coordinator dies, and begins again with its file and the log. */
static void restart_coordinator(struct world *w)
{
	struct leases *t = new_tasks(w, w->taken_at);
	uint64_t done[2], leased[2], all[2];

	leases_load(t, w->file, true);
	for (unsigned i = 0; i < w->logged; i++)
		w->broken |= !leases_replay(t, &w->log[i]);
	leases_count(w->t, &done[0], &leased[0], &all[0]);
	leases_count(t, &done[1], &leased[1], &all[1]);
	w->broken |= done[0] != done[1] || leased[0] != leased[1];
	leases_free(w->t);
	w->t = t;
	leases_watch(t, log_change, w);
	write_file(w);
}

/* The servers take their snapshots of this step when they are through with the one before. */
static void begin_checkpoint(struct world *w)
{
	leases_begin_record(w->t);
}

static void end_checkpoint(struct world *w, uint64_t step)
{
	struct taken none[RANKS] = { 0 };

	state_leases_free(w->checkpoint);
	w->checkpoint = leases_recorded(w->t, none, RANKS);
	leases_end_record(w->t);
	w->taken_at = step;
}

/* All of it begins again from the checkpoint. */
static void roll_back(struct world *w)
{
	for (uint32_t i = 0; i < RANKS; i++) {
		end_worker(w, i);
		begin_worker(w, i);
	}
	leases_free(w->t);
	w->t = new_tasks(w, w->taken_at);
	leases_load(w->t, w->checkpoint, false);
	leases_watch(w->t, log_change, w);
	write_file(w);
	w->step = w->taken_at;
}

/* ---- runs ---- */

static bool all_over(const struct world *w)
{
	bool over = true;

	for (uint32_t i = 0; i < RANKS; i++)
		over = over && w->seat[i].over;
	return over;
}

/* Ranks take a step in any order. The worker of a rank may have died before. */
static void take_steps(struct world *w, unsigned harm)
{
	uint32_t order[RANKS];

	rng_permutation(&w->rng, order, RANKS);
	for (unsigned i = 0; i < RANKS; i++) {
		uint32_t rank = order[i];

		if (w->seat[rank].over)
			continue;
		w->away = harm && rng_below(&w->rng, 3) == 0;
		if (harm && rng_below(&w->rng, 100) < harm)
			replace_worker(w, rank);
		take_step(w, rank, w->step, 3);
		if (harm && rng_below(&w->rng, 20) == 0)
			restart_coordinator(w);
		if (harm && rng_below(&w->rng, 20) == 0)
			write_file(w);
	}
	w->step++;
}

/* Trains until all is done. harm: percent of the steps of a rank before which its worker dies; 0:
 * nothing happens. */
static void run_world(struct world *w, uint64_t range, unsigned harm, uint64_t seed)
{
	bool recording = false;

	*w =
	    (struct world){ .range = range, .step = FIRST, .taken_at = FIRST, .now = NSEC_PER_SEC };
	the_world = w;
	rng_init(&w->rng, seed);
	w->t = new_tasks(w, FIRST);
	leases_watch(w->t, log_change, w);
	write_file(w);
	for (uint32_t i = 0; i < RANKS; i++)
		begin_worker(w, i);
	while (!all_over(w) && !w->broken && w->step < STEPS - 1) {
		uint64_t draw = harm ? rng_below(&w->rng, 12) : UINT64_MAX;

		w->now += (int64_t)rng_below(&w->rng, 60) * NSEC_PER_MSEC;
		if (recording) {
			end_checkpoint(w, w->step);
			recording = false;
		} else if (draw == 0) {
			begin_checkpoint(w);
			recording = true;
		} else if (draw == 1 && w->checkpoint && w->deaths < 200) {
			roll_back(w);
			w->deaths++;
		}
		take_steps(w, recording ? 0 : harm);
	}
	if (!all_over(w) || !leases_finished(w->t))
		w->broken = true;
}

static void end_world(struct world *w)
{
	for (uint32_t i = 0; i < RANKS; i++)
		end_worker(w, i);
	leases_free(w->t);
	state_leases_free(w->file);
	state_leases_free(w->checkpoint);
}

/* Every example once an epoch, and each range by the rank that it is assigned to. */
static bool is_complete(const struct world *w)
{
	uint64_t per_epoch = (UNITS + w->range - 1) / w->range;
	bool good = true;

	for (uint64_t id = 0; id < per_epoch * EPOCHS; id++) {
		uint64_t at = 0, rank = id % RANKS;

		for (uint64_t s = FIRST; s < STEPS; s++) {
			const struct chosen *c = &w->chosen[rank][s];

			if (c->n && c->id == id) {
				good = good && c->from == at;
				at += c->n;
			}
		}
		good = good && at == range_length(id);
	}
	return good;
}

int main(void)
{
	static struct world quiet, harmed;

	for (uint64_t range = 1; range <= 7; range += 3) {
		unsigned deaths = 0, wrong = 0, runs = 60;

		run_world(&quiet, range, 0, range);
		ok(!quiet.broken && is_complete(&quiet),
		    "ranges of %llu: every example once an epoch, by the rank that has its range, in %llu "
		    "steps",
		    (unsigned long long)range, (unsigned long long)(quiet.step - FIRST));
		for (unsigned i = 0; i < runs; i++) {
			run_world(&harmed, range, 5 + i % 40, 1000 * range + i);
			wrong += harmed.broken ||
			    memcmp(harmed.chosen, quiet.chosen, sizeof quiet.chosen) != 0;
			deaths += harmed.deaths;
			end_world(&harmed);
		}
		ok(!wrong && deaths > 10 * runs,
		    "and every batch at the same step after %u deaths and roll-backs in %u runs: %u runs differ",
		    deaths, runs, wrong);
		end_world(&quiet);
	}
	return tap_done();
}
