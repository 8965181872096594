/* SPDX-License-Identifier: ISC */
#ifndef SERVER_ANSWER_DENSE_H
#define SERVER_ANSWER_DENSE_H

#include "codec/codec.h"
#include "server/server_state.h"

/* Answers to pulls of dense partitions. `out` is the head of the answer; the functions set its
 * codec, flags, len and total, and queue it for the session. They return what the shard answers,
 * and queue nothing unless that is SHARD_OK. The session's I/O thread. */

/* The values of a partition at this step, encoded by a codec that is for pulls. Sends only the
 * values that have changed after version `since`, if that is known and they are at most half;
 * UINT64_MAX: all. by_place: plain values in published memory are named, not copied. */
enum shard_answer answer_dense_values(struct server_session *p, uint64_t step,
    const struct codec *codec, uint64_t since, bool by_place, struct record *out);
/* An answer without values. shown: not before the values might be shown at this step. */
enum shard_answer answer_dense_version(struct server_session *p, uint64_t step, bool shown,
    struct record *out);
/* Vector k of the partition's optimizer state, as plain floats. */
enum shard_answer answer_dense_state(struct server_session *p, uint64_t step, uint64_t k,
    struct record *out);

#endif
