#ifndef CTL_ENDING_H
#define CTL_ENDING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* Seeing a cluster's supervisor off.  A cluster has ended when nobody holds its
 * lock and none of the processes in its pid files is left. */

/* Ask a supervisor to stop its cluster (SIGUSR2); false when there is none. */
bool ending_ask(const char *dir);
/* Wait until it has ended.  False after timeout_ns. */
bool ending_wait(const char *dir, int64_t timeout_ns);
/* Make it end: SIGTERM to the supervisor, SIGKILL after grace_ns; its children
 * die with it.  ERR_FAILED when it outlives even that. */
enum err_code ending_force(const char *dir, int64_t grace_ns, struct err *e);

#endif
