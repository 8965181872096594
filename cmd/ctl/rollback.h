#ifndef CTL_ROLLBACK_H
#define CTL_ROLLBACK_H

#include "runner.h"

/* A job that has failed because a server took the only copy of something with
 * it goes on from its newest checkpoint: all processes are ended and started
 * again, in the next generation.  False when there is no checkpoint, it has
 * happened too often, or that was not why; then nothing has changed. */
bool rollback(struct runner *r);

#endif
