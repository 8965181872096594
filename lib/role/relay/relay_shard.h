/* SPDX-License-Identifier: ISC */
#ifndef RELAY_RELAY_SHARD_H
#define RELAY_RELAY_SHARD_H

/* The shard of a relay: an implementation of struct shard_ops. Its partitions sum the pushes of the
 * ranks that the relay was given, step by step, and send the sums on as records for SHARD_UPSTREAM;
 * the values that pulls show come from the servers. In bsp only, without backup ranks, and not in
 * deterministic runs. All functions take the locks that they need; the order is in
 * shard/shard.h. */

#include "shard/shard.h"

/* Makes the shard. From *cfg it takes mode, wake, forward, ctx, and mem_limit, which bounds the
 * rows that are kept for pulls, and nothing else. ERR_NOMEM. shard_free frees it. */
enum err_code relay_shard_new(const struct shard_config *cfg, struct shard **out, struct err *e);

/* Records the servers' answer to a sum of the partition, by its seq; shard_send hands sums out as
 * records of the kind REPL_SUM. After several of these, call shard_advance. */
void relay_shard_answered(struct shard *s, uint16_t table, uint32_t part, uint64_t seq,
    enum push_status status);
/* Must the rank's push of this step take its own way, because no sum with it is to come? Either a
 * sum with it was answered, or the step was closed here without it. */
bool relay_shard_goes_alone(struct shard *s, uint16_t table, uint32_t part, uint32_t rank,
    uint64_t step);
/* A number that changes whenever relay_shard_goes_alone may have become true for a push that was
 * announced; cfg.forward is called then, too. */
uint64_t relay_shard_alone_count(struct shard *s);
/* Stores values that arrived from a server: of a dense partition, or of n rows. The caller wakes
 * the waiting sessions. */
void relay_shard_set(struct shard *s, uint16_t table, uint32_t part, uint64_t step, const float *w,
    uint64_t version);
/* ids has n ids, w their values one after the other; both are copied. */
void relay_shard_set_rows(struct shard *s, uint16_t table, uint32_t part, uint64_t step,
    const uint64_t *ids, uint32_t n, const float *w, uint64_t version);
/* The step that rows are asked for, and the layout epoch that the request is made in. */
struct relay_row_request {
	uint64_t step, epoch;
};
/* Finds the rows that are not here for this step and were not asked for in this layout epoch. They
 * count as asked for from now on; out has room for n and gets their ids, *k of them. Rows of
 * earlier steps are dropped. False: the step's rows would exceed mem_limit, and none of them counts
 * as asked for. */
bool relay_shard_ask_rows(struct shard *s, uint16_t table, uint32_t part,
    const struct relay_row_request *by, const uint8_t *ids, uint32_t n, uint64_t *out, uint32_t *k);

#endif
