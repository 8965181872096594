/* SPDX-License-Identifier: ISC */
#include "shard/apply.h"

#include "codec/codec.h"
#include "core/clock.h"
#include "core/mem.h"
#include "shard/past_values.h"
#include "shard/repl.h"
#include "shard/gate.h"
#include "shard/reduced.h"
#include "shard/robust.h"
#include "shard/row_policy_state.h"
#include "shard/settings_epoch.h"
#include "shard/shard_ops.h"
#include "shard/step_ops.h"

/* The way of a push: shard_push checks it and asks pass_gate. In bsp, take_push_of_step
 * uses it as step_ops.h describes, for most tables by adding it to the sum of its step; when
 * apply_step_is_complete says so, it closes the step by ops->close_step, which is apply_step in a
 * store. In other modes apply_push_on_arrival makes an update of it at once. make_receipt
 * makes the receipt, which is sent when shard_is_safe says so. CLOCKs close steps, too (gate.c); apply.h
 * has the picture. */

/* ---- may the push come in? ---- */

/* May the push come in now? SHARD_WAIT and SHARD_FENCED: no. Pushes from SHARD_OUTSIDE have no step
 * and always may. *closes: its step is closed when all pushes have come. A push that comes in is
 * recorded in the rank's pushed_end, which votes use; a push that waits because its step is not
 * open yet is not. */
static enum shard_answer pass_gate(struct shard *s, const struct part *p, const struct push *push,
    bool *closes)
{
	struct sync *sync = &s->gate.sync;
	enum shard_answer a = SHARD_OK;

	*closes = false;
	if (push->rank == SHARD_OUTSIDE)
		return SHARD_OK;
	mutex_lock(&s->gate.lock);
	if (sync_fences(sync, push->rank, push->incarnation)) {
		a = SHARD_FENCED;
	} else if (!sync_may_push(sync, push->step)) {
		a = SHARD_WAIT;
	} else {
		struct sync_rank *worker = &sync->rank[push->rank];

		*closes = settings_epoch_at(s, push->step)->mode.ops->sums_steps;
		if (worker->pushed_end <= push->step &&
		    (!*closes || s->ops->jumps || push->step <= p->step))
			worker->pushed_end = push->step + 1;
	}
	mutex_unlock(&s->gate.lock);
	return a;
}

/* ---- is the step complete? ---- */

/* Is no further push of this rank expected for the partition's open step? That is so when the rank
 * takes no part in the step, when its push was taken, or when its CLOCK has come and announced no
 * push to this partition. The gate's lock is held. */
static bool rank_is_through(const struct shard *s, const struct part *p, uint32_t rank,
    uint64_t step)
{
	const struct sync_rank *worker = &s->gate.sync.rank[rank];

	mutex_assert_held(&s->gate.lock);
	mutex_assert_held(&p->lock);
	if (!worker->active || step < worker->complete_from || part_has_taken(p, rank, step))
		return true;
	return worker->clock > step && !part_is_expected(p, rank, step);
}

/* With backup ranks: are no more ranks missing than the step may close without? */
static bool enough_are_through(const struct shard *s, const struct part *p)
{
	const struct sync *sync = &s->gate.sync;
	unsigned missing = 0;

	for (uint32_t i = 0; i < sync->nranks; i++)
		missing += !rank_is_through(s, p, i, p->step);
	return missing <= sync_spare_at(sync, p->step);
}

bool apply_step_is_complete(struct shard *s, struct part *p, uint64_t *examples)
{
	const struct sync *sync = &s->gate.sync;
	bool backup = settings_epoch_at(s, p->step)->mode.backup > 0;
	bool complete = p->chain.next == NO_SERVER || repl_may_send(p);

	mutex_assert_held(&p->lock);
	mutex_lock(&s->gate.lock);
	if (backup)
		complete = complete && enough_are_through(s, p);
	/* Begin with the rank that was missing last time. For most pushes it is still missing, so
	 * all pushes of a step together look at each rank only once or twice. */
	for (size_t n = backup ? 0 : sync->nranks; complete && n > 0; n--) {
		if (p->pushes.missing >= sync->nranks)
			p->pushes.missing = 0;
		complete = rank_is_through(s, p, p->pushes.missing, p->step);
		p->pushes.missing += complete;
	}
	*examples = p->sum.examples;
	if (p->table->reduced)
		complete = complete &&
		    (reduced_has_push(p) || !reduced_may_get_push(sync, p->step));
	/* Examples that ranks stated at their CLOCKs without a push to this partition. */
	for (uint32_t i = 0; complete && !p->table->reduced && i < sync->nranks; i++)
		if (!part_has_taken(p, i, p->step))
			*examples += sync_stated_examples(sync, i, p->step);
	mutex_unlock(&s->gate.lock);
	return complete;
}

