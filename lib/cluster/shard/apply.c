/* SPDX-License-Identifier: ISC */
#include "shard/apply.h"

#include "codec/codec.h"
#include "core/clock.h"
#include "core/mem.h"
#include "shard/past_values.h"
#include "shard/repl.h"
#include "shard/gate.h"
#include "shard/robust.h"
#include "shard/row_policy_state.h"
#include "shard/settings_epoch.h"
#include "shard/shard_ops.h"

/* The way of a push: shard_push checks it and asks pass_gate, which finds what is true for the
 * whole push (struct push_context). In bsp, take_push_of_step uses it as struct step_ops describes,
 * for most tables by adding it to the sum of its step; when push_completes_step says so, it closes
 * the step by ops->close_step, which is apply_step in a store. In other modes apply_push_on_arrival
 * makes an update of it at once. make_receipt makes the receipt, which is sent when shard_is_safe
 * says so. CLOCKs close steps, too (gate.c); apply.h has the picture. */

/* ---- the uses of a push ---- */

/* Facts that hold for a whole push, from the gate to its receipt. They are found once, under the
 * partition's lock, which is held until the receipt is made. */
struct push_context {
	/* The settings epoch of its step; the last one for a push from outside. */
	const struct settings_epoch *epoch;
	const struct step_ops *ops; /* the use of pushes of its step; NULL: no step is closed */
	bool outside;               /* the pusher is SHARD_OUTSIDE: the push has no step */
	bool taken;                 /* the rank's push of this step was taken before */
	/* False: the push is taken, so that nobody waits for it, but changes nothing: its values
	 * are not finite, or there is no room for it. */
	bool acceptable;
	bool in_turn;        /* all ranks before this one are through with its step */
	bool of_open_step;   /* its step was the open one when it passed the gate */
	bool completes;      /* of_open_step: all others are through with the step */
	struct step_end end; /* completes: the end of the step */
};

static enum shard_answer add_push_to_sum(struct shard *s, struct part *p, const struct push *push,
    const struct push_context *c)
{
	mutex_assert_held(&p->lock);
	return c->acceptable && push->examples && !part_accumulate(p, s, push) ? SHARD_BAD
	                                                                       : SHARD_OK;
}

/* Makes an update from the push and a record of it, by the settings of the open step. */
static enum shard_answer apply_push_in_step(struct shard *s, struct part *p,
    const struct push *push, const struct push_context *c)
{
	mutex_assert_held(&p->lock);
	if (!repl_may_send(p))
		return SHARD_WAIT;
	if (c->acceptable) {
		if (atomic_load(&s->snaps.on))
			snapshot_before_update(s, p, p->step);
		settings_epoch_set(s, p,
		    push->step == p->step ? c->epoch : settings_epoch_at(s, p->step));
		if (!part_apply_push(p, push, 1))
			return SHARD_BAD;
	}
	repl_queue_push(s, p, push, 1, !c->acceptable);
	return SHARD_OK;
}

static const struct step_ops step_summed = {
	.holds_pushes = true,
	.used = PUSH_MERGED,
	.use_push = add_push_to_sum,
};
static const struct step_ops step_on_arrival = {
	.takes_late = true,
	.used = PUSH_APPLIED,
	.use_push = apply_push_in_step,
};

/* The use that the partition makes of pushes in this settings epoch. */
static const struct step_ops *choose_step_ops(const struct part *p, const struct settings_epoch *r)
{
	struct table_rules_choice rules = r == p->settings ? p->optim
	                                                   : settings_epoch_rule(r, p->table);

	return sync_sums_steps(&r->mode) && !rules.on_arrival ? &step_summed : &step_on_arrival;
}

const struct step_ops *apply_step_ops(const struct shard *s, const struct part *p, uint64_t step)
{
	mutex_assert_held(&p->lock);
	return choose_step_ops(p, settings_epoch_at(s, step));
}

/* ---- is the step complete? ---- */

/* Was the push of a reduced table's open step taken? */
static bool mean_was_taken(const struct part *p)
{
	mutex_assert_held(&p->lock);
	for (uint32_t i = 0; i < p->pushes.nlast; i++)
		if (p->pushes.last[i] > p->step)
			return true;
	return false;
}

/* May the mean of this step still arrive, because a rank that took part in the step is active? */
static bool mean_may_come(const struct sync *sync, uint64_t step)
{
	for (uint32_t i = 0; i < sync->nranks; i++)
		if (sync->rank[i].active && sync->rank[i].complete_from <= step)
			return true;
	return false;
}

/* Is no further push of this rank expected for the partition's open step? That is so when the rank
 * takes no part in the step, when its push was taken, or when its CLOCK has arrived and announced
 * no push to this partition. The gate's lock is held. */
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

