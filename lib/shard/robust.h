#ifndef SHARD_ROBUST_H
#define SHARD_ROBUST_H

#include "shard/part.h"

/* Robust sums (sync/robust.h): the head of a dense partition keeps each worker's gradient of the
 * open step by itself, and makes one of them when the step closes; copies get that one.  The room
 * for it is booked for as many slots as the job may have, and is kept from step to step.  All with
 * the partition's lock held. */

/* Bytes that it may take. */
uint64_t robust_bytes(const struct part *p, const struct shard_config *cfg);
/* Is there room for this slot's gradient?  It is booked, of one that was not foreseen. */
bool robust_has_room(struct part *p, struct shard *s, uint32_t slot);
/* False: no memory, or not of a dense table. */
bool robust_keep(struct part *p, const struct push *push);
/* acc from what was kept; the divisor that makes a gradient of it. */
uint64_t robust_combine(struct shard *s, struct part *p);
/* The step is over: what was kept is of none. */
void robust_reopen(struct part *p);
void robust_free(struct part *p);

#endif
