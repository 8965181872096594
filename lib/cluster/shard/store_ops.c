/* SPDX-License-Identifier: ISC */
#include "shard/apply.h"
#include "shard/gate.h"
#include "shard/settings_epoch.h"
#include "shard/shard_ops.h"

/* The shard of a store: it applies pushes, and shows its own values. */

/* Shows values only at the tail of the chain, and only what every replica that counts has.
 * SHARD_WAIT marks the partition as waited for, so the next change of it wakes the caller. */
static enum shard_answer store_may_read(struct shard *s, struct part *p, uint64_t step)
{
	uint64_t closed = step == SYNC_NEVER ? 0 : settings_epoch_closed_before(s, step);

	mutex_assert_held(&p->lock);
	if (!p->ready || !p->chain.tail)
		return SHARD_ELSEWHERE;
	if (atomic_load(&p->chain.safe_step) < closed ||
	    /* A joining replica that is about to count must have everything that is shown. */
	    (p->chain.required && atomic_load(&p->chain.safe_version) < p->version) ||
	    (step != SYNC_NEVER && gate_push_is_pending(s, p, step))) {
		p->has_waiters = true;
		return SHARD_WAIT;
	}
	return SHARD_OK;
}

/* Tests and copies under one hold of the partition's lock, so the rows are of one version. */
static enum shard_answer store_read_rows(struct shard *s, struct part *p, struct row_read *x)
{
	enum shard_answer a = store_may_read(s, p, x->step);

	mutex_assert_held(&p->lock);
	if (a == SHARD_OK)
		part_rows_show(p, part_wants_previous(s, p, x->step), x);
	return a;
}

/* A push waits for its step. A sum that is split is answered at once. */
static enum shard_answer store_reach_step(struct shard *s, struct part *p, uint64_t step,
    bool split)
{
	mutex_assert_held(&p->lock);
	(void)s;
	return !split && step > p->step ? SHARD_WAIT : SHARD_OK;
}

/* A store goes over steps only by closing them, or by gate_pass_empty_steps. */
static void store_skip_steps(struct part *p, uint64_t step)
{
	(void)p;
	(void)step;
}

static void store_ignore_part(struct part *p)
{
	(void)p;
}

static void store_ignore_shard(struct shard *s)
{
	(void)s;
}

const struct shard_ops shard_store_ops = {
	.next = NO_SERVER,
	.takes_outside = true,
	.status_if_closed = PUSH_LATE,
	.may_pull = sync_may_pull,
	.may_prefetch = sync_may_prefetch,
	.alloc_rows = part_rows_alloc,
	.init = part_init,
	.release_values = store_ignore_part,
	.free_part = store_ignore_part,
	.free_shard = store_ignore_shard,
	.reach_step = store_reach_step,
	.close_step = apply_step,
	.skip_steps = store_skip_steps,
	.tell_closed = gate_tell_closed,
	.may_read = store_may_read,
	.read_rows = store_read_rows,
};
