/* SPDX-License-Identifier: ISC */
#include "shard/apply.h"
#include "shard/gate.h"

#include "codec/codec.h"
#include "core/clock.h"
#include "shard/copy.h"
#include "shard/reduced.h"
#include "shard/shard_ops.h"
#include "shard/robust.h"
#include "shard/row_life.h"
#include "shard/settings_epoch.h"

/* ---- may the push come in? ---- */

bool apply_is_ahead(const struct shard *s, const struct part *p, uint64_t step)
{
	return !s->ops->jumps && settings_epoch_sums_step(s, step) && step > p->step;
}

static enum shard_answer pass_gate(struct shard *s, const struct part *part, const struct push *p)
{
	struct sync *sync = &s->gate.sync;
	enum shard_answer a = SHARD_OK;

	if (p->slot == SHARD_OUTSIDE)
		return SHARD_OK;
	mutex_lock(&s->gate.lock);
	if (sync_fences(sync, p->slot, p->incarnation))
		a = SHARD_FENCED;
	else if (!sync_may_push(sync, p->step))
		a = SHARD_HOLD;
	else if (sync->slot[p->slot].last <= p->step && !apply_is_ahead(s, part, p->step))
		sync->slot[p->slot].last = p->step + 1;
	mutex_unlock(&s->gate.lock);
	return a;
}

static void count_refused(struct shard *s, uint32_t slot)
{
	if (slot == SHARD_OUTSIDE)
		return;
	mutex_lock(&s->gate.lock);
	sync_at(&s->gate.sync, slot)->refused++;
	mutex_unlock(&s->gate.lock);
}

/* ---- is the step complete? ---- */

/* Has the slot given the partition all that it will give at this step? It has when it takes no part
 * in the step, when its push was taken, or when its CLOCK came and announced no push to this
 * partition. The gate's lock is held. */
static bool slot_is_through(const struct sync *sync, const struct part *p, uint32_t slot,
    uint64_t step)
{
	const struct sync_slot *x = &sync->slot[slot];

	if (!x->active || step < x->until || part_has_taken(p, slot, step))
		return true;
	return x->clock > step && !part_is_expected(p, slot, step);
}

/* The examples that slots stated at their CLOCKs that did not push to this partition. */
static uint64_t absent_examples(const struct sync *sync, const struct part *p)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < sync->nslots; i++)
		if (!part_has_taken(p, i, p->step))
			sum += sync_stated_examples(sync, i, p->step);
	return sum;
}

/* With backup slots: are no more slots missing than the step may close without? */
static bool enough_are_through(const struct sync *sync, const struct part *p)
{
	unsigned missing = 0, active = 0;

	for (uint32_t i = 0; i < sync->nslots; i++) {
		active += sync->slot[i].active;
		missing += !slot_is_through(sync, p, i, p->step);
	}
	return missing <= sync_spare(&sync->mode, active);
}

/* Looks first at the slot that was missing last time: for most pushes it is missing still, so all
 * pushes of a step together look at each slot once or twice. */
static bool all_are_through(const struct sync *sync, struct part *p)
{
	for (size_t n = sync->nslots; n > 0; n--) {
		if (p->pushes.missing >= sync->nslots)
			p->pushes.missing = 0;
		if (!slot_is_through(sync, p, p->pushes.missing, p->step))
			return false;
		p->pushes.missing++;
	}
	return true;
}

bool apply_step_is_complete(struct shard *s, struct part *p, uint64_t *examples)
{
	const struct sync *sync = &s->gate.sync;
	bool complete = copy_may_send(p);
	unsigned backup = settings_epoch_at(s, p->step)->mode.backup;

	mutex_lock(&s->gate.lock);
	complete = complete && (backup ? enough_are_through(sync, p) : all_are_through(sync, p));
	if (p->table->reduced) {
		complete = complete && (reduced_is_here(p) || !reduced_may_come(sync, p->step));
		*examples = p->sum.examples;
	} else if (complete) {
		*examples = p->sum.examples + absent_examples(sync, p);
	}
	mutex_unlock(&s->gate.lock);
	return complete;
}

static bool slot_is_in_turn(struct shard *s, const struct part *p, uint32_t slot, uint64_t step)
{
	const struct sync *sync = &s->gate.sync;
	bool turn = true;

	mutex_lock(&s->gate.lock);
	for (uint32_t i = 0; turn && i < slot && i < sync->nslots; i++)
		turn = slot_is_through(sync, p, i, step);
	mutex_unlock(&s->gate.lock);
	return turn;
}

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

