/* SPDX-License-Identifier: ISC */
#include "worker/batches.h"

#include "conf/conf_rule.h"
#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "worker/batches_state.h"

#define CALL_TIMEOUT (60 * NSEC_PER_SEC)

/* The members from `step` on: their ranks, the batch size, and the position in the data at that
 * step. */
struct member_entry {
	uint64_t step;
	struct data_position at;
	uint64_t batch;
	uint32_t *rank, n;
};

struct batches *batches_new(const struct job *job, struct cluster_view *cluster, uint32_t rank,
    const struct batches_hooks *hooks)
{
	struct batches *f = mem_alloc(sizeof *f);

	f->job = job;
	f->source = job->source;
	f->cluster = cluster;
	f->rank = rank;
	f->hooks = *hooks;
	f->leases = job->source->leases;
	f->leases->begin(f);
	batches_reconfigure(f);
	return f;
}

static void free_members(struct batches *f)
{
	for (uint32_t i = 0; i < f->nmembers; i++)
		free(f->members[i].rank);
	free(f->members);
}

void batches_free(struct batches *f)
{
	if (!f)
		return;
	f->leases->end(f);
	free_members(f);
	free(f);
}

void batches_take_view(struct batches *f, const struct view *view)
{
	const json_t *s;
	size_t k;

	free_members(f);
	f->leased_from = (uint64_t)view->leased_from;
	f->ending = view->ending;
	f->base = (uint32_t)view->members_base;
	f->nmembers = (uint32_t)view->nmembers;
	f->members = mem_array(f->nmembers, sizeof *f->members);
	for (size_t i = 0; i < view->nmembers; i++) {
		struct member_entry *e = &f->members[i];
		const struct view_members *m = &view->members[i];

		e->step = (uint64_t)m->step;
		e->at = (struct data_position){ (uint64_t)m->epoch, (uint64_t)m->offset };
		e->batch = (uint64_t)m->batch;
		e->n = (uint32_t)json_array_size(m->ranks);
		e->rank = mem_array(e->n, sizeof *e->rank);
		json_array_foreach(m->ranks, k, s)
			e->rank[k] = (uint32_t)json_integer_value(s);
	}
}

void batches_reconfigure(struct batches *f)
{
	f->batch = conf_step_examples(&f->job->conf);
	f->epochs = (uint64_t)f->job->conf.job.epochs;
	f->steps = (uint64_t)f->job->conf.job.steps;
}

bool batches_are_assigned(const struct batches *f, uint64_t step)
{
	return step < f->leased_from;
}

uint32_t batches_members(const struct batches *f)
{
	return f->base + f->nmembers;
}

/* The newest membership that is in force at a step; NULL: the view begins later. */
static const struct member_entry *entry_at_step(const struct batches *f, uint64_t step)
{
	const struct member_entry *found = NULL;

	for (uint32_t i = 0; i < f->nmembers; i++)
		if (f->members[i].step <= step)
			found = &f->members[i];
	return found;
}

uint64_t batches_size_at(const struct batches *f, uint64_t step)
{
	const struct member_entry *m = entry_at_step(f, step);

	return m ? m->batch : 0;
}

/* ---- by step ---- */

/* The place of a rank in the list of members; UINT32_MAX: it is not a member. */
static uint32_t position_of(const struct member_entry *m, uint32_t rank)
{
	for (uint32_t k = 0; k < m->n; k++)
		if (m->rank[k] == rank)
			return k;
	return UINT32_MAX;
}

/* The range of this worker at a step, where m is in force and has it at `position`. False: the job is
 * over. */
static bool assigned_range(const struct batches *f, const struct member_entry *m, uint32_t position,
    uint64_t step, struct data_position *at, struct source_range *out)
{
	struct step_shape shape = { f->source->units, m->batch, m->n };

	*at = step_data_advance(m->at, step - m->step, &shape);
	*out = (struct source_range){ .epoch = at->epoch };
	step_data_range(*at, position, &shape, &out->begin, &out->end);
	return !(f->epochs && at->epoch >= f->epochs) && !(f->steps && step >= f->steps);
}

/* Dealt examples: the range of this position at this step, computed from the members alone. */
static enum err_code choose_assigned(struct batches *f, uint64_t step, struct batch *b, bool *over,
    struct err *e)
{
	const struct member_entry *m = entry_at_step(f, step);
	struct source_range r;
	uint32_t position;

	if (!m)
		return err_set(e, ERR_PROTO,
		    "step %llu is before the first step whose members are in the view",
		    (unsigned long long)step);
	position = position_of(m, f->rank);
	if (position == UINT32_MAX)
		return err_set(e, ERR_FENCED, "rank %u is not a member at step %llu", f->rank,
		    (unsigned long long)step);
	*over = !assigned_range(f, m, position, step, &f->last_pos, &r);
	if (*over)
		return ERR_OK;
	return f->source->ops->deal(f->source, r.epoch, r.begin, r.end, b, e);
}

