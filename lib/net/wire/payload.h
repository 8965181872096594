/* SPDX-License-Identifier: ISC */
#ifndef WIRE_PAYLOAD_H
#define WIRE_PAYLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/buf.h"
#include "wire/conn.h"
#include "wire/record.h"

/* Payloads of records: one encoder (payload_put_*) and one decoder (payload_get_*) of each, which
 * checks all bounds against the payload's length. ps-protocol(7) has the layouts. No state and no
 * locks, but for struct batcher, which belongs to the thread of its conn. */

/* PULL and CLOCK: runs of partitions. bypasses_relay, in a CLOCK: the pushes to this run do not
 * come through the relay that gets the CLOCK, but directly; servers may still have to expect
 * them. */
struct payload_run {
	uint16_t table;
	uint32_t first, count;
	bool bypasses_relay;
};
#define PAYLOAD_RUN_BYTES 12
void payload_encode_run(uint8_t out[static PAYLOAD_RUN_BYTES], const struct payload_run *r);
/* Append one partition, by extending the last run if that is possible. */
void payload_put_part(struct buf *b, uint16_t table, uint32_t part, bool bypasses_relay);
/* Decode the i-th run of a payload of len bytes. False past the end, and for an impossible table
 * number. */
bool payload_get_run(const uint8_t *p, size_t len, size_t i, struct payload_run *out);
/* Is the payload a whole number of valid runs? */
bool payload_runs_valid(const uint8_t *p, size_t len);
/* The number of partitions in all runs. A partition that is in two runs counts twice. */
uint64_t payload_runs_parts(const uint8_t *p, size_t len);

/* RECEIPT: a list of the results of pushes. */
struct payload_receipt {
	uint16_t table;
	uint8_t status;   /* enum push_status */
	uint8_t replicas; /* the number of replicas that have it */
	uint32_t part, staleness;
	uint64_t step, version;
};
#define PAYLOAD_RECEIPT_BYTES 32
/* Appends one entry of PAYLOAD_RECEIPT_BYTES. */
void payload_put_receipt(struct buf *b, const struct payload_receipt *r);
/* Decodes the i-th entry. False past the last whole one; the status is not checked. */
bool payload_get_receipt(const uint8_t *p, size_t len, size_t i, struct payload_receipt *out);

/* REPLICATED: the receiver of REPL_* records and the replicas after it have all records of the
 * partition up to the one with this seq. */
struct payload_replicated {
	uint16_t table;
	uint32_t part;
	uint64_t seq;
};
#define PAYLOAD_REPLICATED_BYTES 16
/* Appends one entry of PAYLOAD_REPLICATED_BYTES. */
void payload_put_replicated(struct buf *b, const struct payload_replicated *c);
/* Decode the i-th entry; false as for payload_get_run. */
bool payload_get_replicated(const uint8_t *p, size_t len, size_t i, struct payload_replicated *out);

/* PULLED with RECORD_BY_REFERENCE: where the values are (socket/published.h): `bytes` of them at
 * this place, as long as it has this state. */
struct payload_place {
	uint32_t place, bytes;
	uint64_t state;
};
#define PAYLOAD_PLACE_BYTES 16
/* Writes PAYLOAD_PLACE_BYTES. */
void payload_put_place(uint8_t out[static PAYLOAD_PLACE_BYTES], const struct payload_place *x);
/* False: the payload has another length. */
bool payload_get_place(const uint8_t *p, size_t len, struct payload_place *out);

/* CTL: queue a text of any length, in as many records as it needs. If it needs several, they have
 * `offset` and `total`. r: flags and seq for all of them. */
void payload_send_text(struct conn *c, const struct record *r, const char *text);
/* Append one of these records to `text`. *whole: `text` is complete, and begins again with the next
 * call. ERR_PROTO: it does not continue the text, or is longer than PAYLOAD_TEXT_MAX. */
enum err_code payload_get_text(struct buf *text, const struct record *r, const uint8_t *payload,
    bool *whole, struct err *e);
#define PAYLOAD_TEXT_MAX (UINT64_C(64) << 20)

/* NACK: a refusal, with an err_code and a sentence in UTF-8, which is cut after 500 bytes.
 * payload_get_nack fills *e with both, without control characters, and returns e->code. */
