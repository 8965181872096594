/* SPDX-License-Identifier: ISC */
#ifndef STORE_TABLE_STATS_H
#define STORE_TABLE_STATS_H

#include "core/json.h"
#include "shard/shard.h"

/* Statistics of the first 256 sparse tables, for heartbeats: [{"id", "rows", "bytes"}, ...].  A
 * table with a row policy also has the counters of shard/row_life.def.  A new reference. */
json_t *table_stats_json(struct shard *s);

#endif
