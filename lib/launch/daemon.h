#ifndef LAUNCH_DAEMON_H
#define LAUNCH_DAEMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Split off a supervisor that outlives the terminal.  Returns twice, as fork
 * does: in the caller with *daemon false, in the supervisor with true.  The
 * supervisor has a session of its own, is the subreaper of all below it, reads
 * /dev/null and writes to log_path; locks and other descriptors stay open in
 * it.  *ready is the pipe between the two: give it to daemon_ready there and
 * to daemon_await here.  Call it before there are threads. */
enum err_code daemon_start(const char *log_path, bool *daemon, int *ready, struct err *e);

/* The supervisor's one line to the caller ("ready", or what went wrong), cut
 * at its first newline; closes the pipe. */
void daemon_ready(int ready, const char *line);

/* The line, of at most size-1 bytes; closes the pipe.  ERR_FAILED when the
 * supervisor ended without one (see its log), ERR_TIMEOUT after timeout_ns. */
enum err_code daemon_await(int ready, int64_t timeout_ns, char *line, size_t size, struct err *e);

#endif
