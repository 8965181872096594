/* SPDX-License-Identifier: ISC */
#ifndef COORD_CHECKPOINT_H
#define COORD_CHECKPOINT_H

#include "coord/checkpoint_steps.h"
#include "coord/coord.h"

/* One checkpoint, from its order until the servers have written it. The owner
 * (checkpoint_schedule.h in role/coordinator) orders it, asks for the next action after each change
 * of the coord, does what touches files, and ends it.
 *
 *   state     event                                                             next state
 *   none      checkpoint_begin                                                  asked
 *   asked     all servers that are tails have their snapshots in memory         taken
 *   asked     a server is past the step; all workers have come to rest at an    asked again, for
 *             earlier one (if it was requested); the layout or the settings     another step
 *             have changed
 *   taken     the snapshot cannot have the name of its step: the mode is        asked again
 *             another one by now, or the job was done before the step
 *   taken     checkpoint_write                                                  writing
 *   writing   all servers have written their parts                              saved
 *   writing   the layout or the settings have changed                           asked again
 *   any       a server fails; the job no longer runs; the job is done and the   dropped
 *             step is not reached within the deadline; too many attempts; an
 *             exact step is not possible
 *   any       checkpoint_end                                                    none
 *
 * An attempt is a snapshot (enum coord_snap in coord.h). Pure: no clock, thread or file; under the
 * owner's lock, as the whole coord. */

struct checkpoint_order {
	/* Not NULL: at `step`, or in bsp at a later multiple of steps->every, or not at all. NULL:
	 * as soon as possible. Borrowed until checkpoint_end, and may change: with another `every`
	 * the checkpoint is dropped. */
	struct checkpoint_steps *steps;
	uint64_t step;
	uint64_t number; /* names it in a cluster without a job, which counts no steps */
	/* Somebody waits for it: it is taken at an earlier step if all workers come to rest
	 * there. */
	bool requested;
	/* mark: a number that no other snapshot has; base: the mark of the one that a delta
	 * checkpoint builds on, if the servers still have it, or 0. */
	uint64_t mark, base;
};

enum checkpoint_action {
	CHECKPOINT_WAIT,   /* until the coord changes, or until checkpoint_limit */
	CHECKPOINT_WRITE,  /* make a directory, and call checkpoint_write */
	CHECKPOINT_AGAIN,  /* remove the directory, if one was made; another attempt has begun */
	CHECKPOINT_COMMIT, /* all files are in the directory: commit it, and call checkpoint_end */
	CHECKPOINT_DROP    /* remove the directory, and call checkpoint_end; e says why */
};

void checkpoint_begin(struct coord *c, const struct checkpoint_order *o);
enum checkpoint_action checkpoint_next(struct coord *c, int64_t now, struct err *e);
/* Has the servers write into `dir`, if the attempt has not failed meanwhile. */
void checkpoint_write(struct coord *c, const char *dir, int64_t now);
void checkpoint_end(struct coord *c);
/* When CHECKPOINT_WAIT may end by time alone (clock_now); 0: never. */
int64_t checkpoint_limit(const struct coord *c);

#endif
