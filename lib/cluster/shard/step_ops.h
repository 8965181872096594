/* SPDX-License-Identifier: ISC */
#ifndef SHARD_STEP_OPS_H
#define SHARD_STEP_OPS_H

#include "shard/shard.h"

struct part;

/* The use that a partition makes of the pushes of a step. In a mode that closes steps
 * (settings_epoch_closes_step) all partitions open and close the same steps, by the same pushes and
 * CLOCKs; they differ only in what this struct says. settings_epoch_steps gives the struct that a
 * partition uses at a step.
 *
 *   step_summed      the pushes are summed; closing the step makes one update from the sum
 *   step_on_arrival  each push is an update of its own; closing the step changes no value. All
 *                    partitions of ssp and asp are of this kind, too, though they close no steps. */
struct step_ops {
	/* The values contain no push of the open step until it is closed. */
	bool holds_pushes;
	/* A push whose step was closed without it (backup) is used, too. */
	bool takes_late;
	/* The status of a push that was used. */
	enum push_status used;
	/* Uses a push of the open step or, with takes_late, of an earlier one, at the head of the
	 * chain, with the partition's lock held. The rank's push of this step has not been taken
	 * before. acceptable: false for a push that is taken, so that nobody waits for it, but
	 * changes nothing.
	 *
	 *   SHARD_OK    used, or refused
	 *   SHARD_WAIT  not now: there is no room for the record to the next replica
	 *   SHARD_BAD   there is no memory; some rows may have been used, so the session must end */
	enum shard_answer (
	    *use_push)(struct shard *s, struct part *p, const struct push *push, bool acceptable);
};

extern const struct step_ops step_summed, step_on_arrival;

#endif
