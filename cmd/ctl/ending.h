/* SPDX-License-Identifier: ISC */
#ifndef CTL_ENDING_H
#define CTL_ENDING_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"

/* Ends the supervisor of a cluster from another process: ending_request_stop, then ending_await and, if that
 * fails, ending_force.  A cluster has ended when no process holds the lock of its run directory
 * and none of the processes in its pid files is alive.  Signals go through a pidfd to the process
 * that holds the lock, so that a recycled process id never gets one. */

/* Ask the supervisor to stop its cluster (SIGUSR2).  False when there is none. */
bool ending_request_stop(const char *dir);
/* Wait until the supervisor has released the lock.  False after timeout_ns. */
bool ending_await(const char *dir, int64_t timeout_ns);
/* End the cluster: SIGTERM to the supervisor, SIGKILL after grace_ns; its children die with it.
 * ERR_FAILED when processes are left 5 s after that. */
enum err_code ending_force(const char *dir, int64_t grace_ns, struct err *e);

#endif
