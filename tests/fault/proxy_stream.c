/* SPDX-License-Identifier: ISC */
#include "auth/handshake.h"
#include "core/endian.h"
#include "tests/fault/proxy.h"
#include "wire/record.h"

/* ps-protocol(7): a header begins with magic and length in clear text, in every cipher suite. */
#define MAGIC     "PSR1"
#define AT_LENGTH 8

void stream_init(struct stream *s, struct faults *f, enum side side)
{
	*s = (struct stream){ .faults = f,
		.side = side,
		.left = side == UP ? HS_MSG1_BYTES : HS_HELLO_BYTES + HS_MSG2_BYTES };
}

void stream_release(struct stream *s)
{
	buf_release(&s->header);
	buf_release(&s->record);
	buf_release(&s->swapped);
}

static enum fault choose_fault(struct stream *s)
{
	struct faults *f = s->faults;

	f->records[s->side]++;
	if (f->what == FAULT_NONE || (f->side != BOTH && f->side != s->side) || --f->left)
		return FAULT_NONE;
	return f->what;
}

/* Begins a record whose header is complete.  Returns false when it is no header. */
static bool begin_stream_record(struct stream *s, struct buf *out)
{
	uint32_t len = get_le32(s->header.data + AT_LENGTH);

	if (memcmp(s->header.data, MAGIC, 4) != 0 || len > RECORD_MAX) {
		buf_append(out, s->header.data, s->header.len);
		return false;
	}
	s->left = RECORD_TAG + (len ? len + RECORD_TAG : 0);
	s->now = choose_fault(s);
	buf_append(s->now == FAULT_NONE ? out : &s->record, s->header.data, s->header.len);
	buf_clear(&s->header);
	return true;
}

static void flip_bit(struct stream *s)
{
	uint64_t bit = rng_below(&s->faults->rng, s->record.len * 8);

	s->record.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
}

/* Ends a record that is complete: sends it, with its fault if it has one. */
static void end_stream_record(struct stream *s, struct buf *out)
{
	if (s->now == FAULT_NONE) {
		if (s->swapped.len)
			buf_append(out, s->swapped.data, s->swapped.len);
		buf_clear(&s->swapped);
		return;
	}
	s->faults->done++;
	s->faults->what = FAULT_NONE;
	if (s->now == FAULT_FLIP)
		flip_bit(s);
	if (s->now == FAULT_SWAP)
		buf_append(&s->swapped, s->record.data, s->record.len);
	if (s->now == FAULT_FLIP || s->now == FAULT_DUP)
		buf_append(out, s->record.data, s->record.len);
	if (s->now == FAULT_DUP)
		buf_append(out, s->record.data, s->record.len);
	buf_clear(&s->record);
}

static size_t smaller_size(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Takes a first part of the n bytes at p, by the state.  Returns its length. */
static size_t take_bytes(struct stream *s, const uint8_t *p, size_t n, struct buf *out)
{
	size_t k = n;

	switch (s->state) {
	case AT_HELLO:
		if (!s->begun && p[0] != 'P') {
			s->state = OPAQUE;
			return 0;
		}
		s->begun = true;
		k = smaller_size(n, s->left);
		buf_append(out, p, k);
		s->left -= k;
		if (!s->left)
			s->state = AT_HEADER;
		return k;
	case AT_HEADER:
		k = smaller_size(n, RECORD_HEADER - s->header.len);
		buf_append(&s->header, p, k);
		if (s->header.len == RECORD_HEADER)
			s->state = begin_stream_record(s, out) ? IN_BODY : OPAQUE;
		return k;
	case IN_BODY:
		k = smaller_size(n, s->left);
		buf_append(s->now == FAULT_NONE ? out : &s->record, p, k);
		s->left -= k;
		if (!s->left) {
			end_stream_record(s, out);
			s->state = AT_HEADER;
		}
		return k;
	case OPAQUE:
		buf_append(out, p, n);
		break;
	}
	return k;
}

void stream_feed(struct stream *s, const uint8_t *p, size_t n, struct buf *out)
{
	for (size_t at = 0; at < n;)
		at += take_bytes(s, p + at, n - at, out);
}
