/* SPDX-License-Identifier: ISC */
#ifndef CORE_SPAWN_H
#define CORE_SPAWN_H

#include <stdbool.h>
#include <sys/types.h>

#include "core/launch.h"

/* The one place that starts programs. spawn is for processes that are watched (core/launch.h): own
 * group, log, control line, death with the parent. spawn_tool is for a short-lived program that the
 * caller waits for. The other forks go on in this same program: the supervisor
 * (supervisor/daemon.c), and members of a benchmark and the client of a saved model. */

/* Forks and executes one program as struct launch_spec says. Returns when the new program runs; if
 * it cannot be run, ERR_NOTFOUND, and nothing is left to reap. *line is our end of its control
 * line, or -1; it may be NULL when the spec has none. Any thread. */
enum err_code spawn(const struct launch_spec *spec, pid_t *pid, int *line, struct err *e);

/* Starts the program at path (without a slash: in PATH) with default signals, none of them blocked.
 * fd[i] becomes its descriptor i; -1: it is ours. env NULL: our environment. own_group: in a
 * process group of its own. All descriptors that are not close-on-exec go along. Returns 0 or an
 * errno; the caller reaps *pid. Any thread. */
int spawn_tool(const char *path, char *const *argv, char *const *env, const int fd[static 3],
    bool own_group, pid_t *pid);

/* Redirects stdin to `in` (-1: /dev/null), stdout and stderr to log_fd. Async-signal-safe; returns
 * an errno, or 0. */
int spawn_stdio(int in, int log_fd);

#endif