/* Deterministic runs add pushes in the order of ranks: are all ranks before this one through? */
static bool rank_is_in_turn(struct shard *s, const struct part *p, uint32_t rank, uint64_t step)
{
	const struct sync *sync = &s->gate.sync;
	bool turn = true;

	mutex_lock(&s->gate.lock);
	for (uint32_t i = 0; turn && i < rank && i < sync->nranks; i++)
		turn = rank_is_through(s, p, i, step);
	mutex_unlock(&s->gate.lock);
	return turn;
}

/* ---- the update of a step ---- */

void apply_step(struct shard *s, struct part *p, uint64_t examples)
{
	const struct settings_epoch *epoch = settings_epoch_at(s, p->step);
	struct part_sum_size size = { examples, p->table->reduced ? 1 : examples };
	uint64_t step = p->step;

	mutex_assert_held(&p->lock);
	if (atomic_load(&s->snaps.on))
		snapshot_before_update(s, p, step);
	if (epoch->number > p->settings->number)
		settings_epoch_set(s, p, epoch);
	if (s->compares)
		size = robust_combine(s, p);
	if (!part_apply_sum(p, &size))
		mem_fail();
	if (p->chain.next == NO_SERVER) {
		part_update_safe(p);
	} else {
		bool may_lack;

		mutex_lock(&s->gate.lock);
		may_lack = sync_may_lack_pushes(&s->gate.sync, step, false);
		mutex_unlock(&s->gate.lock);
		repl_queue_sum(s, p, step, &size,
		    may_lack || epoch->mode.backup || p->table->reduced);
	}
	part_clear_sum(p);
}

/* ---- the receipt of a push ---- */

/* The number of updates that were made from the version that the gradient was computed from to this one. */
static uint64_t staleness_at(const struct push *push, uint64_t version)
{
	return version > push->pulled ? version - push->pulled : 0;
}

/* Makes the receipt and counts it. summed: the push belongs to a bsp step. A receipt waits for what its
 * `due` says:
 *
 *   push                          the receipt waits until all replicas have
 *   ----------------------------  --------------------------------------------------------------------
 *   applied on arrival            the version that it made
 *   summed                        its step: closing the step makes the version that contains the push
 *   late                          its step, too: a successor may still have the step open, and waits for
 *                                 the push
 *   refused                       the record of the refusal: a successor without it would wait for a
 *                                 push that the worker regards as answered
 *   refused, from outside         nothing: no other replica knows of it
 *   split                         nothing: it is stored nowhere */
static enum shard_answer make_receipt(struct shard *s, const struct part *p,
    const struct push *push, bool summed, enum push_status status, struct receipt *r)
{
	*r = (struct receipt){ .table = push->table,
		.part = push->part,
		.step = push->step,
		.status = (uint8_t)status,
		.version = p->version,
		.due = { .tenure = atomic_load(&p->tenure) } };
	if (status != PUSH_SPLIT && (status != PUSH_REFUSED || push->rank != SHARD_OUTSIDE)) {
		r->due.steps = summed ? push->step + 1 : 0;
		r->due.version = summed ? 0 : p->version;
		r->due.seq = status == PUSH_REFUSED ? p->chain.next_seq : 0;
	}
	/* A late push reports the number of steps that it is late. */
	if (status == PUSH_LATE)
		r->staleness = (uint32_t)(p->step - push->step);
	else if (status == PUSH_APPLIED && p->version)
		r->staleness = (uint32_t)staleness_at(push, p->version - 1);
	atomic_fetch_add_explicit(&s->status[status], 1, memory_order_relaxed);
	if (status == PUSH_APPLIED || status == PUSH_MERGED)
		hist_add(&s->staleness, r->staleness);
	return SHARD_OK;
}

/* Answers a push that was taken or refused before with the same result as then. */
static enum shard_answer repeat_receipt(struct shard *s, const struct part *p,
    const struct push *push, bool summed, struct receipt *r)
{
	enum shard_answer a = make_receipt(s, p, push, summed, PUSH_DUPLICATE, r);

	if (part_was_refused(p, push->rank, push->step)) {
		r->status = PUSH_REFUSED;
		r->due.seq = p->chain.next_seq;
	}
	return a;
}

/* ---- pushes ---- */

/* Takes a push of a step that is closed when all pushes have come: uses it as the table wants
 * (step_ops.h), and closes the step if it is complete. The order of the tests matters: a duplicate
 * push is answered as before even when its step is closed, and a late one is answered before it
 * could wait for its turn. */
