/* SPDX-License-Identifier: ISC */
#include "worker/batches.h"

#include "conf/conf_rule.h"
#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/rng.h"
#include "data/data_order.h"
#include "layout/deal.h"
#include "layout/taken.h"
#include "msg/answer.h"
#include "worker/block_reader.h"

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

/* A leased range of units, examples or blocks (job_units): [begin, end) of their shuffled order in the
 * epoch. */
struct range {
	bool have;
	uint64_t id, epoch, begin, end;
	struct attempt own, *earlier; /* of this worker, and of workers that were lost */
	size_t nearlier;
};

/* The blocks of the range in use, as one dataset, and those of the next one, which a thread reads. */
struct block_data {
	struct block_reader *reader;
	bool reading; /* the reader was told to read `next` (or `now`, before its first batch) */
	bool ready;   /* `examples` are those of `now` */
	struct dataset *examples; /* NULL: its blocks have no line */
	uint32_t *order;          /* shuffled order of its examples */
};

struct feed {
	const struct job *job;
	struct cluster *cluster;
	uint32_t slot;
	struct batches_hooks hooks;
	/* ns spent waiting for a range since batches_take_idle_time was called last */
	int64_t idled;
	/* from the configuration in force. batch: examples a step; epochs and steps: the job's
	 * end */
	uint64_t seed, batch, epochs, steps;
	uint64_t units;  /* of the data: examples, or blocks */
	uint32_t *order; /* shuffled order of the units in order_epoch */
	uint64_t order_epoch;
	bool ordered;

	/* bsp */
	struct member_entry *members;
	/* membership changes that the view no longer lists */
	uint32_t nmembers, base;
	uint64_t leased_from; /* the first step whose data is leased */
	struct deal_pos last_pos;

	/* leases */
	struct range now, next;
	struct block_data blocks; /* while the job's data are read in blocks */
	uint64_t used;            /* examples of `now` that were trained on, by anybody */
	uint64_t step;            /* of the current batch */
	uint64_t taken;           /* examples of the current batch */
	/* ranges used up and not yet reported */
	uint64_t done[DONE_KEPT];
	unsigned ndone;
};

