/* SPDX-License-Identifier: ISC */
#ifndef SERVER_PARTITION_LOAD_H
#define SERVER_PARTITION_LOAD_H

#include "core/json.h"
#include "shard/shard.h"

/* The load of a store's partitions by pushes, which the coordinator uses for placement:
 * [[table, first, count, bytes of each partition per step], ...]. Neighbours with about the same
 * load share a row, and there are at most HEAT_ROWS rows. seconds, steps: since the last call.
 * A new reference. */
#define HEAT_ROWS 64
/* Only the heads of chains report, so each partition is reported by one server. The agent's
 * thread, which owns the time of the last call. */
json_t *partition_load_json(struct shard *s, double seconds, uint64_t steps);

#endif
