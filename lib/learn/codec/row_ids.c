/* SPDX-License-Identifier: ISC */
#include "codec/row_ids.h"

#include <sodium.h>
#include <string.h>

#include "core/endian.h"

#define PLACE64 10u /* most bytes of a number in LEB128 */

/* Number of ids compared between two checks of the result. */
#define PIECE 256u

bool row_ids_ascend(const uint64_t *ids, size_t n)
{
	bool good = true;

	for (size_t at = 1; good && at < n; at += PIECE) {
		size_t end = n - at < PIECE ? n : at + PIECE;

		for (size_t i = at; i < end; i++)
			good &= ids[i] > ids[i - 1];
	}
	return good;
}

void row_ids_name(const uint64_t *ids, size_t n, uint8_t name[static ROW_IDS_NAME])
{
	static const uint8_t key[crypto_shorthash_siphashx24_KEYBYTES] = "pskit row ids";

	crypto_shorthash_siphashx24(name, (const uint8_t *)ids, n * sizeof *ids, key);
}

static size_t padded_to_8(size_t n)
{
	return (n + 7) / 8 * 8;
}

size_t row_ids_bound(size_t n)
{
	return ROW_IDS_HEAD + padded_to_8(n * PLACE64);
}

static size_t finish_block(uint8_t *out, size_t n, enum row_ids_form form, bool keep, size_t len)
{
	memset(out, 0, ROW_IDS_HEAD);
	put_le32(out, (uint32_t)n);
	out[4] = (uint8_t)form;
	out[5] = keep;
	put_le32(out + 8, (uint32_t)len);
	memset(out + ROW_IDS_HEAD + len, 0, padded_to_8(len) - len);
	return ROW_IDS_HEAD + padded_to_8(len);
}

/* Spreads a number of up to 56 bits to 7 bits a byte, lowest first; gather_7_bits does the
 * reverse. */
static uint64_t spread_7_bits(uint64_t x)
{
	x = (x & UINT64_C(0x000000000fffffff)) | (x & UINT64_C(0x00fffffff0000000)) << 4;
	x = (x & UINT64_C(0x00003fff00003fff)) | (x & UINT64_C(0x0fffc0000fffc000)) << 2;
	return (x & UINT64_C(0x007f007f007f007f)) | (x & UINT64_C(0x3f803f803f803f80)) << 1;
}

static uint64_t gather_7_bits(uint64_t x)
{
	x = (x & UINT64_C(0x007f007f007f007f)) | (x & UINT64_C(0x7f007f007f007f00)) >> 1;
	x = (x & UINT64_C(0x00003fff00003fff)) | (x & UINT64_C(0x3fff00003fff0000)) >> 2;
	return (x & UINT64_C(0x000000000fffffff)) | (x & UINT64_C(0x0fffffff00000000)) >> 4;
}

#define GOES_ON UINT64_C(0x8080808080808080)

/* Writes a gap. The caller has room for 10 bytes. */
static uint8_t *put_gap(uint8_t *at, uint64_t gap)
{
	/* number of bytes minus 1 */
	unsigned n = (unsigned)(63 - __builtin_clzll(gap | 1)) / 7;

	if (n < 8) {
		put_le64(at, spread_7_bits(gap) | (GOES_ON & ((UINT64_C(1) << 8 * n) - 1)));
		return at + n + 1;
	}
	for (; gap >= 0x80; gap >>= 7)
		*at++ = (uint8_t)(gap | 0x80);
	*at++ = (uint8_t)gap;
	return at;
}

size_t row_ids_put(struct zip *z, const uint64_t *ids, size_t n, bool keep, uint8_t *out)
{
	uint8_t *at = out + ROW_IDS_HEAD;
	size_t len, zipped;
	uint64_t next = 0;

	for (size_t i = 0; i < n; i++) {
		at = put_gap(at, ids[i] - next);
		next = ids[i] + 1;
	}
	len = (size_t)(at - out) - ROW_IDS_HEAD;
	zipped = zip_shrink(z, out + ROW_IDS_HEAD, len);
	return finish_block(out, n, zipped ? ROW_IDS_ZIPPED : ROW_IDS_PACKED, keep,
	    zipped ? zipped : len);
}

size_t row_ids_put_name(const uint8_t name[static ROW_IDS_NAME], size_t n, uint8_t *out)
{
	memcpy(out + ROW_IDS_HEAD, name, ROW_IDS_NAME);
	return finish_block(out, n, ROW_IDS_NAMED, false, ROW_IDS_NAME);
}

bool row_ids_parse(const uint8_t *p, size_t len, struct row_ids_block *out)
{
	size_t bytes;

	if (len < ROW_IDS_HEAD)
		return false;
	bytes = get_le32(p + 8);
	*out = (struct row_ids_block){ .n = get_le32(p),
		.len = (uint32_t)bytes,
		.form = p[4],
		.keep = p[5],
		.bytes = p + ROW_IDS_HEAD,
		.whole = ROW_IDS_HEAD + padded_to_8(bytes) };
	return out->form >= ROW_IDS_PACKED && out->form <= ROW_IDS_NAMED && p[5] <= 1 &&
	    out->whole <= len && (out->form != ROW_IDS_NAMED || bytes == ROW_IDS_NAME);
}

/* Reads a gap and its number of bytes; false when it is malformed. */
static bool get_gap(const uint8_t *p, const uint8_t *end, uint64_t *gap, unsigned *n)
{
	unsigned shift = 0;

	*gap = 0;
	for (*n = 0; p < end && shift < 64; shift += 7) {
		uint8_t b = *p++;

		++*n;
		if (shift == 63 && b > 1)
			return false;
		*gap |= (uint64_t)(b & 0x7f) << shift;
		if (b < 0x80)
			/* Only the shortest form is valid. */
			return b || shift == 0;
	}
	return false;
}

/* A fast version for gaps that end within 8 bytes; *n 0: use get_gap. False as get_gap. */
static bool get_short(const uint8_t *p, const uint8_t *end, uint64_t *gap, unsigned *n)
{
	uint64_t x, ends;
	unsigned bits;

	*n = 0;
	if (end - p < 8)
		return true;
	x = get_le64(p);
	ends = ~x & GOES_ON;
	if (!ends)
		return true;
	bits = (unsigned)__builtin_ctzll(ends); /* 7, 15 .. 63 */
	*n = bits / 8 + 1;
	x &= ends ^ (ends - 1);
	*gap = gather_7_bits(x & ~GOES_ON);
	return bits == 7 || x >> (bits - 7);
}

/* The decompressed length is bounded by n times the longest place before anything is expanded, so a
 * small block cannot demand much memory. An id is the previous one plus 1 plus the gap; after the
 * id 2^64 - 1 `next` wraps to 0, and any further id is refused. */
bool row_ids_get(struct zip *z, const struct row_ids_block *b, uint64_t *ids)
{
	const uint8_t *p = b->bytes, *end = p + b->len;
	size_t got;
	uint64_t next = 0;

	if (b->form == ROW_IDS_ZIPPED) {
		p = zip_expand(z, b->bytes, b->len, (size_t)b->n * PLACE64, &got);
		if (!p)
			return false;
		end = p + got;
	}
	for (uint32_t i = 0; i < b->n; i++) {
		uint64_t gap = 0;
		unsigned n;

		if (!get_short(p, end, &gap, &n) || (!n && !get_gap(p, end, &gap, &n)))
			return false;
		p += n;
		ids[i] = next + gap;
		/* Overflow beyond the largest id, or after it. */
		if (ids[i] < gap || (i && !next))
			return false;
		next = ids[i] + 1;
	}
	return p == end;
}
