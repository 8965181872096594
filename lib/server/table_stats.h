#ifndef SERVER_TABLE_STATS_H
#define SERVER_TABLE_STATS_H

#include <jansson.h>

#include "shard/shard.h"

/* What this server says to the coordinator of the sparse tables: a list of {"id", "rows", "bytes"} and, of those
 * with a policy, the counters of life.def, and narrow_rows where it widens them; of the first 256. */
json_t *table_stats_json(struct shard *s);

#endif
