/* SPDX-License-Identifier: ISC */
#ifndef CORE_SPAWN_H
#define CORE_SPAWN_H

#include <sys/types.h>

#include "core/launch.h"

/* Forks and executes one program as struct launch_spec says. Returns when the new program runs; if
 * it cannot be run, ERR_NOTFOUND, and nothing is left to reap. *line is our end of its control
 * line, or -1; it may be NULL when the spec has none. Any thread. */
enum err_code spawn(const struct launch_spec *spec, pid_t *pid, int *line, struct err *e);

/* Redirects stdin to `in` (-1: /dev/null), stdout and stderr to log_fd. Async-signal-safe; returns
 * an errno, or 0. */
int spawn_stdio(int in, int log_fd);

#endif
