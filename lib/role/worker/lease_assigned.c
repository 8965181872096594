/* SPDX-License-Identifier: ISC */
#include "coord/leases.h"
#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "worker/batches_state.h"

/* Leases of assigned ranges (coord/leases.h): this rank's ranges one after another, one batch of them a step,
 * so that the step determines the batch.
 *
 * The worker holds ranges in this order:
 *
 *   used up, not reported yet | present | leased ahead
 *   range[0] ..                 range[present]
 *
 * `own` of a range is its mark: at the step own.step its example own.from is used. A range that is leased
 * ahead has none (own.batch is 0): it begins where the one before it ends. With every request the worker
 * tells its marks. A range that is used up is reported as done when a process that replaces this one
 * can no longer begin before the mark of the range after it. */

/* A process that replaces this one begins fewer steps than this before the step that this one is at. It
 * begins at the step before the least clock that servers have of this rank, and servers that are more
 * than a step back do not answer this worker's pulls. */
#define STEPS_BACK 4
/* How often a worker without a range asks whether all are done. */
#define ASK_EVERY (50 * NSEC_PER_MSEC)

struct assigned {
	struct leased_range range[LEASES_ASSIGNED_MAX];
	unsigned n, present;
	uint64_t at; /* the step of the present range's next batch, or after the last range */
	struct attempt
	    newer;   /* a later mark of the present range, with another batch size; batch 0: none */
	bool opened; /* the source has the present range open */
	bool prepared;  /* the source was told of the range that is leased ahead */
	bool ended;     /* the rank has no ranges beyond these */
	uint64_t taken; /* examples of the current batch */
	int64_t asked;  /* when it asked in vain; 0: never */
};

static struct assigned *assigned_of(const struct batches *f)
{
	return f->lease_state;
}

static bool has_present_range(const struct assigned *x)
{
	return x->present < x->n;
}

/* ---- requests ---- */

/* May the used-up range i be reported as done? */
static bool may_report_range(const struct assigned *x, unsigned i, uint64_t step)
{
	const struct leased_range *r = &x->range[i], *next = i + 1 < x->n ? r + 1 : NULL;
	uint64_t end = next ? next->own.step : x->at;

	if (next ? !next->own.batch : !x->ended)
		return false;
	return end == r->own.step || end + STEPS_BACK <= step;
}

static unsigned count_reportable_ranges(const struct assigned *x, uint64_t step)
{
	unsigned n = 0;

	for (unsigned i = 0; i < x->present; i++)
		n += may_report_range(x, i, step);
	return n;
}

/* Puts the ranges that are done and those that are held into these lists. *reported: by place in x->range. */
static void list_ranges(const struct assigned *x, uint64_t step,
    bool reported[static LEASES_ASSIGNED_MAX], json_t *done, json_t *holds)
{
	for (unsigned i = 0; i < x->n; i++) {
		const struct leased_range *r = &x->range[i];

		reported[i] = i < x->present && may_report_range(x, i, step);
		if (reported[i])
			json_array_append_new(done,
			    json_pack("[II]", (json_int_t)r->units.id, (json_int_t)r->used));
		else
			json_array_append_new(holds, leased_range_to_json(r));
	}
}

static void drop_reported_ranges(struct assigned *x,
    const bool reported[static LEASES_ASSIGNED_MAX])
{
	unsigned n = 0, present = x->present;

	for (unsigned i = 0; i < x->n; i++) {
		if (!reported[i]) {
			x->range[n++] = x->range[i];
			continue;
		}
		leased_range_release(&x->range[i]);
		present--;
	}
	x->n = n;
	x->present = present;
}

/* Appends the range that the coordinator has leased. */
static enum err_code append_range(struct batches *f, const struct answer_task *task, struct err *e)
{
	struct assigned *x = assigned_of(f);
	struct leased_range *r = &x->range[x->n];
	enum err_code rc = leased_range_decode(task, (uint64_t)task->step, r, e);

	if (rc)
		return rc;
	if (r->units.end > f->source->units || r->units.begin >= r->units.end ||
	    (!x->n && !r->own.batch)) {
		leased_range_release(r);
		return err_set(e, ERR_PROTO,
		    "the coordinator leased a range that does not exist in the data or has no "
		    "known step");
	}
	if (!x->n)
		x->at = r->own.step;
	x->n++;
	x->prepared = false;
	return ERR_OK;
}

