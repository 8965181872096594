#ifndef SHARD_MEAN_H
#define SHARD_MEAN_H

#include "shard/part.h"

/* Tables whose gradients the workers sum among themselves (struct table.reduced): of
 * each step comes one push, of the mean, from whichever of them; it comes when all
 * have it, which is after their CLOCKs.  The first counts, others are duplicates. */

/* CLOCKs that are taken of steps beyond the oldest open one: who has sent them may
 * have to push for another that has died. */
#define MEAN_AHEAD 2u

/* Has the open step its push?  The partition's lock is held. */
bool mean_is_here(const struct part *p);
/* Takes anybody part who has taken part in this step, and so has its mean?  The gate's
 * lock is held. */
bool mean_may_come(const struct sync *sync, uint64_t step);

#endif
