/* SPDX-License-Identifier: ISC */
#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "worker/batches_state.h"

/* Leases of one range after another, each of which has an end (batches.h). */

#define DONE_KEPT 8
/* How often a worker without a range asks for one. */
#define ASK_EVERY (50 * NSEC_PER_MSEC)

struct ranges {
	struct leased_range now, next;
	bool opened;    /* the source has `now` open */
	bool prepared;  /* the source was told about `next` */
	uint64_t taken; /* examples of the current batch */
	int64_t asked;  /* when it asked in vain; 0: it has a range since */
	bool settling;  /* the ranges of the rank's earlier process are leased again soon */
	/* ranges used up and not yet reported */
	struct {
		uint64_t id, examples;
	} done[DONE_KEPT];
	unsigned ndone;
};

static struct ranges *ranges_of(const struct batches *f)
{
	return f->lease_state;
}

/* Checks a granted range. */
static enum err_code check_range(const struct batches *f, const struct leased_range *r,
    struct err *e)
{
	if (r->units.end <= f->source->units && r->units.begin < r->units.end && r->own.batch)
		return ERR_OK;
	return err_set(e, ERR_PROTO,
	    "the coordinator leased a range that does not exist in the data");
}

/* Reports done ranges, names the ranges still held and where they are, and (more) requests another
 * into *out, which will begin at the step `at`. The pushes of what is reported must have receipts
 * before: hooks.await_receipts sees to that. *finished: all data is done. */
static enum err_code request_lease(struct batches *f, bool more, uint64_t at,
    struct leased_range *out, bool *finished, struct err *e)
{
	struct ranges *x = ranges_of(f);
	enum err_code rc = x->ndone ? f->hooks.await_receipts(f->hooks.ctx, e) : ERR_OK;
	json_t *done, *holds, *answer;
	struct answer_lease lease;

	if (rc)
		return rc;
	done = json_array();
	holds = json_array();
	for (unsigned i = 0; i < x->ndone; i++)
		json_array_append_new(done,
		    json_pack("[II]", (json_int_t)x->done[i].id, (json_int_t)x->done[i].examples));
	if (x->now.have)
		json_array_append_new(holds, leased_range_to_json(&x->now));
	if (x->next.have)
		json_array_append_new(holds, leased_range_to_json(&x->next));
	rc = batches_request_lease(f,
	    &(struct message_lease){ .more = more,
	        .step = (int64_t)at,
	        .batch = (int64_t)f->batch },
	    done, holds, &lease, &answer, e);
	if (rc)
		return rc;
	x->ndone = 0;
	if (more && lease.task)
		rc = leased_range_decode(lease.task, at, out, e);
	if (!rc && more && lease.task && check_range(f, out, e)) {
		leased_range_release(out);
		rc = ERR_PROTO;
	}
	*finished = !rc && !lease.task && lease.finished;
	x->settling = !rc && !lease.task && lease.settling;
	answer_release_lease(&lease);
	json_decref(answer);
	return rc;
}

/* Examples of the open range that are not used yet, as far as the source knows. */
static uint64_t count_left_in_range(const struct batches *f)
{
	struct ranges *x = ranges_of(f);
	return f->source->ops->left(f->source, x->now.used);
}

/* The step at which the range after the present one begins, or, while the source does not know the end of the
 * present one, a step that is never reached. announce_place corrects it. */
static uint64_t next_first_step(const struct batches *f)
{
	struct ranges *x = ranges_of(f);
	uint64_t batch = x->now.own.batch;

	return f->step + (count_left_in_range(f) + batch - 1) / batch;
}

/* Leases a range ahead; done ranges travel in the same request. While the coordinator is away and
 * there is room in `done`, training goes on with the ranges at hand. */
static enum err_code ask_ahead(struct batches *f, struct err *e)
{
	struct ranges *x = ranges_of(f);
	bool finished;

	if (x->next.have || (x->ndone < DONE_KEPT && !agent_is_up(cluster_view_agent(f->cluster))))
		return ERR_OK;
	return request_lease(f, true, next_first_step(f), &x->next, &finished, e);
}

/* The coordinator must know where this batch is in the steps: when the range does not go on as
 * announced, because its first step was another one, steps were skipped or the batch size has changed,
 * tells it first. A batch that a lost worker may have pushed keeps its size. */
