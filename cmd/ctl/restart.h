#ifndef CTL_RESTART_H
#define CTL_RESTART_H

#include <stdbool.h>
#include <stddef.h>

#include "runner.h"

/* Another process in the place of one that died: each as often as
 * r->max_restarts says, with longer and longer pauses. */

/* Shall `id`, that has ended, be started again?  False when it has died too
 * often, or nobody wants it any more. */
bool restart_later(struct runner *r, size_t child, const char *id);
/* Is somebody to be? */
bool restart_coming(const struct runner *r);
/* Start those whose time has come. */
void restart_due(struct runner *r);

#endif
