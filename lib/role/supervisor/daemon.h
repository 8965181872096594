/* SPDX-License-Identifier: ISC */
#ifndef SUPERVISOR_DAEMON_H
#define SUPERVISOR_DAEMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

/* Starts a supervisor process in the background, and reports to the process that started it when
 * the cluster is ready:
 *
 *   caller       daemon_start   ...................   daemon_await: "ready", or the failure
 *   supervisor   daemon_start   starts the cluster    daemon_report
 *
 * Neither process may have threads at daemon_start. */

/* Fork a supervisor that outlives the terminal. Returns twice, as fork() does: in the caller with
 * *daemon false, in the supervisor with *daemon true. The supervisor has its own session, is the
 * subreaper of its descendants, reads /dev/null and writes to log_path; file locks and descriptors
 * stay open in it. *ready is one end of a pipe: pass it to daemon_report in the supervisor, to
 * daemon_await in the caller. Errors are returned in the caller only. */
enum err_code daemon_start(const char *log_path, bool *daemon, int *ready, struct err *e);

/* Send the supervisor's one line to the caller: "ready", or a failure. It is cut at its first
 * newline. Closes the pipe. */
void daemon_report(int ready, const char *line);

/* Wait for that line, of which at most size-1 bytes are kept, and close the pipe. ERR_FAILED when
 * the supervisor ended without a line (its log tells why), ERR_TIMEOUT after timeout_ns. */
enum err_code daemon_await(int ready, int64_t timeout_ns, char *line, size_t size, struct err *e);

#endif
