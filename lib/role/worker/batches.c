/* SPDX-License-Identifier: ISC */
#include "worker/batches.h"

#include "conf/conf_rule.h"
#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/rng.h"
#include "data/data_order.h"
#include "layout/deal.h"
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

/* A leased range of units, examples or blocks (job_units): [begin, end) of their shuffled order in the
 * epoch. */
struct range {
	bool have;
	uint64_t id, epoch, begin, end;
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
	uint64_t used;            /* examples of `now` that were trained on */
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

/* Reports done ranges, names the ranges still held, and (more) requests another into *out. Pushes
 * of done ranges must have receipts before: hooks.settle sees to that. *finished: all data is
 * done. */
static enum err_code request_lease(struct feed *f, bool more, struct range *out, bool *finished,
    struct err *e)
{
	enum err_code rc = f->ndone ? f->hooks.settle(f->hooks.ctx, e) : ERR_OK;
	json_t *msg, *done = json_array(), *holds = json_array(), *answer;
	struct answer_lease lease;

	for (unsigned i = 0; i < f->ndone; i++)
		json_array_append_new(done, json_integer((json_int_t)f->done[i]));
	if (f->now.have)
		json_array_append_new(holds, json_integer((json_int_t)f->now.id));
	if (f->next.have)
		json_array_append_new(holds, json_integer((json_int_t)f->next.id));
	msg = MESSAGE(lease, .more = more, .done = done, .holds = holds);
	json_decref(done);
	json_decref(holds);
	if (!rc)
		rc = agent_call(cluster_view_agent(f->cluster), msg, CALL_TIMEOUT, &answer, e);
	json_decref(msg);
	if (rc)
		return rc;
	f->ndone = 0;
	rc = answer_decode_lease(answer, &lease, e);
	out->have = !rc && lease.task;
	if (out->have)
		*out = (struct range){ true, (uint64_t)lease.task->id, (uint64_t)lease.task->epoch,
			(uint64_t)lease.task->begin, (uint64_t)lease.task->end };
	*finished = !out->have && lease.finished;
	answer_release_lease(&lease);
	json_decref(answer);
	if (out->have && (out->end > f->units || out->begin >= out->end))
		return err_set(e, ERR_PROTO,
		    "the coordinator leased a range that the data does not have");
	return rc;
}

/* Leases a range ahead; done ranges travel in the same request. While the coordinator is away and
 * there is room in `done`, training goes on with the ranges at hand. */
static enum err_code ask_ahead(struct feed *f, struct err *e)
{
	bool finished;

	if (f->next.have || (f->ndone < DONE_KEPT && !agent_is_up(cluster_view_agent(f->cluster))))
		return ERR_OK;
	return request_lease(f, true, &f->next, &finished, e);
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

/* Makes the examples of `now` ready, and begins to read those of `next`. The time in which training
 * waits for the disk counts as idle. */
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
	return f->next.have && !x->reading ? begin_reading(f, &f->next, e) : ERR_OK;
}

/* The examples of the range in use. */
static uint64_t count_examples(const struct feed *f)
{
	if (f->job->blocks)
		return f->blocks.examples ? f->blocks.examples->rows : 0;
	return f->now.end - f->now.begin;
}

/* Makes the next range the current one. When none is free, waits: ranges of other workers come back
 * when those die. *over: all ranges are done. */
static enum err_code take_next_range(struct feed *f, bool *over, struct err *e)
{
	bool finished = false;
	enum err_code rc;
	int64_t begin;

	if (f->next.have) {
		f->now = f->next;
		f->next.have = false;
		f->used = 0;
	}
	while (!f->now.have) {
		rc = request_lease(f, true, &f->now, &finished, e);
		f->used = 0;
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
	return ask_ahead(f, e);
}

/* Leased examples: the next ones of the current range. */
static enum err_code choose_leased(struct feed *f, uint64_t step, struct batch *b, bool *over,
    struct err *e)
{
	uint64_t left;
	enum err_code rc;

	*over = f->steps && step >= f->steps;
	if (*over)
		return ERR_OK;
	do {
		/* Blocks inside a long line have no example. */
		if (f->now.have && f->job->blocks && f->blocks.ready && count_examples(f) == 0)
			batches_used(f);
		rc = f->now.have ? ERR_OK : take_next_range(f, over, e);
		if (!rc && !*over && f->job->blocks)
			rc = ready_blocks(f, e);
		if (rc || *over)
			return rc;
	} while (count_examples(f) == 0);
	left = count_examples(f) - f->used;
	f->taken = left < f->batch ? left : f->batch;
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
	return batches_are_dealt(f, step) ? choose_dealt(f, step, b, over, e)
	                                  : choose_leased(f, step, b, over, e);
}

enum err_code batches_lease_ahead(struct feed *f, struct err *e)
{
	return f->ndone && f->now.have ? ask_ahead(f, e) : ERR_OK;
}

void batches_used(struct feed *f)
{
	if (!f->now.have)
		return;
	f->used += f->taken;
	f->taken = 0;
	if (f->used < count_examples(f))
		return;
	drop_examples(f);
	f->done[f->ndone++] = f->now.id;
	f->now = f->next;
	f->next.have = false;
	f->used = 0;
}

int64_t batches_take_idle_time(struct feed *f)
{
	int64_t ns = f->idled;

	f->idled = 0;
	return ns;
}

enum err_code batches_finish(struct feed *f, struct err *e)
{
	struct range none;
	bool finished;

	return f->ndone ? request_lease(f, false, &none, &finished, e) : ERR_OK;
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
