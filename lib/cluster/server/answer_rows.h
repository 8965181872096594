/* SPDX-License-Identifier: ISC */
#ifndef SERVER_ANSWER_ROWS_H
#define SERVER_ANSWER_ROWS_H

#include "codec/codec.h"
#include "server/server_state.h"

/* Answers to pulls of rows. Queue n rows of a sparse partition at this step, encoded by a codec
 * that is for pulls. `out` is the head of the answer; codec, flags, len and total are set here.
 * since[i] is the version of row i that the client has (codec/row_versions.h); NULL: it has none.
 * Sends only the changed rows if that takes fewer bytes. Returns what the shard answers, and queues
 * nothing unless that is SHARD_OK. The session's I/O thread. */
enum shard_answer answer_rows_values(struct server_session *p, uint64_t step,
    const struct codec *codec, const uint8_t *ids, uint32_t n, const uint64_t *since,
    struct record *out);

#endif
