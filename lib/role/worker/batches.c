/* SPDX-License-Identifier: ISC */
#include "worker/batches.h"

#include "conf/conf_rule.h"
#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "layout/deal.h"
#include "layout/taken.h"
#include "msg/answer.h"
#include "worker/range_source.h"

#define CALL_TIMEOUT (60 * NSEC_PER_SEC)
#define DONE_KEPT    8

/* The members from `step` on: their ranks, the batch size, and the position in the data at that
 * step. */
struct member_entry {
	uint64_t step;
	struct deal_pos at;
	uint64_t batch;
	uint32_t *slot, n;
};

/* Where the training on a range is or was: one batch of `batch` examples a step, from example `from` of
 * the range and the step `step` on. taken: what the partitions have of it, when the worker is lost. */
struct attempt {
	uint64_t from, step, batch;
	struct taken taken;
};

/* A leased range of units of the data (range_source.h). */
struct range {
	bool have;
	struct source_range units;
	struct attempt own, *earlier; /* of this worker, and of workers that were lost */
	size_t nearlier;
};

struct feed {
	const struct job *job;
	struct range_source *source; /* of the job */
	struct cluster *cluster;
	uint32_t slot;
	struct batches_hooks hooks;
	/* ns spent waiting for a range since batches_take_idle_time was called last */
	int64_t idled;
	/* from the configuration in force. batch: examples a step; epochs and steps: the job's
	 * end */
	uint64_t batch, epochs, steps;

	/* bsp */
	struct member_entry *members;
	/* membership changes that the view no longer lists */
	uint32_t nmembers, base;
	uint64_t leased_from; /* the first step whose data is leased */
	struct deal_pos last_pos;

	/* leases */
	struct range now, next;
	bool opened;    /* the source has `now` open */
	bool prepared;  /* the source was told about `next` */
	uint64_t used;  /* examples of `now` that were trained on, by anybody */
	uint64_t step;  /* of the current batch */
	uint64_t taken; /* examples of the current batch */
	/* ranges used up and not yet reported */
	uint64_t done[DONE_KEPT];
	unsigned ndone;
};

struct feed *batches_new(const struct job *job, struct cluster *cluster, uint32_t slot,
    const struct batches_hooks *hooks)
{
	struct feed *f = mem_alloc(sizeof *f);

	f->job = job;
	f->source = job->source;
	f->cluster = cluster;
	f->slot = slot;
	f->hooks = *hooks;
	batches_reconfigure(f);
	return f;
}

static void free_range(struct range *r)
{
	for (size_t i = 0; i < r->nearlier; i++)
		taken_release(&r->earlier[i].taken);
	free(r->earlier);
	*r = (struct range){ 0 };
}

static void free_members(struct feed *f)
{
	for (uint32_t i = 0; i < f->nmembers; i++)
		free(f->members[i].slot);
	free(f->members);
}

void batches_free(struct feed *f)
{
	if (!f)
		return;
	if (f->opened)
		f->source->ops->close(f->source);
	free_members(f);
	free_range(&f->now);
	free_range(&f->next);
	free(f);
}

void batches_take_view(struct feed *f, const struct view *view)
{
	const json_t *s;
	size_t k;

	free_members(f);
	f->leased_from = (uint64_t)view->leased_from;
	f->base = (uint32_t)view->members_base;
	f->nmembers = (uint32_t)view->nmembers;
	f->members = mem_array(f->nmembers, sizeof *f->members);
	for (size_t i = 0; i < view->nmembers; i++) {
		struct member_entry *e = &f->members[i];
		const struct view_members *m = &view->members[i];

		e->step = (uint64_t)m->step;
		e->at = (struct deal_pos){ (uint64_t)m->epoch, (uint64_t)m->offset };
		e->batch = (uint64_t)m->batch;
		e->n = (uint32_t)json_array_size(m->slots);
		e->slot = mem_array(e->n, sizeof *e->slot);
		json_array_foreach(m->slots, k, s)
			e->slot[k] = (uint32_t)json_integer_value(s);
	}
}

