/* SPDX-License-Identifier: ISC */
#include "shard/apply.h"

#include "shard/copy.h"
#include "shard/reduced.h"
#include "shard/shard_ops.h"
#include "shard/robust.h"
#include "shard/row_life.h"
#include "shard/settings_epoch.h"

/* ---- the update of a step ---- */

void apply_step(struct shard *s, struct part *p, uint64_t examples)
{
	const struct settings_epoch *r = settings_epoch_at(s, p->step);
	uint64_t step = p->step;
	bool torn = false;

	if (p->chain.to != NO_SERVER) {
		mutex_lock(&s->gate.lock);
		torn = sync_may_lack_pushes(&s->gate.sync, step, false);
		mutex_unlock(&s->gate.lock);
	}
	snapshot_before_update(s, p, step);
	settings_epoch_set(s, p, r);
	if (aggregate_compares(&s->cfg.aggregate))
		examples = robust_combine(s, p);
	part_apply_sum(p, examples);
	copy_sum(s, p, step, examples, torn || r->mode.backup || p->table->reduced);
	part_clear_sum(p);
}

/* ---- receipts ---- */

/* Computes what a receipt waits for. In bsp it waits for the step, because closing the step makes
 * the version that contains the push. A late push waits as well: a head that has been succeeded may
 * have closed a step that is open at its successor, which then waits for the push. So does a
 * refused one: a successor that does not know of it would wait for a push that the worker regards
 * as answered. A split sum is not stored anywhere, and a refused push from outside is not known to
 * any other replica, so those receipts wait for nothing. */
static struct shard_due receipt_due(struct shard *s, const struct part *p, const struct push *push,
    enum push_status status)
{
	struct shard_due due = { .tenure = atomic_load(&p->tenure) };
	bool outside = push->slot == SHARD_OUTSIDE;

	if (status == PUSH_SPLIT || (outside && status == PUSH_REFUSED))
		return due;
	if (!outside && settings_epoch_sums_step(s, push->step))
		due.steps = push->step + 1;
	else
		due.version = p->version;
	if (status == PUSH_REFUSED)
		due.seq = p->chain.next_seq;
	return due;
}

/* Fills the receipt and counts it. */
static enum shard_answer finish_push(struct shard *s, const struct part *p, const struct push *push,
    struct receipt *r, enum push_status status)
{
	*r = (struct receipt){ .table = push->table,
		.part = push->part,
		.step = push->step,
		.status = (uint8_t)status,
		.version = p->version,
		.due = receipt_due(s, p, push, status) };
	/* A late push reports the number of steps that it is late. */
	if (status == PUSH_LATE)
		r->staleness = (uint32_t)(p->step - push->step);
	else if (status == PUSH_APPLIED && p->version > push->pulled + 1)
		r->staleness = (uint32_t)(p->version - 1 - push->pulled);
	atomic_fetch_add_explicit(&s->status[status], 1, memory_order_relaxed);
	if (status == PUSH_APPLIED || status == PUSH_MERGED)
		hist_add(&s->staleness, r->staleness);
	return SHARD_OK;
}

/* Answers a push that was taken or refused before with the same result as then. */
static enum shard_answer finish_repeated_push(struct shard *s, const struct part *p,
    const struct push *push, struct receipt *r)
{
	enum shard_answer a = finish_push(s, p, push, r, PUSH_DUPLICATE);

	if (part_was_refused(p, push->slot, push->step)) {
		r->status = PUSH_REFUSED;
		r->due = receipt_due(s, p, push, PUSH_REFUSED);
	}
	return a;
}

/* ---- pushes ---- */

/* Takes a push of a step that is summed: adds it to the sum, and applies the sum if the step is
 * complete. The order of the tests matters: a repeated push is answered as before even when its
 * step is closed, and a late one is answered before it could wait for its turn. */
