/* SPDX-License-Identifier: ISC */
#ifndef SHARD_GATE_H
#define SHARD_GATE_H

/* The gate of one shard: its members, their CLOCKs and announcements, which pulls are answered now,
 * and the closing of bsp steps in all partitions. struct gate and the states are in shard/part.h.
 * settings_epoch.c changes the mode; apply.h takes the pushes.
 *
 * Unless a comment says otherwise, the caller holds the partition's lock and the functions take the
 * gate's lock, which comes after it. */
#include "shard/part.h"

/* Tells the next replica that the step before the open one is closed, if it may not find that out
 * from CLOCKs: a rank was lost at that step, or this server has become the head since. */
void gate_tell_closed(struct shard *s, struct part *p);

/* bsp: closes every step that is complete in all partitions, then changes the mode if it is time.
 * No locks are held. */
void gate_close(struct shard *s);
/* The partition has closed a step because its last push came. True when it was the last partition
 * that the clocks had passed: call shard_advance, without locks. */
bool gate_caught_up(struct shard *s, struct part *p);

/* bsp, at a replica that is not the head: goes over steps for which nobody announced a push to the
 * partition, for which the head sends no record. */
void gate_pass_empty_steps(struct shard *s, struct part *p);
/* The steps below this one were closed at some server, so their members cannot change. Takes the
 * gate's lock only. */
void gate_note_closed(struct shard *s, uint64_t step);
/* Is an announced push pending that a pull at this step must see? Looks at the steps that all workers
 * must have completed before it (sync_needed_step), where pushes are applied on arrival. */
bool gate_push_is_pending(struct shard *s, const struct part *p, uint64_t step);

#endif
