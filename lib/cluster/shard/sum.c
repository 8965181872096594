/* SPDX-License-Identifier: ISC */
#include "codec/codec.h"
#include "shard/apply.h"
#include "shard/repl.h"
#include "shard/settings_epoch.h"
#include "shard/shard_ops.h"

/* Takes sums of a relay's pushes, whole or not at all. A relay or worker that learns that a sum
 * was not taken (split) sends each push by itself, under its own identity. */

/* ---- which relay pushes for a rank ---- */

void shard_set_relay(struct shard *s, uint32_t rank, uint64_t relay, uint64_t incarnation)
{
	struct sync_rank *worker;

	mutex_lock(&s->gate.lock);
	worker = sync_at(&s->gate.sync, rank);
	worker->relay = relay;
	worker->relay_holder = incarnation;
	mutex_unlock(&s->gate.lock);
}

/* May the relay push for this incarnation of the rank? The gate's lock is held. */
static enum shard_answer relay_may_push(const struct shard *s, uint64_t relay, uint32_t rank,
    uint64_t incarnation)
{
	const struct sync *sync = &s->gate.sync;
	const struct sync_rank *worker = rank < sync->nranks ? &sync->rank[rank] : NULL;

	mutex_assert_held(&s->gate.lock);
	if (!worker || !relay || worker->relay != relay || worker->relay_holder != incarnation)
		return SHARD_FENCED;
	/* The rank is fenced by a vote, or the view that admits this incarnation has not
	 * arrived. */
	return worker->incarnation == incarnation ? SHARD_OK : SHARD_WAIT;
}

enum shard_answer shard_relay_may_push(struct shard *s, uint64_t relay, uint32_t rank,
    uint64_t incarnation)
{
	enum shard_answer a;

	mutex_lock(&s->gate.lock);
	a = relay_may_push(s, relay, rank, incarnation);
	mutex_unlock(&s->gate.lock);
	return a;
}

/* The gate's side of a sum, like pass_gate in apply.c. SHARD_FENCED when one of the ranks is not
 * the relay's. */
static enum shard_answer pass_gate_with_sum(struct shard *s, const struct part *p,
    const struct sum *sum)
{
	struct sync *sync = &s->gate.sync;
	enum shard_answer a = SHARD_OK;

	mutex_lock(&s->gate.lock);
	for (uint32_t i = 0; i < sum->body.n && a != SHARD_FENCED; i++) {
		struct sum_contributor w = sum_contributor(&sum->body, i);
		enum shard_answer one = relay_may_push(s, sum->relay, w.rank, w.incarnation);

		a = one == SHARD_OK ? a : one;
	}
	if (a == SHARD_OK && !sync_may_push(sync, sum->step))
		a = SHARD_WAIT;
	/* A sum that waits for its step does not count yet (pass_gate in apply.c). */
	for (uint32_t i = 0;
	     a == SHARD_OK && (s->ops->may_close_early || sum->step <= p->step) && i < sum->body.n;
	     i++) {
		struct sync_rank *worker = &sync->rank[sum_contributor(&sum->body, i).rank];

		if (worker->pushed_end <= sum->step)
			worker->pushed_end = sum->step + 1;
	}
	mutex_unlock(&s->gate.lock);
	return a;
}

/* ---- the partition's side ---- */

/* Fills the receipt and counts it. version: 0 when the partition's lock is not held, which nothing
 * else here needs. */
static enum shard_answer make_sum_receipt(struct shard *s, const struct part *p, uint64_t version,
    const struct sum *sum, struct receipt *r, enum push_status status)
{
	*r = (struct receipt){ .table = sum->table,
		.part = sum->part,
		.step = sum->step,
		.status = (uint8_t)status,
		.version = version,
		.due = { atomic_load(&p->tenure), status == PUSH_SPLIT ? 0 : sum->step + 1, 0,
		    0 } };
	atomic_fetch_add_explicit(&s->status[status], 1, memory_order_relaxed);
	return SHARD_OK;
}

/* Adds the sum to the open step's sum. It is added like one push with 1 example, because it is
 * already multiplied by the examples. */
static bool accumulate_sum(struct part *p, const struct shard *s, const struct sum *sum)
{
	struct push push = { .table = sum->table,
		.part = sum->part,
		.examples = 1,
		.nrows = sum->body.nrows,
		.ids = sum->body.ids,
		.touching = sum->body.touching,
		.payload = sum->body.values,
		.len = sum->body.len };
	uint64_t missing = sum_body_examples(&sum->body);

	if (sum->body.len && !part_accumulate(p, s, &push))
		return false;
	/* part_accumulate has added that one example. */
	missing -= sum->body.len ? 1 : 0;
	p->sum.examples += missing;
	if (sum->body.nrows && !sum->body.touching)
		p->sum.uncounted += missing;
	return true;
}