static enum err_code announce_place(struct batches *f, struct err *e)
{
	struct ranges *x = ranges_of(f);
	const struct attempt *own = &x->now.own;
	uint64_t batch = leased_range_repeats(&x->now) ? leased_range_repeated_batch(&x->now)
	                                               : f->batch;
	bool finished;
	enum err_code rc;

	if (batch == own->batch && f->step == own->step + (x->now.used - own->from) / own->batch)
		return ERR_OK;
	rc = f->hooks.await_receipts(f->hooks.ctx, e);
	if (rc)
		return rc;
	x->now.own = (struct attempt){ .from = x->now.used, .step = f->step, .batch = batch };
	if (x->next.have)
		x->next.own.step = next_first_step(f);
	return request_lease(f, false, 0, NULL, &finished, e);
}

/* ---- the examples of a range ---- */

/* Tells the source about the range that is leased ahead, once. */
static enum err_code prepare_next(struct batches *f, struct err *e)
{
	struct ranges *x = ranges_of(f);
	if (!x->next.have || x->prepared)
		return ERR_OK;
	x->prepared = true;
	return f->source->ops->prepare(f->source, &x->next.units, e);
}

/* Makes up to n further examples of the present range ready, and sets *have to their number. */
static enum err_code ready_range_examples(struct batches *f, uint64_t n, uint64_t *have,
    struct err *e)
{
	struct ranges *x = ranges_of(f);
	enum err_code rc = ERR_OK;

	if (!x->opened) {
		rc = f->source->ops->open(f->source, &x->now.units, e);
		x->opened = !rc;
	}
	if (!rc)
		rc = f->source->ops->ready(f->source, x->now.used, n, have, e);
	return rc;
}

/* Makes the next range the current one, if there is one. */
static void advance_range(struct batches *f)
{
	struct ranges *x = ranges_of(f);
	leased_range_release(&x->now);
	x->now = x->next;
	x->next = (struct leased_range){ 0 };
	x->prepared = false;
	x->now.used = x->now.own.from;
}

/* Asks for a range. *over: all ranges are done. */
static enum err_code ask_for_range(struct batches *f, bool *over, struct err *e)
{
	struct ranges *x = ranges_of(f);
	enum err_code rc = request_lease(f, true, f->step, &x->now, over, e);

	x->now.used = x->now.own.from;
	x->asked = x->now.have ? 0 : clock_now();
	return rc;
}

/* No range is free now; ranges of other workers become free if these workers are lost. */
static enum err_code wait_for_range(struct batches *f, struct err *e)
{
	const struct ranges *x = ranges_of(f);
	int64_t begin = clock_now();
	bool rests = f->hooks.may_rest(f->hooks.ctx);
	enum err_code rc = rests ? f->hooks.idle(f->hooks.ctx, x->settling, e) : ERR_OK;

	if (!rc && (rests || !f->hooks.awaited(f->hooks.ctx)))
		rc = cluster_view_await_change(f->cluster, ASK_EVERY, e);
	f->idled += clock_now() - begin;
	return rc;
}

/* Makes the next range the current one. When none is free, waits, or leaves none: then this is a step
 * without examples. *over: all ranges are done. */
static enum err_code take_next_range(struct batches *f, bool *over, struct err *e)
{
	struct ranges *x = ranges_of(f);
	enum err_code rc = ERR_OK;

	advance_range(f);
	while (!rc && !x->now.have && !*over) {
		if (clock_now() - x->asked >= ASK_EVERY)
			rc = ask_for_range(f, over, e);
		if (!rc && !x->now.have && !*over) {
			rc = wait_for_range(f, e);
			if (!f->hooks.may_rest(f->hooks.ctx))
				break;
		}
	}
	return rc;
}

static void finish_range(struct batches *f)
{
	struct ranges *x = ranges_of(f);
	f->source->ops->close(f->source);
	x->opened = false;
	x->done[x->ndone].id = x->now.units.id;
	x->done[x->ndone++].examples = x->now.used;
	advance_range(f);
}

/* Sees to it that the present range has an example to train on, or that there is no range now. A range may
 * have none: blocks inside a long line have no example, and a lost worker may have pushed everything.
 * *over: all data is done. */
static enum err_code ready_range(struct batches *f, bool *over, struct err *e)
{
	struct ranges *x = ranges_of(f);
	uint64_t have = 0;
	enum err_code rc = ERR_OK;

