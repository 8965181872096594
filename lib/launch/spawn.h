#ifndef LAUNCH_SPAWN_H
#define LAUNCH_SPAWN_H

#include <sys/types.h>

#include "launch/launch.h"

/* fork and exec one program as struct launch_spec says.  Returns when the new
 * program runs: a program that cannot be run is ERR_NOTFOUND, with nothing
 * left to reap. */
enum err_code spawn(const struct launch_spec *spec, pid_t *pid, struct err *e);

/* stdin from /dev/null, stdout and stderr to fd.  Async-signal-safe; returns
 * an errno, 0 when it is done. */
int spawn_stdio(int log_fd);

#endif