static enum shard_answer take_push_of_step(struct shard *s, struct part *p, const struct push *push,
    bool acceptable, struct receipt *r)
{
	const struct step_ops *ops = settings_epoch_steps(s, p, push->step);
	bool summed = ops->holds_pushes;
	uint64_t examples;
	enum shard_answer a;

	if (p->table->reduced &&
	    (push->step < p->step || (push->step == p->step && reduced_has_push(p))))
		return make_receipt(s, p, push, summed, PUSH_DUPLICATE, r);
	if (part_has_taken(p, push->rank, push->step))
		return repeat_receipt(s, p, push, summed, r);
	if (push->step < p->step && !ops->takes_late)
		return make_receipt(s, p, push, summed, s->ops->late, r);
	a = push->step > p->step ? s->ops->reach_step(s, p, push->step, false) : SHARD_OK;
	if (a == SHARD_ELSEWHERE)
		return make_receipt(s, p, push, summed, PUSH_SPLIT, r);
	if (s->cfg.deterministic && !rank_is_in_turn(s, p, push->rank, push->step))
		a = SHARD_WAIT;
	if (a == SHARD_OK)
		a = ops->use_push(s, p, push, acceptable);
	p->has_waiters |= a == SHARD_WAIT;
	if (a != SHARD_OK)
		return a;
	part_set_last(p, push->rank, push->step + 1);
	if (!acceptable)
		part_set_refused(p, push->rank, push->step);
	if (s->ops->note_push)
		s->ops->note_push(p, push->rank, acceptable ? push->examples : 0,
		    push->incarnation);
	/* All pushes of the step have come: make the update while the partition is in the cache.
	 * Pulls still wait for the clocks. */
	if (apply_step_is_complete(s, p, &examples))
		s->ops->close_step(s, p, examples);
	return make_receipt(s, p, push, summed, acceptable ? ops->used : PUSH_REFUSED, r);
}

/* Applies a push as an update of its own. Pushes from outside the job have no step. Every result
 * except SHARD_WAIT and SHARD_BAD has a receipt, so a worker does not wait for a push that was
 * refused. */
static enum shard_answer apply_push_on_arrival(struct shard *s, struct part *p,
    const struct push *push, bool acceptable, struct receipt *r)
{
	struct push compensated = *push;
	bool outside = push->rank == SHARD_OUTSIDE;
	const struct settings_epoch *epoch = outside ? settings_epoch_last(s)
	                                             : settings_epoch_at(s, push->step);
	uint64_t divisor = 1;

	if (!outside && part_has_taken(p, push->rank, push->step))
		return repeat_receipt(s, p, push, false, r);
	/* The open step of an earlier bsp must be closed first. */
	if (!repl_may_send(p) ||
	    (!outside && p->step < epoch->step && settings_epoch_closes_step(s, p->step))) {
		p->has_waiters = true;
		return SHARD_WAIT;
	}
	if (atomic_load(&s->snaps.on))
		snapshot_before_update(s, p, p->step);
	if (acceptable) {
		if (outside && p->sparse.policy_state)
			row_policy_state_set_step(p, shard_step(s));
		/* The update of an open bsp step must be made by that step's own settings. */
		if (!outside || !settings_epoch_closes_step(s, p->step))
			settings_epoch_set(s, p, epoch);
		/* A push from outside does not say what it was computed from. */
		if (!outside)
			divisor = sync_rate_divisor(&epoch->mode, staleness_at(push, p->version));
		if (!past_values_compensate(s, p, &epoch->mode.stale, &compensated) ||
		    !part_apply_push(p, &compensated, divisor))
			return SHARD_BAD;
	}
	if (!outside)
		part_set_last(p, push->rank, push->step + 1);
	if (!outside && !acceptable)
		part_set_refused(p, push->rank, push->step);
	repl_queue_push(s, p, &compensated, divisor, !acceptable);
	return make_receipt(s, p, push, false, acceptable ? PUSH_APPLIED : PUSH_REFUSED, r);
}

/* Does the partition of the push exist, at any server? */
static bool partition_exists(struct shard *s, const struct push *push)
{
	const struct table *t = shard_table(s, push->table);

	return t && push->part < t->nparts;
}

/* Checks the encoding and the values. Called without the partition's lock: the payload belongs to
 * the caller. A push without examples is valid only for a reduced table and without a payload: no
 * worker had examples, so there is no mean. */
static enum codec_check check_payload(const struct codec *codec, const struct part *p,
    const struct push *push)
{
	if (push->rank != SHARD_OUTSIDE && !push->examples)
		return p->table->reduced && !push->len ? CODEC_GOOD : CODEC_MALFORMED;
	return codec->check(push->payload, push->len,
	    p->table->sparse ? (size_t)push->nrows * p->table->cols : p->n);
}