/* Reports ranges that are done, tells the marks of the others, and (more) leases one more. The pushes of
 * what is reported have receipts before, because a checkpoint that counts a range as done must hold them.
 * *finished: all data of all workers is done. */
static enum err_code request_range(struct batches *f, bool more, bool *finished, struct err *e)
{
	struct assigned *x = assigned_of(f);
	bool reported[LEASES_ASSIGNED_MAX] = { false };
	enum err_code rc = count_reportable_ranges(x, f->step)
	    ? f->hooks.await_receipts(f->hooks.ctx, e)
	    : ERR_OK;
	struct answer_lease lease;
	json_t *done, *holds, *answer;

	if (rc)
		return rc;
	done = json_array();
	holds = json_array();
	list_ranges(x, f->step, reported, done, holds);
	if (more && json_array_size(holds) == LEASES_ASSIGNED_MAX) {
		json_decref(done);
		json_decref(holds);
		return err_set(e, ERR_LIMIT, "this worker holds %u ranges of the data",
		    LEASES_ASSIGNED_MAX);
	}
	rc = batches_request_lease(f,
	    &(struct message_lease){ .more = more, .step = (int64_t)f->step }, done, holds, &lease,
	    &answer, e);
	if (rc)
		return rc;
	drop_reported_ranges(x, reported);
	if (more && lease.task)
		rc = append_range(f, lease.task, e);
	x->ended |= more && !lease.task;
	*finished = !lease.task && lease.finished;
	answer_release_lease(&lease);
	json_decref(answer);
	return rc;
}

/* The rank has used up all its ranges. Asks whether all workers have, now and then. */
static enum err_code ask_without_range(struct batches *f, bool *over, struct err *e)
{
	struct assigned *x = assigned_of(f);
	int64_t begin = clock_now();
	enum err_code rc = ERR_OK;

	if (begin - x->asked >= ASK_EVERY) {
		rc = request_range(f, true, over, e);
		x->asked = has_present_range(x) ? 0 : begin;
	}
	if (rc || *over || has_present_range(x))
		return rc;
	/* Ranges that wait to be reported need further steps. */
	begin = clock_now();
	if (!x->n && !f->hooks.awaited(f->hooks.ctx))
		rc = cluster_view_await_change(f->cluster, ASK_EVERY, e);
	f->idled += clock_now() - begin;
	return rc;
}

/* ---- the place of a step ---- */

/* The size of the present range's next batch. A mark with the size is noted where it changes. */
static enum err_code choose_batch_size(struct batches *f, uint64_t *size, struct err *e)
{
	struct assigned *x = assigned_of(f);
	struct leased_range *r = &x->range[x->present];

	*size = batches_size_at(f, x->at);
	if (!*size)
		return err_set(e, ERR_PROTO,
		    "step %llu is before the first step whose batch size is in the view",
		    (unsigned long long)x->at);
	if (!r->own.batch)
		r->own = (struct attempt){ .from = r->used, .step = x->at, .batch = *size };
	else if (*size != (x->newer.batch ? x->newer.batch : r->own.batch))
		x->newer = (struct attempt){ .from = r->used, .step = x->at, .batch = *size };
	return ERR_OK;
}

/* Has the present range's next batch ready; *have: its examples. */
static enum err_code ready_next_batch(struct batches *f, uint64_t *have, struct err *e)
{
	struct assigned *x = assigned_of(f);
	struct leased_range *r = &x->range[x->present];
	uint64_t size;
	enum err_code rc = choose_batch_size(f, &size, e);

	if (!rc && !x->opened) {
		rc = f->source->ops->open(f->source, &r->units, e);
		x->opened = !rc;
	}
	return rc ? rc : f->source->ops->ready(f->source, r->used, size, have, e);
}

static void finish_present_range(struct batches *f)
{
	struct assigned *x = assigned_of(f);

	f->source->ops->close(f->source);
	x->opened = false;
	x->newer = (struct attempt){ 0 };
	x->present++;
}

/* The present batch is used, or passed over. */
static void pass_batch(struct batches *f, uint64_t examples)
{
	struct assigned *x = assigned_of(f);
	struct leased_range *r = &x->range[x->present];

	r->used += examples;
	x->at++;
	if (!f->source->ops->left(f->source, r->used))
		finish_present_range(f);
}

/* Finds the batch of f->step, and has it ready; *have: its examples, 0 when the rank has no data any more. A
 * process that replaces another one passes over the batches from its predecessor's mark on. */
static enum err_code find_batch(struct batches *f, uint64_t *have, bool *over, struct err *e)
{
	struct assigned *x = assigned_of(f);
	enum err_code rc = ERR_OK;