void batches_reconfigure(struct feed *f)
{
	f->batch = conf_step_examples(&f->job->conf);
	f->epochs = (uint64_t)f->job->conf.job.epochs;
	f->steps = (uint64_t)f->job->conf.job.steps;
}

bool batches_are_dealt(const struct feed *f, uint64_t step)
{
	return step < f->leased_from;
}

uint32_t batches_members(const struct feed *f)
{
	return f->base + f->nmembers;
}

/* The newest membership that holds at a step; NULL: the view begins later. */
static const struct member_entry *entry_at_step(const struct feed *f, uint64_t step)
{
	const struct member_entry *found = NULL;

	for (uint32_t i = 0; i < f->nmembers; i++)
		if (f->members[i].step <= step)
			found = &f->members[i];
	return found;
}

/* ---- by step ---- */

/* Position of a rank among the members; UINT32_MAX: it is none. */
static uint32_t position_of(const struct member_entry *m, uint32_t slot)
{
	for (uint32_t k = 0; k < m->n; k++)
		if (m->slot[k] == slot)
			return k;
	return UINT32_MAX;
}

/* Dealt examples: the range of this rank at this step, computed from the members alone. */
static enum err_code choose_dealt(struct feed *f, uint64_t step, struct batch *b, bool *over,
    struct err *e)
{
	const struct member_entry *m = entry_at_step(f, step);
	struct deal_shape shape = { f->source->units, m ? m->batch : f->batch, m ? m->n : 1 };
	uint64_t begin, end;
	uint32_t rank;

	if (!m)
		return err_set(e, ERR_PROTO,
		    "step %llu lies before the members that the view tells of",
		    (unsigned long long)step);
	rank = position_of(m, f->slot);
	if (rank == UINT32_MAX)
		return err_set(e, ERR_FENCED, "slot %u is no member at step %llu", f->slot,
		    (unsigned long long)step);
	f->last_pos = deal_advance(m->at, step - m->step, &shape);
	*over = (f->epochs && f->last_pos.epoch >= f->epochs) || (f->steps && step >= f->steps);
	if (*over)
		return ERR_OK;
	deal_range(f->last_pos, rank, &shape, &begin, &end);
	return f->source->ops->deal(f->source, f->last_pos.epoch, begin, end, b, e);
}

/* ---- by lease ---- */

static json_t *range_to_json(const struct range *r)
{
	return json_pack("[IIII]", (json_int_t)r->units.id, (json_int_t)r->own.from,
	    (json_int_t)r->own.step, (json_int_t)r->own.batch);
}

/* Takes the attempts of lost workers from an array of [from, step, batch, taken]. */
static enum err_code decode_earlier(const json_t *list, struct range *r, struct err *e)
{
	enum err_code rc = ERR_OK;
	const json_t *item;
	size_t i;

	r->earlier = mem_array(json_array_size(list) + 1, sizeof *r->earlier);
	json_array_foreach(list, i, item) {
		struct attempt *a = &r->earlier[r->nearlier];

		a->from = (uint64_t)json_integer_value(json_array_get(item, 0));
		a->step = (uint64_t)json_integer_value(json_array_get(item, 1));
		a->batch = (uint64_t)json_integer_value(json_array_get(item, 2));
		rc = taken_from_json(json_array_get(item, 3), &a->taken, e);
		if (!rc && !a->batch)
			rc = err_set(e, ERR_PROTO,
			    "the coordinator leased a range without a batch size");
		if (rc)
			return rc;
		r->nearlier++;
	}
	return ERR_OK;
}

/* Takes a granted range, which is to begin at the step. */
static enum err_code decode_range(struct feed *f, const struct answer_task *t, uint64_t step,
    struct range *out, struct err *e)
{
	enum err_code rc;

