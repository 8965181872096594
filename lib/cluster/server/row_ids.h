/* SPDX-License-Identifier: ISC */
#ifndef SERVER_ROW_IDS_H
#define SERVER_ROW_IDS_H

#include "codec/keycache.h"
#include "server/server_state.h"

/* Row ids that a record carries as a block (RECORD_KEYS, codec/keycache.h): either in full, or by
 * the name of a block that this session sent before and the server has cached.  The session's I/O
 * thread calls these functions. */
enum keys_found { KEYS_FOUND, KEYS_MISSED, KEYS_WRONG };

/* Decode the row ids at the beginning of the body of a record with RECORD_KEYS.  KEYS_FOUND: *ids
 * are b->n ids, valid until the next call for this session, and the block took b->whole bytes.
 * KEYS_MISSED: the record names a block that is not cached; the sender has been asked, by NO_KEYS,
 * to send it in full.  KEYS_WRONG: the block is malformed, has more than `most` ids, or the
 * configuration does not allow blocks. */
enum keys_found session_row_ids(struct peer *p, const struct record *r, const uint8_t *body,
    size_t len, size_t most, struct keys_block *b, const uint64_t **ids);
/* The compressor of this I/O thread, made at its first use. */
struct zip *session_row_ids_zip(struct io_thread *l);

#endif
