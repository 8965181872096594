#ifndef CTL_ATTEND_H
#define CTL_ATTEND_H

#include <stddef.h>

#include "base/err.h"
#include "launch/launch.h"

/* What ps-ctl remote and launch have in common: one program that this process stands for. */

/* SIGTERM, SIGINT, SIGHUP and SIGUSR1 are read from the descriptor from here on. */
int attend_signals(void);
int attend_signal(int signals);
/* Start it, in dir (NULL: here), with our standard output and error and nothing to read.  A name
 * without "/" is a program from beside this one, else of the PATH.  deaf: as of struct launch_spec.  It dies with us, and what it has started
 * with it. */
enum err_code attend_start(const char *id, const char *dir, char *const *words, bool deaf, struct launch_set **set, size_t *child,
                            struct err *e);
/* The exit code that tells how it ended: its own, or 128+N. */
int attend_code(const struct launch_set *set, size_t child);

#endif