	*out = (struct range){ .have = true,
		.units = { (uint64_t)t->id, (uint64_t)t->epoch, (uint64_t)t->begin,
		    (uint64_t)t->end },
		.own = { (uint64_t)t->from, step, (uint64_t)t->batch, { 0 } } };
	rc = decode_earlier(t->earlier, out, e);
	if (!rc &&
	    (out->units.end > f->source->units || out->units.begin >= out->units.end ||
	        !out->own.batch))
		rc = err_set(e, ERR_PROTO,
		    "the coordinator leased a range that the data does not have");
	if (rc)
		free_range(out);
	return rc;
}

/* Reports done ranges, names the ranges still held and where they are, and (more) requests another
 * into *out, which will begin at the step `at`. The pushes of what is reported must have receipts
 * before: hooks.settle sees to that. *finished: all data is done. */
static enum err_code request_lease(struct feed *f, bool more, uint64_t at, struct range *out,
    bool *finished, struct err *e)
{
	enum err_code rc = f->ndone ? f->hooks.settle(f->hooks.ctx, e) : ERR_OK;
	json_t *msg, *done = json_array(), *holds = json_array(), *answer;
	struct answer_lease lease;

	for (unsigned i = 0; i < f->ndone; i++)
		json_array_append_new(done, json_integer((json_int_t)f->done[i]));
	if (f->now.have)
		json_array_append_new(holds, range_to_json(&f->now));
	if (f->next.have)
		json_array_append_new(holds, range_to_json(&f->next));
	msg = MESSAGE(lease, .more = more, .step = (int64_t)at, .batch = (int64_t)f->batch,
	    .done = done, .holds = holds);
	json_decref(done);
	json_decref(holds);
	if (!rc)
		rc = agent_call(cluster_view_agent(f->cluster), msg, CALL_TIMEOUT, &answer, e);
	json_decref(msg);
	if (rc)
		return rc;
	f->ndone = 0;
	rc = answer_decode_lease(answer, &lease, e);
	if (!rc && more && lease.task)
		rc = decode_range(f, lease.task, at, out, e);
	*finished = !rc && !lease.task && lease.finished;
	answer_release_lease(&lease);
	json_decref(answer);
	return rc;
}

/* Examples of the open range that are not used yet, as far as the source knows. */
static uint64_t count_left(const struct feed *f)
{
	return f->source->ops->left(f->source, f->used);
}

/* The step at which the range after the present one begins. It is a guess where the source does not know
 * the end of the range; announce_place corrects it. */
static uint64_t next_first_step(const struct feed *f)
{
	uint64_t batch = f->now.own.batch;

	return f->step + (count_left(f) + batch - 1) / batch;
}

/* Leases a range ahead; done ranges travel in the same request. While the coordinator is away and
 * there is room in `done`, training goes on with the ranges at hand. */
static enum err_code ask_ahead(struct feed *f, struct err *e)
{
	bool finished;

	if (f->next.have || (f->ndone < DONE_KEPT && !agent_is_up(cluster_view_agent(f->cluster))))
		return ERR_OK;
	return request_lease(f, true, next_first_step(f), &f->next, &finished, e);
}

/* ---- the batches of lost workers ---- */

/* The end of the examples that a lost worker may have pushed. */
static uint64_t attempt_end(const struct attempt *a)
{
	uint64_t end = taken_end(&a->taken);

	return a->from + (end > a->step ? end - a->step : 0) * a->batch;
}

/* The present range's first example that no lost worker has pushed. */
static uint64_t repeated_until(const struct feed *f)
{
	uint64_t end = 0;

	for (size_t i = 0; i < f->now.nearlier; i++)
		if (attempt_end(&f->now.earlier[i]) > end)
			end = attempt_end(&f->now.earlier[i]);
	return end;
}

/* The size of the batch that begins at the present example, where a lost worker may have pushed it: that of
 * the last attempt that began before, and at most what is left to the next one. */
