#ifndef LAUNCH_SPAWN_H
#define LAUNCH_SPAWN_H

#include <sys/types.h>

#include "launch/launch.h"

/* fork and exec one program as struct launch_spec says.  Returns when the new
 * program runs: a program that cannot be run is ERR_NOTFOUND, with nothing
 * left to reap.  *line is our end of its stdin when it has a line, else -1;
 * it may be NULL without. */
enum err_code spawn(const struct launch_spec *spec, pid_t *pid, int *line, struct err *e);

/* stdin from `in` (-1: /dev/null), stdout and stderr to log_fd.  Async-signal-safe;
 * returns an errno, 0 when it is done. */
int spawn_stdio(int in, int log_fd);

#endif
