/* SPDX-License-Identifier: ISC */
#ifndef SHARD_SHARD_SOURCE_H
#define SHARD_SHARD_SOURCE_H

#include "layout/param_source.h"
#include "shard/shard.h"

/* The partitions of this process as a source of parameters, for a process that has all partitions
 * of a model, such as a read replica. The values change, and a read copies them as they are now,
 * each partition under its lock: no message and no socket. A read waits only for rows that the row
 * store has to fetch from a disk, for SHARD_SOURCE_PATIENCE at most. Each thread makes a source of
 * its own. */
#define SHARD_SOURCE_PATIENCE (5 * INT64_C(1000000000))

/* Makes the source of those tables of the shard that `like` has. The shard must outlive it; `like`
 * is not used afterwards. config and facts are borrowed. ERR_NOTREADY: a table, or the values of a
 * partition, are not here yet: try again. ERR_CONFIG: a table has another shape. */
enum err_code shard_source_open(struct shard *shard, const struct layout *like,
    const json_t *config, const json_t *facts, struct param_source **out, struct err *e);

#endif
