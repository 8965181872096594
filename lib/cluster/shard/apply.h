/* SPDX-License-Identifier: ISC */
#ifndef SHARD_APPLY_H
#define SHARD_APPLY_H

#include "shard/part.h"

/* Takes pushes at the head of a chain, in every mode: shard_push (shard.h) checks a push, lets it
 * pass the gate, applies it and makes its receipt; shard_is_safe and the functions beside it say
 * when the receipt may be sent. The mode of a push's step says whether steps are closed
 * (sync_ops.sums_steps), and in such a mode the table says how its pushes are used (struct
 * step_ops):
 *
 *   bsp, step_summed      shard_push --part_accumulate--> sum of the open step
 *                         --apply_step_is_complete--> ops->close_step = apply_step --part_apply_sum--> values
 *   bsp, step_on_arrival  shard_push --part_apply_push--> values
 *                         --apply_step_is_complete--> ops->close_step = apply_step, which has no sum
 *   ssp, asp              shard_push --part_apply_push--> values
 *
 * apply_step is the `close_step` of a store (shard_ops.h, store_ops.c). When the last push or CLOCK
 * of a step arrives, s->ops->close_step is called by shard_push, by sum.c for the sum of a relay,
 * or by the gate's sweep (gate.c). At a relay it is close_step in role/relay/relay_shard.c. Each
 * update is then recorded for the next replica (repl_queue_sum, repl_queue_push); replicas that are
 * not the head apply those records in repl_in.c.
 *
 * Call the functions below with the partition's lock held; apply_step_is_complete takes the gate's
 * lock. shard_push takes both locks itself, each once for a push of the open step; shard_is_safe
 * takes none.
 *
 * Reduced tables: their gradients are summed by the workers (struct table.reduced). Each step has
 * one push, of the mean, from any one of them. It arrives when all workers have the mean, which is
 * after their CLOCKs. The first push counts, later ones are duplicates. */

/* The use that a partition makes of the pushes of a step. In a mode that closes steps
 * (settings_epoch_closes_step) all partitions open and close the same steps, by the same pushes and
 * CLOCKs; they differ only in what this struct says.
 *
 *   step_summed      the pushes are summed; closing the step makes one update from the sum
 *   step_on_arrival  each push is an update of its own; closing the step changes no value. All
 *                    partitions of ssp and asp are of this kind, too, though they close no
 * steps. */
struct push_context;
struct step_ops {
	/* The values contain no push of the open step until it is closed. */
	bool holds_pushes;
	/* A push whose step was closed without it (backup) is used, too. */
	bool takes_late;
	/* The status of a push that was used. */
	enum push_status used;
	/* Uses a push of the open step or, with takes_late, of an earlier one, at the head of the
	 * chain, with the partition's lock held. The rank's push of this step has not been taken
	 * before.
	 *
	 *   SHARD_OK    used, or refused
	 *   SHARD_WAIT  not now: there is no room for the record to the next replica
	 *   SHARD_BAD   there is no memory; some rows may have been used, so the session must
	 * end */
	enum shard_answer (*use_push)(struct shard *s, struct part *p, const struct push *push,
	    const struct push_context *c);
};
/* The use that the partition, which has values, makes of the pushes of this step. */
const struct step_ops *apply_step_ops(const struct shard *s, const struct part *p, uint64_t step);

/* The end of a step whose pushes have all arrived. */
struct step_end {
	const struct settings_epoch *epoch; /* of the step */
	/* Examples that ranks without a push to the partition stated at their CLOCKs. */
	uint64_t stated;
	/* The next replica may not find out from CLOCKs which pushes the step has: a rank was lost
	 * at it, there are backup ranks, or the table is reduced. */
	bool may_lack;
};
/* Have all pushes of the partition's open step arrived, and is there room for the record to the
 * next replica? Then *end describes the end of the step. */
bool apply_step_is_complete(struct shard *s, struct part *p, struct step_end *end);
/* Applies the sum of the open step, which is complete, as the mean gradient of its examples: those
 * that the contributions stated, plus end->stated. Sends it to the next replica and opens the next
 * step. */
void apply_step(struct shard *s, struct part *p, const struct step_end *end);

#endif
