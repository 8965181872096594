/* SPDX-License-Identifier: ISC */
#include "wire/payload.h"

#include "core/endian.h"

/* A BATCH is sent when it has grown to this, to bound latency and staging. */
#define BATCH_FULL         (256u << 10)
#define NACK_TEXT          500u
#define RUN_BYPASSES_RELAY 0x10000u

void payload_encode_run(uint8_t out[static PAYLOAD_RUN_BYTES], const struct payload_run *r)
{
	put_le32(out, r->table | (r->bypasses_relay ? RUN_BYPASSES_RELAY : 0));
	put_le32(out + 4, r->first);
	put_le32(out + 8, r->count);
}

void payload_put_part(struct buf *b, uint16_t table, uint32_t part, bool bypasses_relay)
{
	struct payload_run run;
	size_t n = b->len / PAYLOAD_RUN_BYTES;

	if (n && payload_get_run(b->data, b->len, n - 1, &run) && run.table == table &&
	    run.bypasses_relay == bypasses_relay && part - run.first == run.count) {
		put_le32(b->data + (n - 1) * PAYLOAD_RUN_BYTES + 8, run.count + 1);
		return;
	}
	run = (struct payload_run){ table, part, 1, bypasses_relay };
	payload_encode_run(buf_reserve(b, PAYLOAD_RUN_BYTES), &run);
	buf_commit(b, PAYLOAD_RUN_BYTES);
}

bool payload_get_run(const uint8_t *p, size_t len, size_t i, struct payload_run *out)
{
	if (len < PAYLOAD_RUN_BYTES || i > len / PAYLOAD_RUN_BYTES - 1)
		return false;
	p += i * PAYLOAD_RUN_BYTES;
	*out = (struct payload_run){ (uint16_t)get_le32(p), get_le32(p + 4), get_le32(p + 8),
		get_le32(p) & RUN_BYPASSES_RELAY };
	return get_le32(p) <= (RUN_BYPASSES_RELAY | UINT16_MAX);
}

bool payload_runs_valid(const uint8_t *p, size_t len)
{
	struct payload_run run;
	size_t n = 0;

	while (payload_get_run(p, len, n, &run))
		n++;
	return n * PAYLOAD_RUN_BYTES == len;
}

uint64_t payload_runs_parts(const uint8_t *p, size_t len)
{
	struct payload_run run;
	uint64_t parts = 0;

	for (size_t i = 0; payload_get_run(p, len, i, &run); i++)
		parts += run.count;
	return parts;
}

void payload_put_receipt(struct buf *b, const struct payload_receipt *r)
{
	uint8_t *p = buf_reserve(b, PAYLOAD_RECEIPT_BYTES);

	put_le16(p, r->table);
	p[2] = r->status;
	p[3] = r->replicas;
	put_le32(p + 4, r->part);
	put_le64(p + 8, r->step);
	put_le64(p + 16, r->version);
	put_le32(p + 24, r->staleness);
	put_le32(p + 28, 0);
	buf_commit(b, PAYLOAD_RECEIPT_BYTES);
}

bool payload_get_receipt(const uint8_t *p, size_t len, size_t i, struct payload_receipt *out)
{
	if (len < PAYLOAD_RECEIPT_BYTES || i > len / PAYLOAD_RECEIPT_BYTES - 1)
		return false;
	p += i * PAYLOAD_RECEIPT_BYTES;
	*out = (struct payload_receipt){ .table = get_le16(p),
		.status = p[2],
		.replicas = p[3],
		.part = get_le32(p + 4),
		.step = get_le64(p + 8),
		.version = get_le64(p + 16),
		.staleness = get_le32(p + 24) };
	return true;
}

void payload_put_replicated(struct buf *b, const struct payload_replicated *c)
{
	uint8_t *p = buf_reserve(b, PAYLOAD_REPLICATED_BYTES);

	put_le32(p, c->table);
	put_le32(p + 4, c->part);
	put_le64(p + 8, c->seq);
	buf_commit(b, PAYLOAD_REPLICATED_BYTES);
}

bool payload_get_replicated(const uint8_t *p, size_t len, size_t i, struct payload_replicated *out)
{
	if (len < PAYLOAD_REPLICATED_BYTES || i > len / PAYLOAD_REPLICATED_BYTES - 1)
		return false;
	p += i * PAYLOAD_REPLICATED_BYTES;
	*out = (struct payload_replicated){ (uint16_t)get_le32(p), get_le32(p + 4),
		get_le64(p + 8) };
	return get_le32(p) <= UINT16_MAX;
}

void payload_put_place(uint8_t out[static PAYLOAD_PLACE_BYTES], const struct payload_place *x)
{
	put_le32(out, x->place);
	put_le32(out + 4, x->bytes);
	put_le64(out + 8, x->state);
}

