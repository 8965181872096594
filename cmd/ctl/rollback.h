/* SPDX-License-Identifier: ISC */
#ifndef CTL_ROLLBACK_H
#define CTL_ROLLBACK_H

#include "runner.h"

/* Roll back a job that has failed because a server died with the only copy of a partition: end all
 * processes, and start them again from the newest checkpoint, in the next generation.  Blocks
 * until they are started or the deadline is over; r has crashed in the latter case. False: not
 * rolled back.  Nothing has changed when there is no checkpoint, max_restarts roll-backs have been
 * made, or the failure had another reason. */
bool rollback(struct runner *r);

#endif
