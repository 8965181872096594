#ifndef SERVER_HEAT_H
#define SERVER_HEAT_H

#include <jansson.h>

#include "shard/shard.h"

/* How much partitions are pushed to, for who places them: [[table, first, count,
 * bytes a step of each], ...], at most HEAT_ROWS of them; neighbours that are about as
 * hot are one row.  The last call was so many seconds and steps ago. */
#define HEAT_ROWS 64
json_t *heat_rows(struct shard *s, double seconds, uint64_t steps);

#endif
