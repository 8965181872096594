#include "wire/msg.h"

#include "base/endian.h"

/* A BATCH is sent when it has grown to this, to bound latency and staging. */
#define BATCH_FULL (256u << 10)

void msg_put_run(struct buf *b, const struct msg_run *r)
{
	uint8_t *p = buf_reserve(b, MSG_RUN_BYTES);

	put_le32(p, r->table);
	put_le32(p + 4, r->first);
	put_le32(p + 8, r->count);
	buf_commit(b, MSG_RUN_BYTES);
}

bool msg_get_run(const uint8_t *p, size_t len, size_t i, struct msg_run *out)
{
	if (len < MSG_RUN_BYTES || i > len / MSG_RUN_BYTES - 1)
		return false;
	p += i * MSG_RUN_BYTES;
	*out = (struct msg_run){ (uint16_t)get_le32(p), get_le32(p + 4), get_le32(p + 8) };
	return true;
}

bool msg_runs_valid(size_t len)
{
	return len % MSG_RUN_BYTES == 0;
}

void msg_put_receipt(struct buf *b, const struct msg_receipt *r)
{
	uint8_t *p = buf_reserve(b, MSG_RECEIPT_BYTES);

	put_le16(p, r->table);
	p[2] = r->status;
	p[3] = 0;
	put_le32(p + 4, r->part);
	put_le64(p + 8, r->step);
	put_le64(p + 16, r->version);
	put_le32(p + 24, r->staleness);
	put_le32(p + 28, 0);
	buf_commit(b, MSG_RECEIPT_BYTES);
}

bool msg_get_receipt(const uint8_t *p, size_t len, size_t i, struct msg_receipt *out)
{
	if (len < MSG_RECEIPT_BYTES || i > len / MSG_RECEIPT_BYTES - 1)
		return false;
	p += i * MSG_RECEIPT_BYTES;
	*out = (struct msg_receipt){ .table = get_le16(p), .status = p[2], .part = get_le32(p + 4),
		.step = get_le64(p + 8), .version = get_le64(p + 16), .staleness = get_le32(p + 24) };
	return true;
}

void msg_put_nack(struct buf *b, enum err_code code, const char *text)
{
	uint8_t *p = buf_reserve(b, 4);

	put_le32(p, (uint32_t)code);
	buf_commit(b, 4);
	buf_append(b, text, strnlen(text, 500));
}

enum err_code msg_get_nack(const uint8_t *p, size_t len, struct err *e)
{
	enum err_code code;

	if (len < 4)
		return err_set(e, ERR_PROTO, "a refusal without a code");
	code = (enum err_code)get_le32(p);
	if (code == ERR_OK)
		code = ERR_PROTO;
	return err_set(e, code, "%.*s", (int)(len - 4), (const char *)p + 4);
}

void msg_put_rows_head(uint8_t *p, uint32_t n)
{
	put_le32(p, n);
	put_le32(p + 4, 0);
}

bool msg_get_rows(const uint8_t *p, size_t len, uint32_t width, uint32_t *n, const uint8_t **ids, const uint8_t **values)
{
	if (len < MSG_ROWS_HEAD)
		return false;
	*n = get_le32(p);
	if (get_le32(p + 4) != 0 || (len - MSG_ROWS_HEAD) != (uint64_t)*n * (8 + (uint64_t)width * 4))
		return false;
	*ids = p + MSG_ROWS_HEAD;
	*values = *ids + (size_t)*n * 8;
	return true;
}

/* ---- batches ---------------------------------------------------------------- */

static size_t padded(size_t n)
{
	return (n + 7) & ~(size_t)7;
}

bool msg_batch_next(const uint8_t *p, size_t len, size_t *at, struct record *r, const uint8_t **payload, struct err *e)
{
	if (*at == len)
		return false;
	if (len - *at < RECORD_HEADER || record_decode(p + *at, r, e)) {
		if (e && !e->code)
			err_set(e, ERR_PROTO, "a batch that ends within a header");
		return false;
	}
	if (r->type == REC_BATCH || r->type == REC_BYE || padded(r->len) > len - *at - RECORD_HEADER) {
		err_set(e, ERR_PROTO, "a %s record does not fit into its batch", record_type_name(r->type));
		return false;
	}
	*payload = p + *at + RECORD_HEADER;
	*at += RECORD_HEADER + padded(r->len);
	return true;
}

void batcher_release(struct batcher *b)
{
	buf_release(&b->body);
}

void batcher_add(struct batcher *b, struct conn *c, const struct record *r, const void *payload)
{
	uint8_t *p;

	if (r->len > BATCHER_SMALL) {
		batcher_flush(b, c);
		conn_send(c, r, payload);
		return;
	}
	if (b->body.len + RECORD_HEADER + padded(r->len) > BATCH_FULL)
		batcher_flush(b, c);
	if (b->n++ == 0)
		b->first = *r;
	p = buf_reserve(&b->body, RECORD_HEADER + padded(r->len));
	record_encode(r, p);
	memset(p + RECORD_HEADER + r->len, 0, padded(r->len) - r->len);
	if (r->len)
		memcpy(p + RECORD_HEADER, payload, r->len);
	buf_commit(&b->body, RECORD_HEADER + padded(r->len));
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
