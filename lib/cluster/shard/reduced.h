/* SPDX-License-Identifier: ISC */
#ifndef SHARD_REDUCED_H
#define SHARD_REDUCED_H

#include "shard/part.h"

/* Tables whose gradients the workers sum among themselves (struct table.reduced). Each step has one
 * push, of the mean, from any one of them. It comes when all workers have the mean, which is after
 * their CLOCKs. The first push counts, later ones are duplicates. */

/* CLOCKs are taken of so many steps beyond the oldest open one, because a worker that has sent its
 * CLOCK may have to push the mean for another that has died. */
#define REDUCED_CLOCKS_AHEAD 2u

/* Has the open step its push? The partition's lock is held. */
bool reduced_has_push(const struct part *p);
/* May the mean of this step still come, because a rank that took part in the step is active? The
 * gate's lock is held. */
bool reduced_may_get_push(const struct sync *sync, uint64_t step);

#endif