/* Deterministic runs add pushes in the order of ranks: are all ranks before this one through? The
 * gate's lock is held. */
static bool rank_is_in_turn(const struct shard *s, const struct part *p, uint32_t rank,
    uint64_t step)
{
	bool turn = true;

	for (uint32_t i = 0; turn && i < rank && i < s->gate.sync.nranks; i++)
		turn = rank_is_through(s, p, i, step);
	return turn;
}

/* With backup ranks: are no more ranks missing than the step may close without? */
static bool enough_are_through(const struct shard *s, const struct part *p, uint32_t pusher)
{
	const struct sync *sync = &s->gate.sync;
	unsigned missing = 0;

	for (uint32_t i = 0; i < sync->nranks; i++)
		missing += i != pusher && !rank_is_through(s, p, i, p->step);
	return missing <= sync_spare_at(sync, p->step);
}

/* Begins with the rank that was missing last time. For most pushes it is still missing, so all
 * pushes of a step together look at each rank only once or twice. */
static bool all_are_through(const struct shard *s, struct part *p, uint32_t pusher)
{
	size_t nranks = s->gate.sync.nranks;
	bool through = true;

	for (size_t n = nranks; through && n > 0; n--) {
		if (p->pushes.missing >= nranks)
			p->pushes.missing = 0;
		through = p->pushes.missing == pusher ||
		    rank_is_through(s, p, p->pushes.missing, p->step);
		p->pushes.missing += through;
	}
	return through;
}

/* Is the open step, of this settings epoch, complete when the push of rank `pusher` has been taken
 * (SHARD_OUTSIDE: now)? Then *end describes its end. The gate's lock is held. */
static bool find_step_end(const struct shard *s, struct part *p, const struct settings_epoch *epoch,
    uint32_t pusher, struct step_end *end)
{
	const struct sync *sync = &s->gate.sync;

	mutex_assert_held(&s->gate.lock);
	*end = (struct step_end){ .epoch = epoch };
	if (!(epoch->mode.backup ? enough_are_through(s, p, pusher)
	                         : all_are_through(s, p, pusher)))
		return false;
	if (p->table->reduced && pusher == SHARD_OUTSIDE && !mean_was_taken(p) &&
	    mean_may_come(sync, p->step))
		return false;
	for (uint32_t i = 0; !p->table->reduced && i < sync->nranks; i++)
		if (i != pusher && !part_has_taken(p, i, p->step))
			end->stated += sync_stated_examples(sync, i, p->step);
	end->may_lack = epoch->mode.backup || p->table->reduced ||
	    sync_may_lack_pushes(sync, p->step, false);
	return true;
}

bool apply_step_is_complete(struct shard *s, struct part *p, struct step_end *end)
{
	const struct settings_epoch *epoch = settings_epoch_at(s, p->step);
	bool complete;

	mutex_assert_held(&p->lock);
	if (!repl_may_send(p))
		return false;
	mutex_lock(&s->gate.lock);
	complete = find_step_end(s, p, epoch, SHARD_OUTSIDE, end);
	mutex_unlock(&s->gate.lock);
	return complete;
}

/* A push was taken: is the open step complete? What pass_gate found still holds for a push of that
 * step. No member can be added to a step that has begun; and if a CLOCK has arrived or a member was
 * lost since then, a sweep of the gate follows, which waits for the partition's lock. */
static bool push_completes_step(struct shard *s, struct part *p, struct push_context *c)
{
	return c->of_open_step ? c->completes && repl_may_send(p)
	                       : apply_step_is_complete(s, p, &c->end);
}

/* ---- may the push come in? ---- */

/* May the push come in now? SHARD_WAIT and SHARD_FENCED: no. Pushes from SHARD_OUTSIDE have no step
 * and always may. Fills *c except `acceptable`. A push that comes in is recorded in the rank's
 * pushed_end, which votes use; a push that waits because its step is not open yet is not. */
static enum shard_answer pass_gate(struct shard *s, struct part *p, const struct push *push,
    struct push_context *c)
{
	struct sync *sync = &s->gate.sync;
	struct sync_rank *worker;
	enum shard_answer a;