struct feed *batches_new(const struct job *job, struct cluster *cluster, uint32_t slot,
    const struct batches_hooks *hooks)
{
	struct feed *f = mem_alloc(sizeof *f);

	f->job = job;
	f->cluster = cluster;
	f->slot = slot;
	f->hooks = *hooks;
	f->seed = (uint64_t)job->conf.job.seed;
	f->units = job_units(job).n;
	batches_reconfigure(f);
	if (!job->train->numbered)
		f->order = mem_array(f->units, sizeof *f->order);
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
	free_members(f);
	free_range(&f->now);
	free_range(&f->next);
	block_reader_free(f->blocks.reader);
	dataset_free(f->blocks.examples);
	free(f->blocks.order);
	free(f->order);
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

/* Makes f->order the shuffled order of the units in this epoch. */
static void shuffle_units(struct feed *f, uint64_t epoch)
{
	if (f->ordered && f->order_epoch == epoch)
		return;
	data_order(f->seed, epoch, (uint32_t)f->units, f->order);
	f->order_epoch = epoch;
	f->ordered = true;
}

/* Copies the examples [begin, end) of the epoch's shuffled order into the batch. */
static enum err_code load_examples(struct feed *f, uint64_t epoch, uint64_t begin, uint64_t end,
    struct batch *b, struct err *e)
{
	if (f->job->train->numbered) {
		data_range(epoch, begin, end, b);
		return ERR_OK;
	}
	shuffle_units(f, epoch);
	b->epoch = epoch;
	return data_gather(f->job->train, f->order + begin, end - begin, b, e);
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
	struct deal_shape shape = { f->units, m ? m->batch : f->batch, m ? m->n : 1 };
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
	return load_examples(f, f->last_pos.epoch, begin, end, b, e);
}

/* ---- by lease ---- */

static json_t *range_to_json(const struct range *r)
{
	return json_pack("[IIII]", (json_int_t)r->id, (json_int_t)r->own.from,
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

	*out = (struct range){ true, (uint64_t)t->id, (uint64_t)t->epoch, (uint64_t)t->begin,
		(uint64_t)t->end, { (uint64_t)t->from, step, (uint64_t)t->batch, { 0 } }, NULL, 0 };
	rc = decode_earlier(t->earlier, out, e);
	if (!rc && (out->end > f->units || out->begin >= out->end || !out->own.batch))
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

/* The examples of the range in use. */
static uint64_t count_examples(const struct feed *f)
{
	if (f->job->blocks)
		return f->blocks.examples ? f->blocks.examples->rows : 0;
	return f->now.end - f->now.begin;
}

/* The step at which the range after the present one begins. */
static uint64_t next_first_step(const struct feed *f)
{
	uint64_t left = count_examples(f) - f->used, batch = f->now.own.batch;

	return f->step + (left + batch - 1) / batch;
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

/* ---- blocks ---- */

/* Begins to read the blocks of a range. */
static enum err_code begin_reading(struct feed *f, const struct range *r, struct err *e)
{
	enum err_code rc = ERR_OK;

	if (!f->blocks.reader)
		rc = block_reader_new(f->job->blocks, &f->blocks.reader, e);
	if (rc)
		return rc;
	shuffle_units(f, r->epoch);
	block_reader_begin(f->blocks.reader, f->order + r->begin, (size_t)(r->end - r->begin));
	f->blocks.reading = true;
	return ERR_OK;
}

static void drop_examples(struct feed *f)
{
	dataset_free(f->blocks.examples);
	f->blocks.examples = NULL;
	f->blocks.ready = false;
}

/* Begins to read the blocks of `next`, when it is leased. */
static enum err_code read_ahead(struct feed *f, struct err *e)
{
	return f->next.have && !f->blocks.reading ? begin_reading(f, &f->next, e) : ERR_OK;
}

/* Makes the examples of `now` ready. The time in which training waits for the disk counts as idle. */
static enum err_code ready_blocks(struct feed *f, struct err *e)
{
	struct block_data *x = &f->blocks;
	int64_t begin = clock_now();
	enum err_code rc = ERR_OK;

	if (!x->ready) {
		if (!x->reading)
			rc = begin_reading(f, &f->now, e);
		if (!rc)
			rc = block_reader_take(x->reader, &x->examples, e);
		x->reading = false;
		x->ready = true;
		f->idled += clock_now() - begin;
		if (rc)
			return rc;
		if (x->examples) {
			x->order = mem_regrow(x->order, x->examples->rows, sizeof *x->order);
			data_order(rng_mix(f->seed ^ f->now.id), f->now.epoch,
			    (uint32_t)x->examples->rows, x->order);
		}
	}
	return ERR_OK;
}

/* Makes the next range the current one, if there is one. */
static void advance_range(struct feed *f)
{
	free_range(&f->now);
	f->now = f->next;
	f->next = (struct range){ 0 };
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

/* Are the examples of the present range at hand, and all of them used? It may be empty: blocks inside a
 * long line have no example, and a lost worker may have pushed everything. */
static bool range_is_used_up(const struct feed *f)
{
	return f->now.have && (!f->job->blocks || f->blocks.ready) && f->used >= count_examples(f);
}

static void finish_range(struct feed *f)
{
	drop_examples(f);
	f->done[f->ndone++] = f->now.id;
	advance_range(f);
}

/* Sees to it that the present range has an example to train on. *over: all data is done. */
static enum err_code ready_range(struct feed *f, bool *over, struct err *e)
{
	enum err_code rc = ERR_OK;

	do {
		if (range_is_used_up(f))
			finish_range(f);
		if (!f->now.have)
			rc = take_next_range(f, over, e);
		if (!rc && !*over && f->job->blocks)
			rc = ready_blocks(f, e);
		/* With ranges to report, batches_lease_ahead asks, when their pushes have receipts. */
		if (!rc && !*over && (!f->ndone || f->ndone >= DONE_KEPT - 1) &&
		    !range_is_used_up(f))
			rc = ask_ahead(f, e);
		if (!rc && !*over && f->job->blocks)
			rc = read_ahead(f, e);
	} while (!rc && !*over && range_is_used_up(f));
	return rc;
}

/* Leased examples: the next ones of the current range. */
static enum err_code choose_leased(struct feed *f, struct batch *b, bool *over, struct err *e)
{
	uint64_t left;
	enum err_code rc;

	*over = f->steps && f->step >= f->steps;
	if (*over)
		return ERR_OK;
	rc = ready_range(f, over, e);
	if (!rc && !*over)
		rc = announce_place(f, e);
	if (rc || *over)
		return rc;
	left = count_examples(f) - f->used;
	f->taken = left < f->now.own.batch ? left : f->now.own.batch;
	f->last_pos = (struct deal_pos){ f->now.epoch,
		f->now.begin + (f->job->blocks ? 0 : f->used) };
	if (!f->job->blocks)
		return load_examples(f, f->now.epoch, f->now.begin + f->used,
		    f->now.begin + f->used + f->taken, b, e);
	b->epoch = f->now.epoch;
	return data_gather(f->blocks.examples, f->blocks.order + f->used, f->taken, b, e);
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

	return !rc && f->job->blocks && f->now.have ? read_ahead(f, e) : rc;
}

void batches_used(struct feed *f)
{
	if (!f->now.have)
		return;
	f->used += f->taken;
	f->taken = 0;
	f->step++;
	if (f->used >= count_examples(f))
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
	return (double)f->last_pos.epoch + (double)f->last_pos.offset / (double)f->units;
}

uint64_t batches_total_steps(const struct feed *f)
{
	const struct member_entry *m = f->nmembers ? &f->members[f->nmembers - 1] : NULL;
	uint64_t total = 0;

	if (f->epochs && !f->job->blocks && m && m->n) {
		struct deal_shape shape = { f->units, m->batch, m->n };

		total = m->step + deal_steps_left(m->at, f->epochs, &shape);
	}
	return f->steps && (!total || f->steps < total) ? f->steps : total;
}

bool batches_is_evaluator(const struct feed *f, uint64_t step)
{
	const struct member_entry *m = entry_at_step(f, step);

	return m && m->n && m->slot[0] == f->slot;
}