bool payload_get_place(const uint8_t *p, size_t len, struct payload_place *out)
{
	if (len != PAYLOAD_PLACE_BYTES)
		return false;
	*out = (struct payload_place){ get_le32(p), get_le32(p + 4), get_le64(p + 8) };
	return true;
}

void payload_send_text(struct conn *c, const struct record *r, const char *text)
{
	size_t total = strlen(text), at = 0;
	struct record out = *r;

	out.type = REC_CTL;
	out.total = total > RECORD_MAX ? total : 0;
	do {
		out.offset = at;
		out.len = (uint32_t)(total - at < RECORD_MAX ? total - at : RECORD_MAX);
		conn_send(c, &out, text + at);
		at += out.len;
	} while (at < total);
}

enum err_code payload_get_text(struct buf *text, const struct record *r, const uint8_t *payload,
    bool *whole, struct err *e)
{
	uint64_t total = r->total ? r->total : r->len;

	if (r->offset == 0)
		buf_clear(text);
	if (total > PAYLOAD_TEXT_MAX || r->offset != text->len || r->offset > total ||
	    r->len > total - r->offset)
		return err_set(e, ERR_PROTO, "a piece of a text does not fit the previous pieces");
	buf_append(text, r->len ? payload : (const uint8_t *)"", r->len);
	*whole = text->len == total;
	return ERR_OK;
}

void payload_put_nack(struct buf *b, enum err_code code, const char *text)
{
	uint8_t *p = buf_reserve(b, 4);
	size_t n = strnlen(text, NACK_TEXT + 1);

	put_le32(p, (uint32_t)code);
	buf_commit(b, 4);
	if (n > NACK_TEXT) /* cut at the beginning of a UTF-8 character */
		for (n = NACK_TEXT; n > 0 && ((uint8_t)text[n] & 0xc0) == 0x80; n--)
			;
	buf_append(b, text, n);
}

enum err_code payload_get_nack(const uint8_t *p, size_t len, struct err *e)
{
	char text[NACK_TEXT + 1];
	enum err_code code;
	size_t n;

	if (len < 4)
		return err_set(e, ERR_PROTO, "a refusal without a code");
	code = (enum err_code)get_le32(p);
	if (code == ERR_OK)
		code = ERR_PROTO;
	/* The text may go to a terminal: replace control characters. */
	for (n = 0; n < len - 4 && n < NACK_TEXT && p[4 + n]; n++)
		text[n] = (char)(p[4 + n] < 0x20 || p[4 + n] == 0x7f ? '?' : p[4 + n]);
	text[n] = 0;
	return err_set(e, code, "%s", text);
}

bool payload_push_rows_fit(uint32_t n, uint32_t cols, size_t encoded, bool counted)
{
	uint64_t body = PAYLOAD_ROWS_HEAD + (uint64_t)n * (counted ? 8 + PAYLOAD_COUNT_BYTES : 8) +
	    encoded;

	return (uint64_t)n * cols <= PAYLOAD_PUSH_ROWS_MOST / sizeof(float) &&
	    body + (uint64_t)n * cols * sizeof(float) <= PAYLOAD_PUSH_ROWS_MOST;
}

bool payload_counts_fit(const uint8_t *counts, uint32_t n, uint64_t most, uint32_t *row)
{
	for (*row = 0; *row < n; ++*row) {
		uint32_t count = get_le32(counts + (size_t)*row * PAYLOAD_COUNT_BYTES);

		if (!count || count > most)
			return false;
	}
	return true;
}

void payload_put_rows_head(uint8_t *p, uint32_t n)
{
	put_le32(p, n);
	put_le32(p + 4, 0);
}

bool payload_get_rows(const uint8_t *p, size_t len, uint32_t width, uint32_t *n,
    const uint8_t **ids, const uint8_t **values)
{
	uint64_t row = 8 + (uint64_t)width * 4;

	if (len < PAYLOAD_ROWS_HEAD)
		return false;
	*n = get_le32(p);
	len -= PAYLOAD_ROWS_HEAD;
	if (get_le32(p + 4) != 0 || len % row != 0 || len / row != *n)
		return false;
	*ids = p + PAYLOAD_ROWS_HEAD;
	*values = *ids + (size_t)*n * 8;
	return true;
}

bool payload_get_ids(const uint8_t *p, size_t len, uint32_t *n, const uint8_t **ids,
    const uint8_t **rest)
{
	if (len < PAYLOAD_ROWS_HEAD)
		return false;
	*n = get_le32(p);
	*ids = p + PAYLOAD_ROWS_HEAD;
	if (get_le32(p + 4) != 0 || (len - PAYLOAD_ROWS_HEAD) / 8 < *n)
		return false;
	*rest = *ids + (size_t)*n * 8;
	return true;
}

