/* SPDX-License-Identifier: ISC */
#ifndef CTL_RESTART_H
#define CTL_RESTART_H

#include <stdbool.h>
#include <stddef.h>

#include "runner.h"

/* The restart policy of a runner: each process is restarted at most r->max_restarts times, after
 * pauses that double from 0.1 s to 10 s.  One child's restart goes through these states:
 *
 *   idle         the process ends, restart_schedule            scheduled (at != 0)
 *   scheduled    its time has come, it starts               idle
 *   scheduled    its time has come, the start fails         failing (at and failing_since != 0)
 *   failing      its time has come, it starts               idle
 *   failing      the start fails before the deadline        failing, with a pause of up to 2 s
 *   failing      the start fails after the deadline         idle; the process is given up
 *
 * A failed attempt does not count as a restart.  Attempts that fail are published in the lock
 * file. */

/* Schedule a restart of `id`, which has ended.  False when it has used up its restarts, or the job
 * does not need it any more. */
bool restart_schedule(struct runner *r, size_t child, const char *id);
/* Is the restart of any process scheduled? */
bool restart_is_pending(const struct runner *r);
/* Start the processes whose time has come.  An attempt that fails (a full disk, an unreachable
 * host) is repeated until attempts have failed for the cluster's deadline. */
void restart_start_due(struct runner *r);
/* Schedule another attempt to start `id`, which failed with e, or give the process up after the
 * deadline. The first failure is shown to the user, and each is written to the lock file, where
 * the coordinator and ps-ctl status read it. */
void restart_retry_later(struct runner *r, const char *id, const struct err *e);
/* Cancel all scheduled restarts.  The counts of restarts stay. */
void restart_cancel_all(struct runner *r);

#endif
