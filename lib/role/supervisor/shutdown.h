/* SPDX-License-Identifier: ISC */
#ifndef SUPERVISOR_SHUTDOWN_H
#define SUPERVISOR_SHUTDOWN_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"

/* Ends the supervisor of a cluster from another process: shutdown_request, then shutdown_await and, if that
 * fails, shutdown_force. A cluster has ended when no process holds the lock of its run directory
 * and none of the processes in its pid files is alive. Signals go through a pidfd to the process
 * that holds the lock, so that a recycled process id never gets one. */

/* Ask the supervisor to stop its cluster (SIGUSR2). False when there is none. */
bool shutdown_request(const char *dir);
/* Wait until the supervisor has released the lock. False after timeout_ns. */
bool shutdown_await(const char *dir, int64_t timeout_ns);
/* End the cluster: SIGTERM to the supervisor, SIGKILL after grace_ns; its children die with it.
 * ERR_FAILED when processes are left 5 s after that. */
enum err_code shutdown_force(const char *dir, int64_t grace_ns, struct err *e);

#endif