static uint64_t repeated_batch(const struct feed *f)
{
	uint64_t batch = f->now.own.batch, from = 0, most = UINT64_MAX;

	for (size_t i = 0; i < f->now.nearlier; i++) {
		const struct attempt *a = &f->now.earlier[i];

		if (a->from > f->used) {
			most = a->from - f->used < most ? a->from - f->used : most;
		} else if (a->from >= from) {
			from = a->from;
			batch = a->batch;
		}
	}
	return batch < most ? batch : most;
}

bool batches_repeats(const struct feed *f)
{
	return f->now.have && f->used < repeated_until(f);
}

bool batches_is_taken(const struct feed *f, uint16_t table, uint32_t part)
{
	for (size_t i = 0; f->now.have && i < f->now.nearlier; i++) {
		const struct attempt *a = &f->now.earlier[i];

		if (f->used >= a->from &&
		    taken_has(&a->taken, table, part, a->step + (f->used - a->from) / a->batch))
			return true;
	}
	return false;
}

/* The coordinator must know where this batch is in the steps: when the range does not go on as
 * announced, because its first step was another one, steps were skipped or the batch size has changed,
 * tells it first. A batch that a lost worker may have pushed keeps its size. */
static enum err_code announce_place(struct feed *f, struct err *e)
{
	const struct attempt *own = &f->now.own;
	uint64_t batch = f->used < repeated_until(f) ? repeated_batch(f) : f->batch;
	bool finished;
	enum err_code rc;

	if (batch == own->batch && f->step == own->step + (f->used - own->from) / own->batch)
		return ERR_OK;
	rc = f->hooks.settle(f->hooks.ctx, e);
	if (rc)
		return rc;
	f->now.own = (struct attempt){ .from = f->used, .step = f->step, .batch = batch };
	if (f->next.have)
		f->next.own.step = next_first_step(f);
	return request_lease(f, false, 0, NULL, &finished, e);
}

/* ---- the examples of a range ---- */

/* Tells the source about the range that is leased ahead, once. */
static enum err_code prepare_next(struct feed *f, struct err *e)
{
	if (!f->next.have || f->prepared)
		return ERR_OK;
	f->prepared = true;
	return f->source->ops->prepare(f->source, &f->next.units, e);
}

/* Has the next n examples of the present range ready; *have: so many it has. The time in which training
 * waits for the source counts as idle. */
static enum err_code ready_examples(struct feed *f, uint64_t n, uint64_t *have, struct err *e)
{
	int64_t begin = clock_now();
	enum err_code rc = ERR_OK;

	if (!f->opened) {
		rc = f->source->ops->open(f->source, &f->now.units, e);
		f->opened = !rc;
	}
	if (!rc)
		rc = f->source->ops->ready(f->source, f->used, n, have, e);
	f->idled += clock_now() - begin;
	return rc;
}

/* Makes the next range the current one, if there is one. */
static void advance_range(struct feed *f)
{
	free_range(&f->now);
	f->now = f->next;
	f->next = (struct range){ 0 };
	f->prepared = false;
	f->used = f->now.own.from;
}

/* Makes the next range the current one. When none is free, waits: ranges of other workers come back
 * when those die. *over: all ranges are done. */
static enum err_code take_next_range(struct feed *f, bool *over, struct err *e)
{
	bool finished = false;
	enum err_code rc;
	int64_t begin;

	advance_range(f);
	while (!f->now.have) {
		rc = request_lease(f, true, f->step, &f->now, &finished, e);
		f->used = f->now.own.from;
		if (rc)
			return rc;
		if (f->now.have)
			break;
		*over = finished;
		if (finished)
			return ERR_OK;
		begin = clock_now();
		rc = f->hooks.idle(f->hooks.ctx, e);
		if (!rc)
			rc = cluster_view_pause(f->cluster, 50 * NSEC_PER_MSEC, e);
		f->idled += clock_now() - begin;
		if (rc)
			return rc;
	}
	return ERR_OK;
}