/* Uses a push that has passed the gate, which set `closes`. The partition's lock is held. */
static enum shard_answer take_push(struct shard *s, struct part *p, const struct push *push,
    bool closes, bool acceptable, struct receipt *r)
{
	bool outside = push->rank == SHARD_OUTSIDE;

	mutex_assert_held(&p->lock);
	if (!p->ready || !p->chain.head || (!s->ops->takes_outside && outside))
		return SHARD_ELSEWHERE;
	/* A reduced table's parameters are computed by the workers, too, which would not see the
	 * push. And an aggregator has nothing to compare a single gradient from outside with. */
	if (outside && (p->table->reduced || (s->compares && !p->table->added)))
		return make_receipt(s, p, push, false, PUSH_REFUSED, r);
	return closes ? take_push_of_step(s, p, push, acceptable, r)
	              : apply_push_on_arrival(s, p, push, acceptable, r);
}

static void count_refused_push(struct shard *s, uint32_t rank)
{
	mutex_lock(&s->gate.lock);
	sync_at(&s->gate.sync, rank)->refused++;
	mutex_unlock(&s->gate.lock);
}

enum shard_answer shard_push(struct shard *s, const struct push *push, struct receipt *r)
{
	struct part *p = shard_part(s, push->table, push->part);
	const struct codec *codec = codec_by_id(push->codec);
	bool outside = push->rank == SHARD_OUTSIDE, closes, acceptable, duplicate, wake, advance;
	enum codec_check check;
	enum shard_answer a;
	int64_t begin = clock_now();
	uint64_t step;

	if (!codec)
		return SHARD_BAD;
	if (!p)
		return partition_exists(s, push) ? SHARD_ELSEWHERE : SHARD_BAD;
	check = check_payload(codec, p, push);
	if (check == CODEC_MALFORMED)
		return SHARD_BAD;
	mutex_lock(&p->lock);
	a = pass_gate(s, p, push, &closes);
	if (a != SHARD_OK) {
		mutex_unlock(&p->lock);
		return a;
	}
	step = p->step;
	duplicate = !outside && part_has_taken(p, push->rank, push->step);
	/* A push that is not acceptable gets the receipt "refused". The memory for a dense partition was
	 * allocated with it, except for gradients that an aggregator keeps. */
	acceptable = check == CODEC_GOOD &&
	    (!(p->table->sparse || s->compares) || budget_has_room(p, s, push));
	a = take_push(s, p, push, closes, acceptable, r);
	if (p->sparse.rows)
		budget_book_rows(p, &s->budget);
	if (a == SHARD_OK)
		p->load.work += push->len + PUSH_WORK;
	/* Nobody has waited for this push when the partition's step goes on waiting for other ranks.
	 * Waking everybody for each push would be quadratic in the number of ranks. */
	wake = a == SHARD_OK && p->has_waiters &&
	    (p->step != step || outside || s->cfg.deterministic || !closes);
	if (wake)
		p->has_waiters = false;
	advance = p->step != step && p->lagging && gate_caught_up(s, p);
	mutex_unlock(&p->lock);
	hist_add(&s->apply_time, (uint64_t)(clock_now() - begin));
	if (a == SHARD_OK && r->status == PUSH_REFUSED && !acceptable && !duplicate && !outside)
		count_refused_push(s, push->rank);
	if (a == SHARD_OK && !duplicate && check == CODEC_BAD_VALUE)
		atomic_fetch_add_explicit(&s->nonfinite, 1, memory_order_relaxed);
	if (advance)
		shard_advance(s);
	else if (wake)
		s->cfg.wake(s->cfg.ctx);
	return a;
}

/* ---- acknowledgements ---- */

bool shard_is_safe(struct shard *s, uint16_t table, uint32_t part, const struct shard_due *due)
{
	struct part *p = shard_part(s, table, part);

	/* The tenure must be read last; see struct part. */
	return p && !atomic_load(&p->gone) && atomic_load(&p->chain.safe_step) >= due->steps &&
	    atomic_load(&p->chain.safe_version) >= due->version &&
	    atomic_load(&p->chain.safe_seq) >= due->seq && atomic_load(&p->tenure) == due->tenure;
}

bool shard_has_left(struct shard *s, uint16_t table, uint32_t part, const struct shard_due *due)
{
	struct part *p = shard_part(s, table, part);

	return !p || atomic_load(&p->tenure) != due->tenure;
}

struct shard_outcome shard_outcome(struct shard *s, uint16_t table, uint32_t part, uint64_t step,
    enum push_status status, const struct shard_due *due)
{
	struct part *p = shard_part(s, table, part);
	struct shard_outcome out = { .status = status, .version = due->version };

	if (!p)
		return out;
	out.replicas = atomic_load(&p->chain.replicas);
	if (due->version && !s->ops->final_status)
		return out;
	mutex_lock(&p->lock);
	if (!due->version)
		out.version = p->version;
	if (s->ops->final_status)
		out.status = s->ops->final_status(p, step, status);
	mutex_unlock(&p->lock);
	return out;
}