	mutex_assert_held(&p->lock);
	*c = (struct push_context){ .outside = push->rank == SHARD_OUTSIDE };
	if (c->outside) {
		c->epoch = settings_epoch_last(s);
		return SHARD_OK;
	}
	mutex_lock(&s->gate.lock);
	a = sync_fences(sync, push->rank, push->incarnation) ? SHARD_FENCED
	    : sync_may_push(sync, push->step)                ? SHARD_OK
	                                                     : SHARD_WAIT;
	if (a == SHARD_OK) {
		worker = &sync->rank[push->rank];
		c->epoch = settings_epoch_at(s, push->step);
		c->taken = part_has_taken(p, push->rank, push->step);
		if (sync_sums_steps(&c->epoch->mode)) {
			c->ops = choose_step_ops(p, c->epoch);
			c->in_turn = !s->cfg.deterministic ||
			    rank_is_in_turn(s, p, push->rank, push->step);
			c->of_open_step = push->step == p->step;
			c->completes = c->of_open_step &&
			    find_step_end(s, p, c->epoch, push->rank, &c->end);
		}
		if (worker->pushed_end <= push->step &&
		    (!c->ops || s->ops->may_close_early || push->step <= p->step))
			worker->pushed_end = push->step + 1;
	}
	mutex_unlock(&s->gate.lock);
	return a;
}

/* ---- the update of a step ---- */

void apply_step(struct shard *s, struct part *p, const struct step_end *end)
{
	uint64_t step = p->step, examples = p->sum.examples + end->stated;
	struct part_sum_size size = { examples, p->table->reduced ? 1 : examples };

	mutex_assert_held(&p->lock);
	if (atomic_load(&s->snaps.on))
		snapshot_before_update(s, p, step);
	settings_epoch_set(s, p, end->epoch);
	if (s->aggregates_robustly)
		size = robust_combine(s, p);
	if (!part_apply_sum(p, &size))
		mem_fail();
	if (p->chain.next == NO_SERVER)
		part_update_safe(p);
	else
		repl_queue_sum(s, p, step, &size, end->may_lack);
	part_clear_sum(p);
}

/* ---- the receipt of a push ---- */

/* The number of updates that were made from the version that the gradient was computed from to this
 * one. */
static uint64_t staleness_at(const struct push *push, uint64_t version)
{
	return version > push->pulled ? version - push->pulled : 0;
}

/* Makes the receipt and counts it. summed: the push belongs to a bsp step. A receipt waits for what
 * its `due` says:
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

/* Takes a push of a step that is closed when all pushes have arrived: uses it as the table wants
 * (struct step_ops), and closes the step if it is complete. The order of the tests matters: a
 * duplicate push is answered as before even when its step is closed, and a late one is answered
 * before it could wait for its turn. */
static enum shard_answer take_push_of_step(struct shard *s, struct part *p, const struct push *push,
    struct push_context *c, struct receipt *r)
{
	const struct step_ops *ops = c->ops;
	bool summed = ops->holds_pushes;
	enum shard_answer a;

	if (p->table->reduced &&
	    (push->step < p->step || (push->step == p->step && mean_was_taken(p))))
		return make_receipt(s, p, push, summed, PUSH_DUPLICATE, r);
	if (c->taken)
		return repeat_receipt(s, p, push, summed, r);
	if (push->step < p->step && !ops->takes_late)
		return make_receipt(s, p, push, summed, s->ops->status_if_closed, r);
	a = push->step > p->step ? s->ops->reach_step(s, p, push->step, false) : SHARD_OK;
	if (a == SHARD_ELSEWHERE)
		return make_receipt(s, p, push, summed, PUSH_SPLIT, r);
	if (!c->in_turn)
		a = SHARD_WAIT;
	if (a == SHARD_OK)
		a = ops->use_push(s, p, push, c);
	p->has_waiters |= a == SHARD_WAIT;
	if (a != SHARD_OK)
		return a;
	part_set_last(p, push->rank, push->step + 1);
	if (!c->acceptable)
		part_set_refused(p, push->rank, push->step);
	if (s->ops->note_push)
		s->ops->note_push(p, push->rank, c->acceptable ? push->examples : 0,
		    push->incarnation);
	/* All pushes of the step have arrived: make the update while the partition is in the cache.
	 * Pulls still wait for the clocks. */
	if (push_completes_step(s, p, c))
		s->ops->close_step(s, p, &c->end);
	return make_receipt(s, p, push, summed, c->acceptable ? ops->used : PUSH_REFUSED, r);
}

/* Applies a push as an update of its own. Pushes from outside the job have no step. Every result
 * except SHARD_WAIT and SHARD_BAD has a receipt, so a worker does not wait for a push that was
 * refused. */