bool batches_expect(const struct batches *f, uint64_t *step, struct source_range *out)
{
	for (unsigned k = 0; k < 2 && !f->ending && batches_are_assigned(f, *step); k++, ++*step) {
		const struct member_entry *m = entry_at_step(f, *step);
		uint32_t position = m ? position_of(m, f->rank) : UINT32_MAX;
		struct data_position at;

		if (position == UINT32_MAX || !assigned_range(f, m, position, *step, &at, out))
			return false;
		if (out->begin < out->end)
			return true;
	}
	return false;
}

/* ---- by lease ---- */

enum err_code batches_request_lease(struct batches *f, const struct message_lease *m, json_t *done,
    json_t *holds, struct answer_lease *out, json_t **answer, struct err *e)
{
	json_t *msg = MESSAGE(lease, .more = m->more, .step = m->step, .batch = m->batch,
	    .done = done, .holds = holds);
	enum err_code rc = agent_call(cluster_view_agent(f->cluster), msg, CALL_TIMEOUT, answer, e);

	json_decref(done);
	json_decref(holds);
	json_decref(msg);
	if (rc)
		return rc;
	rc = answer_decode_lease(*answer, out, e);
	if (rc) {
		answer_release_lease(out);
		json_decref(*answer);
	}
	return rc;
}

enum err_code batches_next(struct batches *f, uint64_t step, struct batch *b, bool *over,
    struct err *e)
{
	*over = false;
	f->step = step;
	*over = f->ending;
	if (*over)
		return ERR_OK;
	return batches_are_assigned(f, step) ? choose_assigned(f, step, b, over, e)
	                                     : f->leases->choose(f, b, over, e);
}

/* The dealt examples of a later step. */
static enum err_code peek_assigned(struct batches *f, uint64_t step, struct batch *b, bool *known,
    struct err *e)
{
	const struct member_entry *m = entry_at_step(f, step);
	uint32_t position = m ? position_of(m, f->rank) : UINT32_MAX;
	struct data_position at;
	struct source_range r;

	*known = position != UINT32_MAX && assigned_range(f, m, position, step, &at, &r) &&
	    r.begin < r.end;
	return *known ? f->source->ops->deal(f->source, r.epoch, r.begin, r.end, b, e) : ERR_OK;
}

enum err_code batches_peek(struct batches *f, uint64_t k, struct batch *b, bool *known,
    struct err *e)
{
	*known = false;
	if (f->ending || (f->steps && f->step + k >= f->steps))
		return ERR_OK;
	if (batches_are_assigned(f, f->step + k))
		return peek_assigned(f, f->step + k, b, known, e);
	return f->leases->peek ? f->leases->peek(f, k, b, known, e) : ERR_OK;
}

enum err_code batches_lease_ahead(struct batches *f, struct err *e)
{
	return f->leases->ahead(f, e);
}

void batches_used(struct batches *f)
{
	f->leases->used(f);
}

enum err_code batches_skip(struct batches *f, uint64_t step, struct err *e)
{
	f->step = step;
	return f->leases->finish(f, e);
}

enum err_code batches_finish(struct batches *f, struct err *e)
{
	return f->leases->finish(f, e);
}

bool batches_repeats(const struct batches *f)
{
	const struct leased_range *r = f->leases->present(f);

	return r && leased_range_repeats(r);
}

bool batches_is_taken(const struct batches *f, uint16_t table, uint32_t part)
{
	const struct leased_range *r = f->leases->present(f);

	return r && leased_range_is_taken(r, table, part);
}

uint64_t batches_lag(const struct batches *f)
{
	return f->lag;
}

int64_t batches_take_idle_time(struct batches *f)
{
	int64_t ns = f->idled;

	f->idled = 0;
	return ns;
}

/* ---- for display ---- */

double batches_epoch(const struct batches *f)
{
	return (double)f->last_pos.epoch + (double)f->last_pos.offset / (double)f->source->units;
}

void batches_reading(const struct batches *f, struct source_reading *out)
{
	*out = (struct source_reading){ 0 };
	if (f->source->ops->reading)
		f->source->ops->reading(f->source, out);
}

uint64_t batches_total_steps(const struct batches *f)
{
	const struct member_entry *m = f->nmembers ? &f->members[f->nmembers - 1] : NULL;
	uint64_t total = 0;

	if (f->epochs && f->source->examples && m && m->n) {
		struct step_shape shape = { f->source->examples, m->batch, m->n };

		total = m->step + step_data_steps_left(m->at, f->epochs, &shape);
	}
	return f->steps && (!total || f->steps < total) ? f->steps : total;
}

bool batches_is_evaluator(const struct batches *f, uint64_t step)
{
	const struct member_entry *m = entry_at_step(f, step);

	return m && m->n && m->rank[0] == f->rank;
}
