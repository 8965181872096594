/* SPDX-License-Identifier: ISC */
#ifndef SHARD_APPLY_H
#define SHARD_APPLY_H

#include "shard/part.h"

/* Takes pushes at the head of a chain, in every mode: shard_push (shard.h) checks a push, lets it
 * pass the gate, applies it and makes its receipt; shard_is_safe and the functions beside it say
 * when the receipt may be sent. The mode of a push's step says whether steps are closed
 * (sync_ops.sums_steps), and in such a mode the table says how its pushes are used (step_ops.h):
 *
 *   bsp, step_summed      shard_push --part_accumulate--> sum of the open step
 *                         --apply_step_is_complete--> ops->close_step = apply_step --part_apply_sum--> values
 *   bsp, step_on_arrival  shard_push --part_apply_push--> values
 *                         --apply_step_is_complete--> ops->close_step = apply_step, which has no sum
 *   ssp, asp              shard_push --part_apply_push--> values
 *
 * apply_step is the `close_step` of a store (shard_ops.h, store_ops.c). When the last push or CLOCK
 * of a step comes, s->ops->close_step is called by shard_push, by sum.c for the sum of a relay, or
 * by the gate's sweep (gate.c). At a relay it is close_step in role/relay/relay_shard.c. Each
 * update is then recorded for the next replica (repl_queue_sum, repl_queue_push); replicas that are
 * not the head apply those records in repl_in.c.
 *
 * Call the two functions below with the partition's lock held; they take the gate's lock.
 * shard_push takes both locks itself; shard_is_safe takes none. */

/* Have all pushes of the partition's open step come, and is there room for the record to the next
 * replica? Then *examples is the number of examples in the sum: those that the contributions
 * stated, plus those that the CLOCKs of ranks without a push to this partition stated. */
bool apply_step_is_complete(struct shard *s, struct part *p, uint64_t *examples);
/* Applies the sum of the open step, which is complete, as the mean gradient of `examples` examples;
 * sends it to the next replica and opens the next step. */
void apply_step(struct shard *s, struct part *p, uint64_t examples);

#endif
