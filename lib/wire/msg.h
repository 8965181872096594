#ifndef WIRE_MSG_H
#define WIRE_MSG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "wire/conn.h"
#include "wire/record.h"

/* Bodies of messages: one encoder and one decoder each, with bounds checked
 * against the payload's length.  ps-protocol(7) has the layouts. */

/* PULL and CLOCK: runs of partitions.  alone, of a CLOCK: what was pushed there does not
 * come through the relay that is told; servers may still have to wait for it. */
struct msg_run {
	uint16_t table;
	uint32_t first, count;
	bool alone;
};
#define MSG_RUN_BYTES 12
void msg_put_run(struct buf *b, const struct msg_run *r);
/* One partition more: the last run is made longer when it is the next. */
void msg_put_part(struct buf *b, uint16_t table, uint32_t part, bool alone);
/* The i-th run of a payload of len bytes; false past the end, and for the
 * number of a table that there cannot be. */
bool msg_get_run(const uint8_t *p, size_t len, size_t i, struct msg_run *out);
/* Does msg_get_run give all of them? */
bool msg_runs_valid(const uint8_t *p, size_t len);

/* RECEIPT: what became of pushes. */
struct msg_receipt {
	uint16_t table;
	uint8_t status;                 /* enum push_status */
	uint8_t copies;                 /* that have it */
	uint32_t part, staleness;
	uint64_t step, version;
};
#define MSG_RECEIPT_BYTES 32
void msg_put_receipt(struct buf *b, const struct msg_receipt *r);
bool msg_get_receipt(const uint8_t *p, size_t len, size_t i, struct msg_receipt *out);

/* COPIED: the receiver of COPY_* and the copies after it have everything of the
 * partition up to the record with this seq. */
struct msg_copied {
	uint16_t table;
	uint32_t part;
	uint64_t seq;
};
#define MSG_COPIED_BYTES 16
void msg_put_copied(struct buf *b, const struct msg_copied *c);
/* As msg_get_run. */
bool msg_get_copied(const uint8_t *p, size_t len, size_t i, struct msg_copied *out);

/* CTL: a text of any length, in as many records as it needs; those of several
 * have `offset` and `total`.  r: flags and seq. */
void msg_send_text(struct conn *c, const struct record *r, const char *text);
/* One of its records.  *whole: `text` has all of it, until the next call. */
enum err_code msg_get_text(struct buf *text, const struct record *r, const uint8_t *payload, bool *whole, struct err *e);
#define MSG_TEXT_MAX (UINT64_C(64) << 20)

/* NACK: a refusal, with err_code and a sentence (UTF-8; its first 500 bytes or
 * less).  What is read has no control characters. */
void msg_put_nack(struct buf *b, enum err_code code, const char *text);
enum err_code msg_get_nack(const uint8_t *p, size_t len, struct err *e);

/* PUSH_ROWS, SCANNED: this head with the number n of rows, n ids, n rows of
 * floats.  (PULL_ROWS is ids alone, ROWS floats alone.) */
#define MSG_ROWS_HEAD 8
void msg_put_rows_head(uint8_t *p, uint32_t n);
/* False unless len is exactly n ids and n * width floats. */
bool msg_get_rows(const uint8_t *p, size_t len, uint32_t width, uint32_t *n, const uint8_t **ids, const uint8_t **values);

/* The same head and ids, and whatever comes behind them. */
bool msg_get_ids(const uint8_t *p, size_t len, uint32_t *n, const uint8_t **ids, const uint8_t **rest);

/* BATCH: many small records under one tag: header (64 bytes), payload, zeroes
 * up to a multiple of 8, again and again.  False at the end, and with e->code
 * for what is none. */
bool msg_batch_next(const uint8_t *p, size_t len, size_t *at, struct record *r, const uint8_t **payload, struct err *e);

/* Gathers small records for one conn and sends them as a BATCH (or plainly
 * when there is but one).  Larger ones are sent at once, after what was
 * gathered: order is kept. */
#define BATCHER_SMALL 8192u
struct batcher {
	struct buf body;
	unsigned n;
	struct record first;
};
void batcher_release(struct batcher *b);
void batcher_add(struct batcher *b, struct conn *c, const struct record *r, const void *payload);
void batcher_flush(struct batcher *b, struct conn *c);
/* Without a copy of large ones: room for a payload of at most so many bytes, in the
 * conn's queue (until the next room) or `small`; then the record, its r->len bytes there. */
uint8_t *batcher_room(struct batcher *b, struct conn *c, size_t most, uint8_t small[static BATCHER_SMALL]);
void batcher_filled(struct batcher *b, struct conn *c, const struct record *r, const uint8_t *room, const uint8_t *small);

#endif