void payload_put_nack(struct buf *b, enum err_code code, const char *text);
/* Never returns ERR_OK: a refusal without a code, or with code 0, gives ERR_PROTO. */
enum err_code payload_get_nack(const uint8_t *p, size_t len, struct err *e);

/* PUSH_ROWS, SCANNED: a head with the number n of rows, n ids, n rows of floats. (PULL_ROWS has
 * only ids, ROWS only floats.) */
#define PAYLOAD_ROWS_HEAD 8
/* PUSH_ROWS with TOUCHING, PUSH_SUM and REPL_SUM: a u32 for each row follows the rows, the number
 * of examples that touch it. */
#define PAYLOAD_COUNT_BYTES 4
/* Is each of these n counts from 1 to `most`, the examples after the values? Else *row is the first
 * row whose count is not. */
bool payload_counts_fit(const uint8_t *counts, uint32_t n, uint64_t most, uint32_t *row);
/* A server decodes a push of rows at once, within this limit: this many bytes of the body and of
 * the decoded rows together. */
#define PAYLOAD_PUSH_ROWS_MOST (16u << 20)
/* Is a body of n rows within this limit? `encoded` bytes of a codec that must be decoded become
 * rows of `cols` floats; `counted`: the counts of examples follow. */
bool payload_push_rows_fit(uint32_t n, uint32_t cols, size_t encoded, bool counted);
/* Writes PAYLOAD_ROWS_HEAD bytes at p. */
void payload_put_rows_head(uint8_t *p, uint32_t n);
/* False unless len is exactly n ids and n * width floats. */
bool payload_get_rows(const uint8_t *p, size_t len, uint32_t width, uint32_t *n,
    const uint8_t **ids, const uint8_t **values);

/* Decode the head and find the ids, and in *rest the encoded rows after them. False if the ids do
 * not fit into len. */
bool payload_get_ids(const uint8_t *p, size_t len, uint32_t *n, const uint8_t **ids,
    const uint8_t **rest);

/* BATCH: many small records under one tag, each with its header (64 bytes), its payload, and zeroes
 * up to a multiple of 8. Decode the next record at *at, which begins with 0. False at the end
 * (e->code is ERR_OK), and after an error. */
bool payload_batch_next(const uint8_t *p, size_t len, size_t *at, struct record *r,
    const uint8_t **payload, struct err *e);

/* A batcher gathers small records for one conn. batcher_flush queues them as a BATCH, or a single
 * one plainly. A record of more than BATCHER_SMALL bytes is queued at once, after the gathered
 * ones, so that the order is kept. */
#define BATCHER_SMALL 8192u
struct batcher {
	struct buf body;
	unsigned n;
	struct record first;
};
/* Frees the gathered records without sending them. */
void batcher_release(struct batcher *b);
/* Copies the record. c is the conn of all records that are gathered. */
void batcher_add(struct batcher *b, struct conn *c, const struct record *r, const void *payload);
/* Moves everything to the queue of the conn; conn_write writes it. */
void batcher_flush(struct batcher *b, struct conn *c);
/* Add a record without copying a large payload. batcher_reserve returns room for a payload of at
 * most `most` bytes: in the queue of the conn, or `small`. The caller fills it and calls
 * batcher_commit with the record, whose r->len bytes are in `room`, before anything else is
 * queued. */
uint8_t *batcher_reserve(struct batcher *b, struct conn *c, size_t most,
    uint8_t small[static BATCHER_SMALL]);
/* `small` is the buffer that was given to batcher_reserve, by which this knows where the payload
 * lies. */
void batcher_commit(struct batcher *b, struct conn *c, const struct record *r, const uint8_t *room,
    const uint8_t *small);
/* A payload of two parts, which are sent one after the other. */
struct batcher_parts {
	const uint8_t *head, *body;
	size_t nhead, nbody;
};
/* Sends the payload in as many records as it needs, each with its `offset`, and with the length of
 * the payload as `total`. r: the other fields of all of them. An empty payload makes no record. */
void batcher_send_parts(struct batcher *b, struct conn *c, const struct record *r,
    const struct batcher_parts *parts);

/* Transfers of files (FILE_PUT, FILE_GET), at both ends: bytes in one record, bytes queued on a
 * connection, and how long to wait for the disk at the other end. */
#define FILE_PIECE    (256u << 10)
#define FILE_QUEUED   (4 * FILE_PIECE)
#define FILE_PATIENCE (300 * NSEC_PER_SEC)

#endif
