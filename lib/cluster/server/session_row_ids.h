/* SPDX-License-Identifier: ISC */
#ifndef SERVER_SESSION_ROW_IDS_H
#define SERVER_SESSION_ROW_IDS_H

#include "codec/row_ids_cache.h"
#include "server/server_state.h"

/* Row ids that a record carries as a block (RECORD_ROW_IDS, codec/row_ids_cache.h): either in full,
 * or by the name of a block that this session sent before and the server has cached. The session's
 * I/O thread calls these functions. */
enum row_ids_found { ROW_IDS_FOUND, ROW_IDS_MISSED, ROW_IDS_WRONG };

/* Decode the row ids at the beginning of the body of a record with RECORD_ROW_IDS. ROW_IDS_FOUND:
 * *ids are b->n ids, valid until the next call for this session, and the block took b->whole bytes.
 * ROW_IDS_MISSED: the record names a block that is not cached; the sender has been asked, by
 * NO_ROW_IDS, to send it in full. ROW_IDS_WRONG: the block is malformed, has more than `most` ids,
 * or the configuration does not allow blocks. */
enum row_ids_found session_row_ids(struct server_session *p, const struct record *r,
    const uint8_t *body, size_t len, size_t most, struct row_ids_block *b, const uint64_t **ids);
/* The compressor of this I/O thread, made at its first use. */
struct zip *session_row_ids_zip(struct io_thread *l);

#endif