static enum shard_answer apply_push_on_arrival(struct shard *s, struct part *p,
    const struct push *push, const struct push_context *c, struct receipt *r)
{
	const struct settings_epoch *epoch = c->epoch;
	struct push compensated = *push;
	bool outside = c->outside;
	uint64_t divisor = 1;

	if (c->taken)
		return repeat_receipt(s, p, push, false, r);
	/* The open step of an earlier bsp must be closed first. */
	if (!repl_may_send(p) ||
	    (!outside && p->step < epoch->step && settings_epoch_closes_step(s, p->step))) {
		p->has_waiters = true;
		return SHARD_WAIT;
	}
	if (atomic_load(&s->snaps.on))
		snapshot_before_update(s, p, p->step);
	if (c->acceptable) {
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
	if (!outside && !c->acceptable)
		part_set_refused(p, push->rank, push->step);
	repl_queue_push(s, p, &compensated, divisor, !c->acceptable);
	return make_receipt(s, p, push, false, c->acceptable ? PUSH_APPLIED : PUSH_REFUSED, r);
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

/* Uses a push that has passed the gate. The partition's lock is held. */
static enum shard_answer take_push(struct shard *s, struct part *p, const struct push *push,
    struct push_context *c, struct receipt *r)
{
	mutex_assert_held(&p->lock);
	if (!p->ready || !p->chain.head || (!s->ops->takes_outside && c->outside))
		return SHARD_ELSEWHERE;
	/* A reduced table's parameters are computed by the workers, too, which would not see the
	 * push. And an aggregator has nothing to compare a single gradient from outside with. */
	if (c->outside && (p->table->reduced || (s->aggregates_robustly && !p->table->added)))
		return make_receipt(s, p, push, false, PUSH_REFUSED, r);
	return c->ops ? take_push_of_step(s, p, push, c, r)
	              : apply_push_on_arrival(s, p, push, c, r);
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
	struct push_context c;
	bool wake, advance;
	enum codec_check check;
	enum shard_answer a;
	int64_t begin = clock_now();
	uint64_t step;

	if (!codec)
		return SHARD_BAD;
	if (!p) {
		const struct table *t = shard_table(s, push->table);

		return t && push->part < t->nparts ? SHARD_ELSEWHERE : SHARD_BAD;
	}
	check = check_payload(codec, p, push);
	if (check == CODEC_MALFORMED)
		return SHARD_BAD;
	a = part_lock_rows(s, p, push->ids, push->nrows);
	if (a != SHARD_OK)
		return a;
	a = pass_gate(s, p, push, &c);
	if (a != SHARD_OK) {
		part_unlock_rows(p);
		return a;
	}
	step = p->step;
	/* A push that is not acceptable gets the receipt "refused". The memory for a dense
	 * partition was allocated with it, except for gradients that an aggregator keeps. */
	c.acceptable = check == CODEC_GOOD &&
	    (!(p->table->sparse || s->aggregates_robustly) || budget_has_room(p, s, push));
	a = take_push(s, p, push, &c, r);
	if (p->table->sparse)
		budget_book_rows(p, &s->budget);
	if (a == SHARD_OK)
		p->load.work += push->len + PUSH_WORK;
	/* Nobody has waited for this push when the partition's step still waits for other ranks.
	 * Waking everybody for each push would be quadratic in the number of ranks. */
	wake = a == SHARD_OK && p->has_waiters &&
	    (p->step != step || c.outside || s->cfg.deterministic || !c.ops);
	if (wake)
		p->has_waiters = false;
	advance = p->step != step && p->lagging && gate_caught_up(s, p);
	part_unlock_rows(p);
	hist_add(&s->apply_time, (uint64_t)(clock_now() - begin));
	if (a == SHARD_OK && r->status == PUSH_REFUSED && !c.acceptable && !c.taken && !c.outside)
		count_refused_push(s, push->rank);
	if (a == SHARD_OK && !c.taken && check == CODEC_BAD_VALUE)
		atomic_fetch_add_explicit(&s->nonfinite, 1, memory_order_relaxed);
	if (advance)
		shard_advance(s);
	else if (wake)
		s->cfg.wake(s->cfg.ctx);
	return a;
}

/* ---- acknowledgements ---- */

bool shard_is_safe(struct shard *s, uint16_t table, uint32_t part,
    const struct receipt_condition *due)
{
	struct part *p = shard_part(s, table, part);

	/* The tenure must be read last; see struct part. */
	return p && !atomic_load(&p->gone) && atomic_load(&p->chain.safe_step) >= due->steps &&
	    atomic_load(&p->chain.safe_version) >= due->version &&
	    atomic_load(&p->chain.safe_seq) >= due->seq && atomic_load(&p->tenure) == due->tenure;
}

bool shard_has_left(struct shard *s, uint16_t table, uint32_t part,
    const struct receipt_condition *due)
{
	struct part *p = shard_part(s, table, part);

	return !p || atomic_load(&p->tenure) != due->tenure;
}

struct shard_outcome shard_outcome(struct shard *s, uint16_t table, uint32_t part, uint64_t step,
    enum push_status status, const struct receipt_condition *due)
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