/* ---- the receipt of a push ---- */

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
	    (s->cfg.deterministic && !slot_is_in_turn(s, p, push->slot, push->step))) {
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
	if (apply_step_is_complete(s, p, &examples))
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

static enum shard_answer apply_push(struct shard *s, struct part *p, const struct push *push,
    bool finite, struct receipt *r)
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

/* Checks the encoding of a push. examples 0 is valid only for a reduced table without a payload: no
 * worker had examples, so there is no mean. */
static enum codec_check check_push(const struct part *p, const struct codec *codec,
    const struct push *push)
{
	if (push->slot != SHARD_OUTSIDE && push->examples == 0)
		return p->table->reduced && !push->len ? CODEC_GOOD : CODEC_MALFORMED;
	return codec->check(push->payload, push->len,
	    p->table->sparse ? (size_t)push->nrows * p->table->cols : p->n);
}

/* May anybody have waited for this push, which was taken when the partition was at this step?
 * Nobody has when the step goes on waiting for other slots. Waking everybody for each push would be
 * quadratic in the number of slots. */
static bool push_matters(const struct shard *s, const struct part *p, const struct push *push,
    uint64_t step)
{
	return p->step != step || push->slot == SHARD_OUTSIDE || s->cfg.deterministic ||
	    !settings_epoch_sums_step(s, push->step);
}

enum shard_answer shard_push(struct shard *s, const struct push *push, struct receipt *r)
{
	struct part *p = shard_part(s, push->table, push->part);
	const struct codec *codec = codec_by_id(push->codec);
	enum codec_check check;
	enum shard_answer a;
	int64_t begin = clock_now();
	bool wake, settle, good, again;
	uint64_t step;

	if (!codec)
		return SHARD_BAD;
	if (!p)
		return shard_table(s, push->table) &&
		        push->part < shard_table(s, push->table)->nparts
		    ? SHARD_ELSEWHERE
		    : SHARD_BAD;
	/* Without the lock: the payload belongs to the caller. */
	check = check_push(p, codec, push);
	if (check == CODEC_MALFORMED)
		return SHARD_BAD;
	mutex_lock(&p->lock);
	a = pass_gate(s, p, push);
	if (a != SHARD_OK) {
		mutex_unlock(&p->lock);
		return a;
	}
	step = p->step;
	again = push->slot != SHARD_OUTSIDE && part_has_taken(p, push->slot, push->step);
	good = check == CODEC_GOOD && budget_has_room(p, s, push);
	a = apply_push(s, p, push, good, r);
	budget_book_rows(p, &s->budget);
	if (a == SHARD_OK)
		p->load.work += push->len + PUSH_WORK;
	wake = a == SHARD_OK && p->waited && push_matters(s, p, push, step);
	if (wake)
		p->waited = false;
	settle = p->step != step && gate_caught_up(s, p);
	mutex_unlock(&p->lock);
	hist_add(&s->apply_time, (uint64_t)(clock_now() - begin));
	if (a == SHARD_OK && r->status == PUSH_REFUSED && !good && !again)
		count_refused(s, push->slot);
	if (a == SHARD_OK && !again && check == CODEC_UNBOUNDED)
		atomic_fetch_add_explicit(&s->nonfinite, 1, memory_order_relaxed);
	if (settle)
		shard_settle(s);
	else if (wake)
		s->cfg.wake(s->cfg.ctx);
	return a;
}

/* ---- acknowledgements ---- */

uint64_t shard_version(struct shard *s, uint16_t table, uint32_t part)
{
	struct part *p = shard_part(s, table, part);
	uint64_t v;

	if (!p)
		return 0;
	mutex_lock(&p->lock);
	v = p->version;
	mutex_unlock(&p->lock);
	return v;
}

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

unsigned shard_copies(struct shard *s, uint16_t table, uint32_t part)
{
	struct part *p = shard_part(s, table, part);

	return p ? atomic_load(&p->chain.copies) : 0;
}

enum push_status shard_final_status(struct shard *s, uint16_t table, uint32_t part, uint64_t step,
    enum push_status status)
{
	struct part *p = s->ops->final_status ? shard_part(s, table, part) : NULL;

	if (!p)
		return status;
	mutex_lock(&p->lock);
	status = s->ops->final_status(p, step, status);
	mutex_unlock(&p->lock);
	return status;
}
