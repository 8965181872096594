/* SPDX-License-Identifier: ISC */
#ifndef SHARD_GATE_H
#define SHARD_GATE_H

/* The gate decides, for one shard, which ranks may push at which step, and when a bsp step is closed.
 * Whether a push was taken before, comes too late or too early is decided in apply.c, and for relays'
 * sums in sum.c, by what its partition has taken (part_has_taken). struct gate and the states are in
 * shard/part.h. settings_epoch.c changes the mode; apply.h makes the updates.
 *
 * Unless a comment says otherwise, the caller holds the partition's lock and the functions take the
 * gate's lock, which comes after it. */
#include "shard/part.h"

/* Is the incarnation fenced, because it does not hold the slot (any more)? The gate's lock is
 * held. */
bool gate_fences(const struct sync *sync, uint32_t slot, uint64_t incarnation);
/* May this push to the partition come in now? Notes the push's step in the slot's `last`, which
 * votes look at; but not in bsp while the partition has not come to that step, because the push
 * only waits then. Pushes from SHARD_OUTSIDE always may. SHARD_HOLD, SHARD_FENCED: it may not. */
enum shard_answer gate_push(struct shard *s, const struct part *part, const struct push *p);
/* bsp: has the partition not come to this step yet, so that its pushes wait? */
bool gate_is_ahead(const struct shard *s, const struct part *p, uint64_t step);
/* Counts a push that was refused for its own contents. Takes the gate's lock only; no partition's
 * lock is held. */
void gate_count_refused(struct shard *s, uint32_t slot);

/* Has every slot given what it will give to this partition's open step, and is there room for the
 * record to the next replica? Then *examples is what the sum is to be divided by: what the
 * contributions stated, plus what the CLOCKs of those slots stated that did not push here. */
bool gate_step_is_complete(struct shard *s, struct part *p, uint64_t *examples);

/* Tells the next replica that the step before the open one is closed, if it may not find that out
 * from CLOCKs: a slot was lost at that step, or this server has become the head since. */
void gate_tell_closed(struct shard *s, struct part *p);

/* deterministic runs: have all slots with a lower number given theirs, so that sums are made in one
 * order? */
bool gate_in_turn(struct shard *s, const struct part *p, uint32_t slot, uint64_t step);

/* bsp: closes every step that is complete in all partitions, then changes the mode if it is time.
 * No locks are held. */
void gate_close(struct shard *s);
/* The partition has closed a step because its last push came. True when it was the last partition
 * that the clocks had passed: call shard_settle, without locks. */
bool gate_caught_up(struct shard *s, struct part *p);

/* bsp, at a replica that is not the head: goes over steps for which nobody announced a push to the
 * partition, for which the head sends no record. */
void gate_pass_empty_steps(struct shard *s, struct part *p);
/* The steps below this were closed at some server: who takes part in them cannot change. Takes the
 * gate's lock only. */
void gate_note_closed(struct shard *s, uint64_t step);
/* Is an announced push pending that a pull at this step must see? Looks at the steps that all workers
 * must have completed before it (sync_needed_step), where pushes are applied on arrival. */
bool gate_push_is_pending(struct shard *s, const struct part *p, uint64_t step);

#endif
