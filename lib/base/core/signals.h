/* SPDX-License-Identifier: ISC */
#ifndef CORE_SIGNALS_H
#define CORE_SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

/* A process that others depend on must not end by a signal that has no meaning for it. The
 * default action of each of these is to end the process; no program of ours uses them.
 * SIGUSR1, SIGUSR2 and SIGHUP mean something to some of the programs and are not among them. */
extern const int signals_stray[];
extern const size_t signals_nstray;

/* Ignores them, and those in `more`, a list that ends with 0, or NULL. */
void signals_ignore_stray(const int *more);

/* Is a blocked signal pending that asks the process to end (SIGTERM, SIGINT)? A start that waits
 * for something looks here, because no thread takes signals yet. */
bool signals_end_is_pending(void);

#endif