static enum shard_answer add_push_to_step(struct shard *s, struct part *p, const struct push *push,
    bool finite, struct receipt *r)
{
	uint64_t examples;
	enum shard_answer a;

	if (p->table->reduced &&
	    (push->step < p->step || (push->step == p->step && reduced_is_here(p))))
		return finish_push(s, p, push, r, PUSH_DUPLICATE);
	if (part_has_taken(p, push->slot, push->step))
		return finish_repeated_push(s, p, push, r);
	if (push->step < p->step)
		return finish_push(s, p, push, r, s->ops->late);
	a = s->ops->reach(s, p, push->step, false);
	if (a == SHARD_ELSEWHERE)
		return finish_push(s, p, push, r, PUSH_SPLIT);
	if (a == SHARD_HOLD ||
	    (s->cfg.deterministic && !gate_in_turn(s, p, push->slot, push->step))) {
		p->waited = true;
		return SHARD_HOLD;
	}
	if (finite && push->examples && !part_accumulate(p, &s->cfg, push))
		return SHARD_BAD;
	part_set_last(p, push->slot, push->step + 1);
	if (!finite)
		part_set_refused(p, push->slot, push->step);
	s->ops->taken(p, push->slot, finite ? push->examples : 0, push->incarnation);
	/* Every slot is through with the step: make the update while the partition is in the cache.
	 * Pulls still wait for the clocks. */
	if (gate_step_is_complete(s, p, &examples))
		s->ops->close(s, p, examples);
	return finish_push(s, p, push, r, finite ? PUSH_MERGED : PUSH_REFUSED);
}

/* Applies a push as an update of its own. Pushes from outside the job have no step. Every way out
 * but SHARD_HOLD and SHARD_BAD has a receipt, so the worker never waits for a push that was
 * refused. */
static enum shard_answer apply_push_on_arrival(struct shard *s, struct part *p,
    const struct push *push, bool finite, struct receipt *r)
{
	bool outside = push->slot == SHARD_OUTSIDE;
	const struct settings_epoch *by = outside ? settings_epoch_last(s)
	                                          : settings_epoch_at(s, push->step);

	if (!outside && part_has_taken(p, push->slot, push->step))
		return finish_repeated_push(s, p, push, r);
	/* The open step of an earlier bsp must be closed first. */
	if (!copy_may_send(p) ||
	    (!outside && p->step < by->step && settings_epoch_sums_step(s, p->step))) {
		p->waited = true;
		return SHARD_HOLD;
	}
	snapshot_before_update(s, p, p->step);
	if (finite) {
		if (outside && p->sparse.life)
			row_life_set_step(p, shard_step(s));
		/* The update of an open bsp step must be made by that step's own settings. */
		if (!outside || !settings_epoch_sums_step(s, p->step))
			settings_epoch_set(s, p, by);
		if (!part_apply_push(p, push))
			return SHARD_BAD;
	}
	if (!outside)
		part_set_last(p, push->slot, push->step + 1);
	if (!outside && !finite)
		part_set_refused(p, push->slot, push->step);
	copy_push(s, p, push, !finite);
	return finish_push(s, p, push, r, finite ? PUSH_APPLIED : PUSH_REFUSED);
}

enum shard_answer apply_push(struct shard *s, struct part *p, const struct push *push, bool finite,
    struct receipt *r)
{
	if (!p->here || !p->chain.head || (!s->ops->takes_outside && push->slot == SHARD_OUTSIDE))
		return SHARD_ELSEWHERE;
	/* A reduced table's parameters are computed by the workers, too, which would not see the
	 * push. And an aggregator has nothing to compare a single gradient from outside with. */
	if ((p->table->reduced || (aggregate_compares(&s->cfg.aggregate) && !p->table->added)) &&
	    push->slot == SHARD_OUTSIDE)
		return finish_push(s, p, push, r, PUSH_REFUSED);
	return push->slot != SHARD_OUTSIDE && settings_epoch_sums_step(s, push->step)
	    ? add_push_to_step(s, p, push, finite, r)
	    : apply_push_on_arrival(s, p, push, finite, r);
}
