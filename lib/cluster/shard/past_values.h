/* SPDX-License-Identifier: ISC */
#ifndef SHARD_PAST_VALUES_H
#define SHARD_PAST_VALUES_H

#include "shard/part.h"

/* The past values of a dense partition, from which gradients that arrive late were computed: the
 * last versions, as many as the job may have workers (at most PAST_VERSIONS_MAX), so that they take
 * the memory of one copy for each worker. Only the head of a chain has them, and only where pushes
 * are applied on arrival and their staleness is compensated by values (optim/stale.h). The head
 * changes the gradient before it is applied and sent along the chain, so that replicas need no
 * past.
 *
 *    NULL --first compensated push--> kept --settings without it, or values that leave--> NULL
 *
 * A server that has become the head begins without past values. A gradient from a version that is
 * older than all kept ones is compensated from the oldest of them. The partition's lock is held. */
#define PAST_VERSIONS_MAX 64u

/* Bytes of the past of n values; 0 where the compensation needs none. */
uint64_t past_values_bytes(const struct shard *s, const struct stale *stale, size_t n);
/* Compensates the staleness of the push, which is about to be applied to the partition: *push then
 * has the new gradient as raw values, which stay valid until the next call. Keeps the present
 * values for later pushes. Pushes from outside, which do not say from what they were computed, and
 * sparse tables stay as they are, and so does a push whose gradient would be too large. False: no
 * memory. */
bool past_values_compensate(struct shard *s, struct part *p, const struct stale *stale,
    struct push *push);
void past_values_free(struct part *p);

#endif
