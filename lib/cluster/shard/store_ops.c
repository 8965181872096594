/* SPDX-License-Identifier: ISC */
#include "shard/apply.h"
#include "shard/gate.h"
#include "shard/settings_epoch.h"
#include "shard/shard_ops.h"

/* The shard of a store: it applies what it takes, and shows its own values. */

/* Shows values only at the tail of the chain, and only what every replica that counts has.
 * SHARD_WAIT marks the partition as waited for, so the next change of it wakes the caller. */
static enum shard_answer store_may_show(struct shard *s, struct part *p, uint64_t step)
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
static enum shard_answer store_show_rows(struct shard *s, struct part *p, uint64_t step,
    const uint8_t *ids, uint32_t n, const uint64_t *since, float *out, uint32_t *place, uint32_t *k,
    uint64_t *version)
{
	enum shard_answer a = store_may_show(s, p, step);

	mutex_assert_held(&p->lock);
	if (a == SHARD_OK)
		*k = part_rows_show(p, part_wants_previous(s, p, step), ids, n, since, out, place,
		    version);
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
	.late = PUSH_LATE,
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
	.may_show = store_may_show,
	.show_rows = store_show_rows,
};