/* ---- batches ---- */

/* Rounds up to the alignment of entries in a BATCH. */
static size_t pad_to_8(size_t n)
{
	return (n + 7) & ~(size_t)7;
}

bool payload_batch_next(const uint8_t *p, size_t len, size_t *at, struct record *r,
    const uint8_t **payload, struct err *e)
{
	size_t left = len - *at, padded;

	if (e)
		*e = (struct err){ 0 };
	if (!left)
		return false;
	if (left < RECORD_HEADER) {
		err_set(e, ERR_PROTO, "a batch ends within a header");
		return false;
	}
	p += *at;
	if (record_decode(p, r, e))
		return false;
	padded = pad_to_8(r->len);
	if (r->type == REC_BATCH || r->type == REC_BYE || r->type == REC_SHARE ||
	    padded > left - RECORD_HEADER) {
		err_set(e, ERR_PROTO, "a %s record does not fit into its batch",
		    record_type_name(r->type));
		return false;
	}
	if (r->flags & RECORD_TO_CLIENT) {
		err_set(e, ERR_PROTO, "a %s record in a batch has another direction",
		    record_type_name(r->type));
		return false;
	}
	for (size_t i = r->len; i < padded; i++)
		if (p[RECORD_HEADER + i] != 0) {
			err_set(e, ERR_PROTO, "a %s record in a batch is not followed by zeroes",
			    record_type_name(r->type));
			return false;
		}
	*payload = p + RECORD_HEADER;
	*at += RECORD_HEADER + padded;
	return true;
}

void batcher_release(struct batcher *b)
{
	buf_release(&b->body);
}

void batcher_add(struct batcher *b, struct conn *c, const struct record *r, const void *payload)
{
	size_t padded = pad_to_8(r->len);
	uint8_t *p;

	if (r->len > BATCHER_SMALL) {
		batcher_flush(b, c);
		conn_send(c, r, payload);
		return;
	}
	if (b->body.len + RECORD_HEADER + padded > BATCH_FULL)
		batcher_flush(b, c);
	if (b->n++ == 0)
		b->first = *r;
	p = buf_reserve(&b->body, RECORD_HEADER + padded);
	record_encode(r, p);
	memset(p + RECORD_HEADER + r->len, 0, padded - r->len);
	if (r->len)
		memcpy(p + RECORD_HEADER, payload, r->len);
	buf_commit(&b->body, RECORD_HEADER + padded);
}

void batcher_flush(struct batcher *b, struct conn *c)
{
	struct record head = { .type = REC_BATCH, .len = (uint32_t)b->body.len };

	if (b->n == 1)
		conn_send(c, &b->first, b->body.data + RECORD_HEADER);
	else if (b->n)
		conn_send(c, &head, b->body.data);
	buf_clear(&b->body);
	b->n = 0;
}

uint8_t *batcher_reserve(struct batcher *b, struct conn *c, size_t most,
    uint8_t small[static BATCHER_SMALL])
{
	if (most <= BATCHER_SMALL)
		return small;
	/* Send the gathered records first, to keep the order. */
	batcher_flush(b, c);
	return conn_reserve(c, (uint32_t)most);
}

void batcher_commit(struct batcher *b, struct conn *c, const struct record *r, const uint8_t *room,
    const uint8_t *small)
{
	if (room == small)
		batcher_add(b, c, r, room);
	else
		conn_commit(c, r);
}

/* Copies n bytes, from byte `at` of both parts on. */
static void copy_parts(uint8_t *to, const struct batcher_parts *x, uint64_t at, size_t n)
{
	size_t of_head = at >= x->nhead ? 0 : x->nhead - at < n ? (size_t)(x->nhead - at) : n;

	if (of_head)
		memcpy(to, x->head + at, of_head);
	if (n > of_head)
		memcpy(to + of_head, x->body + (at + of_head - x->nhead), n - of_head);
}

void batcher_send_parts(struct batcher *b, struct conn *c, const struct record *r,
    const struct batcher_parts *parts)
{
	struct record out = *r;
	uint8_t small[BATCHER_SMALL];

	out.total = parts->nhead + parts->nbody;
	for (uint64_t at = 0; at < out.total; at += out.len) {
		uint8_t *to;

		out.offset = at;
		out.len = out.total - at < RECORD_MAX ? (uint32_t)(out.total - at) : RECORD_MAX;
		to = batcher_reserve(b, c, out.len, small);
		copy_parts(to, parts, at, out.len);
		batcher_commit(b, c, &out, to, small);
	}
}
