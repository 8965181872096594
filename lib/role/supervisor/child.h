/* SPDX-License-Identifier: ISC */
#ifndef SUPERVISOR_CHILD_H
#define SUPERVISOR_CHILD_H

#include <stddef.h>

#include "core/err.h"
#include "core/launch.h"

/* One program that this process represents: it gets our output, our signals decide about its end,
 * and its exit code becomes ours. Used by ps-ctl remote and launch. */

/* Block SIGTERM, SIGINT, SIGHUP and SIGUSR1, and return a descriptor that they are read from. */
int child_open_signals(void);
/* Wait for the next signal on that descriptor. 0: none could be read. */
int child_read_signal(int signals);
/* Start the program in dir (NULL: here), with our standard output and error and an empty standard
 * input. A name without "/" is looked up in the directory of this program, then in PATH.
 * ignores_term: see struct launch_spec. The program and its descendants die with this process. */
enum err_code child_start_program(const char *id, const char *dir, char *const *words,
    bool ignores_term, struct launch_set **set, size_t *child, struct err *e);
/* The exit code for how it ended: its own, or 128+N after signal N. */
int child_exit_code(const struct launch_set *set, size_t child);

#endif