	*have = 0;
	while (!rc && !*over) {
		if (!has_present_range(x))
			rc = ask_without_range(f, over, e);
		if (rc || *over || !has_present_range(x))
			break;
		if (x->at > f->step)
			return err_set(e, ERR_PROTO,
			    "the coordinator knows the place of worker-%u at step %llu, but not "
			    "at step %llu",
			    f->rank, (unsigned long long)x->at, (unsigned long long)f->step);
		rc = ready_next_batch(f, have, e);
		if (!rc && *have && x->at == f->step)
			break;
		if (!rc && *have)
			pass_batch(f, *have);
		else if (!rc)
			finish_present_range(f);
		*have = 0;
	}
	return rc;
}

/* ---- struct lease_ops ---- */

static void begin_assigned_leases(struct batches *f)
{
	f->lease_state = mem_alloc(sizeof(struct assigned));
}

static enum err_code choose_assigned_batch(struct batches *f, struct batch *b, bool *over,
    struct err *e)
{
	struct assigned *x = assigned_of(f);
	const struct leased_range *r;
	enum err_code rc;

	*over = f->steps && f->step >= f->steps;
	x->taken = b->rows = 0;
	if (*over)
		return ERR_OK;
	rc = find_batch(f, &x->taken, over, e);
	if (rc || !x->taken)
		return rc;
	r = &x->range[x->present];
	f->last_pos = (struct data_position){ r->units.epoch,
		f->source->ops->units_before(f->source, r->used) };
	return f->source->ops->load(f->source, r->used, x->taken, b, e);
}

/* Only of the present range: where the next one begins is known when this one ends. */
static enum err_code peek_assigned_batch(struct batches *f, uint64_t k, struct batch *b,
    bool *known, struct err *e)
{
	struct assigned *x = assigned_of(f);
	const struct leased_range *r = has_present_range(x) ? &x->range[x->present] : NULL;
	uint64_t batch = batches_size_at(f, f->step);

	if (!r || !x->opened || !x->taken || !batch)
		return ERR_OK;
	return leased_range_peek(r, f->source, r->used + x->taken + (k - 1) * batch, batch, b,
	    known, e);
}

static void mark_batch_used(struct batches *f)
{
	struct assigned *x = assigned_of(f);

	if (x->taken)
		pass_batch(f, x->taken);
	x->taken = 0;
}

/* Leases a range ahead, and tells the coordinator what has become known. While it is away, training goes on
 * with the ranges at hand. */
static enum err_code lease_assigned_ahead(struct batches *f, struct err *e)
{
	struct assigned *x = assigned_of(f);
	bool more = has_present_range(x) && x->present + 1 == x->n && !x->ended, tell = more,
	     finished;
	enum err_code rc = ERR_OK;

	if (!agent_is_up(cluster_view_agent(f->cluster)))
		return ERR_OK;
	if (x->newer.batch && x->newer.step + STEPS_BACK <= f->step) {
		x->range[x->present].own = x->newer;
		x->newer = (struct attempt){ 0 };
		tell = true;
	}
	if (tell || count_reportable_ranges(x, f->step))
		rc = request_range(f, more, &finished, e);
	if (rc || x->prepared || x->present + 1 >= x->n)
		return rc;
	x->prepared = true;
	return f->source->ops->prepare(f->source, &x->range[x->present + 1].units, e);
}

/* The job is over, or this worker leaves: its successor finds its place by the marks. */
static enum err_code finish_assigned_leases(struct batches *f, struct err *e)
{
	(void)f;
	(void)e;
	return ERR_OK;
}

static const struct leased_range *present_assigned_range(const struct batches *f)
{
	const struct assigned *x = assigned_of(f);

	return has_present_range(x) ? &x->range[x->present] : NULL;
}

static void end_assigned_leases(struct batches *f)
{
	struct assigned *x = assigned_of(f);

	if (x->opened)
		f->source->ops->close(f->source);
	for (unsigned i = 0; i < x->n; i++)
		leased_range_release(&x->range[i]);
	free(x);
}

const struct lease_ops leases_of_assigned_ranges = {
	.begin = begin_assigned_leases,
	.choose = choose_assigned_batch,
	.peek = peek_assigned_batch,
	.used = mark_batch_used,
	.ahead = lease_assigned_ahead,
	.finish = finish_assigned_leases,
	.present = present_assigned_range,
	.end = end_assigned_leases,
};