static void finish_range(struct feed *f)
{
	f->source->ops->close(f->source);
	f->opened = false;
	f->done[f->ndone++] = f->now.units.id;
	advance_range(f);
}

/* Sees to it that the present range has an example to train on. A range may have none: blocks inside a
 * long line have no example, and a lost worker may have pushed everything. *over: all data is done. */
static enum err_code ready_range(struct feed *f, bool *over, struct err *e)
{
	uint64_t have = 0;
	enum err_code rc = ERR_OK;

	while (!rc && !have) {
		if (!f->now.have)
			rc = take_next_range(f, over, e);
		if (*over)
			return rc;
		if (!rc)
			rc = ready_examples(f, 1, &have, e);
		if (!rc && !have)
			finish_range(f);
	}
	/* With ranges to report, batches_lease_ahead asks, when their pushes have receipts. */
	if (!rc && (!f->ndone || f->ndone >= DONE_KEPT - 1))
		rc = ask_ahead(f, e);
	return rc ? rc : prepare_next(f, e);
}

/* Leased examples: the next ones of the current range. */
static enum err_code choose_leased(struct feed *f, struct batch *b, bool *over, struct err *e)
{
	enum err_code rc;

	*over = f->steps && f->step >= f->steps;
	if (*over)
		return ERR_OK;
	rc = ready_range(f, over, e);
	if (!rc && !*over)
		rc = announce_place(f, e);
	if (rc || *over)
		return rc;
	rc = ready_examples(f, f->now.own.batch, &f->taken, e);
	if (rc)
		return rc;
	f->last_pos = (struct deal_pos){ f->now.units.epoch,
		f->source->ops->units_before(f->source, f->used) };
	return f->source->ops->load(f->source, f->used, f->taken, b, e);
}

enum err_code batches_next(struct feed *f, uint64_t step, struct batch *b, bool *over,
    struct err *e)
{
	*over = false;
	f->step = step;
	return batches_are_dealt(f, step) ? choose_dealt(f, step, b, over, e)
	                                  : choose_leased(f, b, over, e);
}

enum err_code batches_lease_ahead(struct feed *f, struct err *e)
{
	enum err_code rc = f->ndone && f->now.have ? ask_ahead(f, e) : ERR_OK;

	return rc ? rc : prepare_next(f, e);
}

void batches_used(struct feed *f)
{
	if (!f->now.have)
		return;
	f->used += f->taken;
	f->taken = 0;
	f->step++;
	if (!count_left(f))
		finish_range(f);
}

int64_t batches_take_idle_time(struct feed *f)
{
	int64_t ns = f->idled;

	f->idled = 0;
	return ns;
}

enum err_code batches_finish(struct feed *f, struct err *e)
{
	bool finished;
	enum err_code rc;

	if (!f->ndone && !f->now.have)
		return ERR_OK;
	rc = f->hooks.settle(f->hooks.ctx, e);
	if (rc)
		return rc;
	f->now.own.from = f->used;
	f->now.own.step = f->step;
	return request_lease(f, false, 0, NULL, &finished, e);
}

/* ---- for display ---- */

double batches_epoch(const struct feed *f)
{
	return (double)f->last_pos.epoch + (double)f->last_pos.offset / (double)f->source->units;
}

uint64_t batches_total_steps(const struct feed *f)
{
	const struct member_entry *m = f->nmembers ? &f->members[f->nmembers - 1] : NULL;
	uint64_t total = 0;

	if (f->epochs && f->source->examples && m && m->n) {
		struct deal_shape shape = { f->source->examples, m->batch, m->n };

		total = m->step + deal_steps_left(m->at, f->epochs, &shape);
	}
	return f->steps && (!total || f->steps < total) ? f->steps : total;
}

bool batches_is_evaluator(const struct feed *f, uint64_t step)
{
	const struct member_entry *m = entry_at_step(f, step);

	return m && m->n && m->slot[0] == f->slot;
}