/* Takes the sum at the head, or at another relay; the partition's lock is held. good: its values
 * are finite and its rows have room. */
static enum shard_answer add_sum_to_head(struct shard *s, struct part *p, const struct sum *sum,
    bool good, struct receipt *r)
{
	uint32_t taken = 0;
	enum shard_answer a;
	struct step_end end;
	bool split;

	mutex_assert_held(&p->lock);
	if (!p->ready || !p->chain.head)
		return SHARD_ELSEWHERE;
	for (uint32_t i = 0; i < sum->body.n; i++)
		taken += part_has_taken(p, sum_contributor(&sum->body, i).rank, sum->step);
	if (taken == sum->body.n)
		return make_sum_receipt(s, p, p->version, sum, r, PUSH_DUPLICATE);
	split = taken || !good || sum->step < p->step ||
	    !apply_step_ops(s, p, sum->step)->holds_pushes;
	a = sum->step + split > p->step ? s->ops->reach_step(s, p, sum->step, split) : SHARD_OK;
	if (a == SHARD_WAIT) {
		p->has_waiters = true;
		return SHARD_WAIT;
	}
	if (split || a == SHARD_ELSEWHERE)
		return make_sum_receipt(s, p, p->version, sum, r, PUSH_SPLIT);
	if (!accumulate_sum(p, s, sum))
		return SHARD_BAD;
	for (uint32_t i = 0; i < sum->body.n; i++) {
		struct sum_contributor w = sum_contributor(&sum->body, i);

		part_set_last(p, w.rank, sum->step + 1);
		/* examples 0: the relay refused this push. */
		if (!w.examples)
			part_set_refused(p, w.rank, sum->step);
		if (s->ops->note_push)
			s->ops->note_push(p, w.rank, w.examples, w.incarnation);
	}
	if (apply_step_is_complete(s, p, &end))
		s->ops->close_step(s, p, &end);
	return make_sum_receipt(s, p, p->version, sum, r, PUSH_MERGED);
}

/* Checks the values. There are none when all pushes were refused or had no rows. */
static enum codec_check check_sum_values(const struct part *p, const struct sum *sum)
{
	size_t n = p->table->sparse ? (size_t)sum->body.nrows * p->table->cols : p->n;

	return sum->body.len ? codec_by_id(0)->check(sum->body.values, sum->body.len, n)
	                     : CODEC_GOOD;
}

enum shard_answer shard_push_sum(struct shard *s, const struct sum *sum, struct receipt *r)
{
	struct part *p = shard_part(s, sum->table, sum->part);
	const struct push rows = { .rank = SHARD_OUTSIDE,
		.nrows = sum->body.nrows,
		.ids = sum->body.ids };
	struct sync_mode mode;
	enum codec_check values;
	enum shard_answer a;
	bool wake, advance;
	uint64_t step;

	if (!p)
		return shard_table(s, sum->table) && sum->part < shard_table(s, sum->table)->nparts
		    ? SHARD_ELSEWHERE
		    : SHARD_BAD;
	values = check_sum_values(p, sum);
	if (values == CODEC_MALFORMED || s->cfg.deterministic)
		return SHARD_BAD;
	a = part_lock_rows(s, p, sum->body.ids, sum->body.nrows);
	if (a != SHARD_OK)
		return a;
	mode = settings_epoch_at(s, sum->step)->mode;
	if (!sync_sums_steps(&mode) || mode.backup) {
		part_unlock_rows(p);
		return SHARD_BAD;
	}
	a = pass_gate_with_sum(s, p, sum);
	if (a != SHARD_OK) {
		part_unlock_rows(p);
		return a == SHARD_FENCED ? make_sum_receipt(s, p, 0, sum, r, PUSH_SPLIT) : a;
	}
	step = p->step;
	a = add_sum_to_head(s, p, sum, values == CODEC_GOOD && budget_has_room(p, s, &rows), r);
	budget_book_rows(p, &s->budget);
	if (a == SHARD_OK)
		p->load.work += sum->body.len + PUSH_WORK;
	wake = a == SHARD_OK && p->has_waiters;
	if (wake)
		p->has_waiters = false;
	advance = p->step != step && gate_caught_up(s, p);
	part_unlock_rows(p);
	if (advance)
		shard_advance(s);
	else if (wake)
		s->cfg.wake(s->cfg.ctx);
	return a;
}