	while (!rc && !have) {
		if (!x->now.have)
			rc = take_next_range(f, over, e);
		if (rc || *over || !x->now.have)
			return rc;
		rc = ready_range_examples(f, 1, &have, e);
		if (!rc && !have)
			finish_range(f);
	}
	/* With ranges to report, batches_lease_ahead asks, when their pushes have receipts. */
	if (!rc && (!x->ndone || x->ndone >= DONE_KEPT - 1))
		rc = ask_ahead(f, e);
	return rc ? rc : prepare_next(f, e);
}

/* Leased examples: the next ones of the current range. */
static enum err_code choose_batch_of_range(struct batches *f, struct batch *b, bool *over,
    struct err *e)
{
	struct ranges *x = ranges_of(f);
	enum err_code rc;

	*over = f->steps && f->step >= f->steps;
	if (*over)
		return ERR_OK;
	rc = ready_range(f, over, e);
	if (rc || *over)
		return rc;
	if (!x->now.have) {
		b->rows = 0;
		return ERR_OK;
	}
	rc = announce_place(f, e);
	if (rc)
		return rc;
	rc = ready_range_examples(f, x->now.own.batch, &x->taken, e);
	if (rc)
		return rc;
	f->last_pos = (struct data_position){ x->now.units.epoch,
		f->source->ops->units_before(f->source, x->now.used) };
	return f->source->ops->load(f->source, x->now.used, x->taken, b, e);
}

/* Examples of a range that is leased ahead, which lies in memory: its (k + 1)-th batch. */
static enum err_code peek_next_range(struct batches *f, uint64_t k, struct batch *b, bool *known,
    struct err *e)
{
	const struct leased_range *r = &ranges_of(f)->next;
	uint64_t begin = r->units.begin + r->own.from + k * f->batch,
	         end = begin + f->batch < r->units.end ? begin + f->batch : r->units.end;

	*known = r->have && f->source->ops->deal && begin < r->units.end;
	return *known ? f->source->ops->deal(f->source, r->units.epoch, begin, end, b, e) : ERR_OK;
}

static enum err_code peek_batch_of_range(struct batches *f, uint64_t k, struct batch *b,
    bool *known, struct err *e)
{
	struct ranges *x = ranges_of(f);
	uint64_t batch = x->now.own.batch, at = x->now.used + x->taken + (k - 1) * batch, left;

	if (!x->now.have || !x->opened || !batch)
		return ERR_OK;
	left = f->source->ops->left(f->source, x->now.used + x->taken);
	if ((k - 1) * batch < left)
		return leased_range_peek(&x->now, f->source, at, batch, b, known, e);
	return peek_next_range(f, k - 1 - (left + batch - 1) / batch, b, known, e);
}

static enum err_code lease_ahead(struct batches *f, struct err *e)
{
	struct ranges *x = ranges_of(f);
	enum err_code rc = x->ndone && x->now.have ? ask_ahead(f, e) : ERR_OK;

	return rc ? rc : prepare_next(f, e);
}

static void mark_range_used(struct batches *f)
{
	struct ranges *x = ranges_of(f);
	if (!x->now.have)
		return;
	x->now.used += x->taken;
	x->taken = 0;
	f->step++;
	if (!count_left_in_range(f))
		finish_range(f);
}

static enum err_code finish_range_leases(struct batches *f, struct err *e)
{
	struct ranges *x = ranges_of(f);
	bool finished;
	enum err_code rc;

	if (!x->ndone && !x->now.have)
		return ERR_OK;
	rc = f->hooks.await_receipts(f->hooks.ctx, e);
	if (rc)
		return rc;
	x->now.own.from = x->now.used;
	x->now.own.step = f->step;
	/* A step that is never reached; announce_place corrects it. */
	x->next.own.step = f->step + SOURCE_LEFT_UNKNOWN;
	return request_lease(f, false, 0, NULL, &finished, e);
}

static void begin_range_leases(struct batches *f)
{
	f->lease_state = mem_alloc(sizeof(struct ranges));
}

static const struct leased_range *present_range(const struct batches *f)
{
	return &ranges_of(f)->now;
}

static void end_range_leases(struct batches *f)
{
	struct ranges *x = ranges_of(f);

	if (x->opened)
		f->source->ops->close(f->source);
	leased_range_release(&x->now);
	leased_range_release(&x->next);
	free(x);
}

const struct lease_ops leases_of_ranges = {
	.begin = begin_range_leases,
	.choose = choose_batch_of_range,
	.peek = peek_batch_of_range,
	.used = mark_range_used,
	.ahead = lease_ahead,
	.finish = finish_range_leases,
	.present = present_range,
	.end = end_range_leases,
};
