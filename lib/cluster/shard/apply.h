/* SPDX-License-Identifier: ISC */
#ifndef SHARD_APPLY_H
#define SHARD_APPLY_H

#include "shard/part.h"

/* Applies updates to the values at the head of a chain, in every mode. The mode of a push's step
 * says how (sync_ops.sums_steps):
 *
 *   summed (bsp)          apply_push --part_accumulate--> sum of the open step
 *                         --gate_step_is_complete--> apply_step --part_apply_sum--> values
 *   on arrival (ssp, asp) apply_push --part_apply_push--> values
 *
 * apply_step is called when the step's last push or CLOCK comes: by apply_push, by sum.c for the sum of
 * a relay, and by the gate's sweep (gate.c). Each update is then recorded for the next replica
 * (copy_sum, copy_push); replicas that are not the head apply those records in copy_in.c.
 *
 * The partition's lock is held in all functions; they take the gate's lock after it. */

/* Takes a push that the gate has let in and whose encoding is valid. good: it may be used; false: it
 * is refused, for example because it is not finite, but counts as taken. Fills the receipt for
 * SHARD_OK. SHARD_HOLD: push it again when waiting requests are woken. SHARD_ELSEWHERE: this server is
 * not the head. SHARD_BAD: no memory. */
enum shard_answer apply_push(struct shard *s, struct part *p, const struct push *push, bool good,
    struct receipt *r);
/* Applies the sum of the open step, which is complete, divided by `examples`; sends it to the next
 * replica and opens the next step. At a relay it sends the sum to the servers. */
void apply_step(struct shard *s, struct part *p, uint64_t examples);

#endif
