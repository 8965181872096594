/* SPDX-License-Identifier: ISC */
#ifndef SHARD_APPLY_H
#define SHARD_APPLY_H

#include "shard/part.h"

/* Applies updates to the values at the head of a chain, in every mode. The mode of a push's step
 * says how (sync_ops.sums_steps):
 *
 *   summed (bsp)          apply_push --part_accumulate--> sum of the open step
 *                         --gate_step_is_complete--> ops->close = apply_step --part_apply_sum--> values
 *   on arrival (ssp, asp) apply_push --part_apply_push--> values
 *
 * apply_step is the `close` of a store (shard_ops.h, store_ops.c). When the last push or CLOCK of a step
 * comes, s->ops->close is called by apply_push, by sum.c for the sum of a relay, or by the gate's sweep
 * (gate.c). At a relay it is close_step in role/relay/relay_shard.c. Each update is then recorded
 * for the next replica (copy_sum, copy_push); replicas that are not the head apply those records in
 * copy_in.c.
 *
 * The partition's lock is held in all functions; they take the gate's lock after it. */

/* Takes a push that the gate has let in and whose encoding is valid. good: it may be used; false: it
 * is refused, for example because it is not finite, but counts as taken. Fills the receipt for
 * SHARD_OK. SHARD_HOLD: push it again when waiting requests are woken. SHARD_ELSEWHERE: this server is
 * not the head. SHARD_BAD: no memory. */
enum shard_answer apply_push(struct shard *s, struct part *p, const struct push *push, bool good,
    struct receipt *r);
/* Applies the sum of the open step, which is complete, divided by `examples`; sends it to the next
 * replica and opens the next step. */
void apply_step(struct shard *s, struct part *p, uint64_t examples);

#endif
