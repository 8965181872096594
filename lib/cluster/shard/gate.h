/* SPDX-License-Identifier: ISC */
#ifndef SHARD_GATE_H
#define SHARD_GATE_H

/* The gate of one shard: its members, their CLOCKs and announcements, which pulls are answered now,
 * and the closing of bsp steps in all partitions. settings_epoch.c changes the mode; apply.h takes
 * the pushes.
 *
 * Unless a comment says otherwise, the caller holds the partition's lock and the functions take the
 * gate's lock, which comes after it. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/lock.h"
#include "sync/sync.h"

struct part;
struct shard;

/* The gate of a server: the workers' clocks and the mode in force. It decides which pushes and
 * pulls must wait. The lock covers all fields but the atomic one. `closing` and `changing_mode`
 * make sure that one thread at a time goes over all partitions to close steps or to change the
 * mode. That thread releases the gate's lock meanwhile, because partition locks come first in the
 * order; another thread that finds `closing` set leaves `again` set, and the first makes
 * one more round. */
struct gate {
	struct mutex lock;
	struct sync sync;
	uint32_t settings;  /* number of the settings epoch whose mode, sync.mode, is in force */
	bool changing_mode; /* a thread is changing the mode (settings_epoch_change_mode) */
	/* Cache for clocked_steps: the least clock of the active ranks, and how many are at it. 0:
	 * compute it again. */
	size_t nslowest;
	uint64_t least_clock;
	bool closing;                 /* a thread is closing steps (close_complete_steps) */
	bool again;                   /* look again when that is done */
	_Atomic unsigned nlagging;    /* partitions with part.lagging set */
	_Atomic uint64_t trained_end; /* the last step whose CLOCK stated examples, plus 1 */
};

/* Tells the next replica that the step before the open one is closed, if it may not find that out
 * from CLOCKs: a rank was lost at that step, or this server has become the head since. */
void gate_tell_closed(struct shard *s, struct part *p);

/* The partition has closed a step because its last push came. True when it was the last partition
 * that the clocks had passed: call shard_advance, without locks. */
bool gate_caught_up(struct shard *s, struct part *p);

/* bsp, at a replica that is not the head: goes over steps for which nobody announced a push to the
 * partition, for which the head sends no record. */
void gate_pass_empty_steps(struct shard *s, struct part *p);
/* The steps below this one were closed at some server, so their members cannot change. Takes the
 * gate's lock only. */
void gate_note_closed(struct shard *s, uint64_t step);
/* A replica has taken pushes of the rank of steps below `end` from another server: a vote must not
 * give one of these steps to another holder of the rank, whose push of it would be a duplicate.
 * Takes the gate's lock only. */
void gate_note_pushed(struct shard *s, uint32_t rank, uint64_t end);
/* Is an announced push pending that a pull at this step must see? Looks at the steps that all
 * workers must have completed before it (sync_needed_step), where pushes are applied on arrival; in
 * bsp at those before the mode became bsp. */
bool gate_push_is_pending(struct shard *s, const struct part *p, uint64_t step);

#endif
