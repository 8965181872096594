/* SPDX-License-Identifier: ISC */
#ifndef SHARD_ROBUST_H
#define SHARD_ROBUST_H

#include "shard/part.h"

/* The caller of aggregators that compare gradients (aggregate/aggregate.h). The head of a dense
 * partition keeps each rank's gradient of the open step by itself and combines them when the step
 * closes; replicas get the combined gradient. Memory is booked for as many ranks as the job may
 * have, and is kept from step to step. The partition's lock is held. */

/* Bytes that the kept gradients of the partition may take; 0 when the aggregator compares none. */
uint64_t robust_bytes(const struct part *p, const struct shard_config *cfg);
/* Is there room for this rank's gradient? A rank beyond cfg.ranks is booked by this call. */
bool robust_has_room(struct part *p, struct shard *s, uint32_t rank);
/* Decodes and keeps a push. False: no memory, a rank that is too high, or a sparse table. */
bool robust_keep(struct part *p, const struct push *push);
/* Combines the kept gradients into acc. Returns the divisor that makes a gradient of it, and its
 * number of examples: what the workers stated, but no worker more than the median, so that none
 * gains weight by stating more. Zeroes when there are no gradients. */
struct part_sum_size robust_combine(struct shard *s, struct part *p);
/* Forgets the gradients of the closed step, but keeps the memory. */
void robust_reopen(struct part *p);
/* Frees the kept gradients. */
void robust_free(struct part *p);

#endif
