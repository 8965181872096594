#include "codec/keys.h"

#include <sodium.h>
#include <string.h>

#include "base/endian.h"

#define PLACE64 10u             /* bytes of the longest LEB128 */

bool keys_ascend(const uint64_t *ids, size_t n)
{
	for (size_t i = 1; i < n; i++)
		if (ids[i] <= ids[i - 1])
			return false;
	return true;
}

void keys_name(const uint64_t *ids, size_t n, uint8_t name[static KEYS_NAME])
{
	static const uint8_t key[crypto_shorthash_siphashx24_KEYBYTES] = "pskit row ids";

	crypto_shorthash_siphashx24(name, (const uint8_t *)ids, n * sizeof *ids, key);
}

static size_t padded(size_t n)
{
	return (n + 7) / 8 * 8;
}

size_t keys_bound(size_t n)
{
	return KEYS_HEAD + padded(n * PLACE64);
}

static size_t finish(uint8_t *out, size_t n, enum keys_form form, bool keep, size_t len)
{
	memset(out, 0, KEYS_HEAD);
	put_le32(out, (uint32_t)n);
	out[4] = (uint8_t)form;
	out[5] = keep;
	put_le32(out + 8, (uint32_t)len);
	memset(out + KEYS_HEAD + len, 0, padded(len) - len);
	return KEYS_HEAD + padded(len);
}

size_t keys_put(struct zip *z, const uint64_t *ids, size_t n, bool keep, uint8_t *out)
{
	uint8_t *at = out + KEYS_HEAD;
	size_t len, zipped;
	uint64_t next = 0;

	for (size_t i = 0; i < n; i++) {
		uint64_t gap = ids[i] - next;

		for (; gap >= 0x80; gap >>= 7)
			*at++ = (uint8_t)(gap | 0x80);
		*at++ = (uint8_t)gap;
		next = ids[i] + 1;
	}
	len = (size_t)(at - out) - KEYS_HEAD;
	zipped = zip_shrink(z, out + KEYS_HEAD, len);
	return finish(out, n, zipped ? KEYS_ZIPPED : KEYS_PACKED, keep, zipped ? zipped : len);
}

size_t keys_put_name(const uint8_t name[static KEYS_NAME], size_t n, uint8_t *out)
{
	memcpy(out + KEYS_HEAD, name, KEYS_NAME);
	return finish(out, n, KEYS_NAMED, false, KEYS_NAME);
}

bool keys_parse(const uint8_t *p, size_t len, struct keys_block *out)
{
	size_t bytes;

	if (len < KEYS_HEAD)
		return false;
	bytes = get_le32(p + 8);
	*out = (struct keys_block){ .n = get_le32(p), .len = (uint32_t)bytes, .form = p[4], .keep = p[5], .bytes = p + KEYS_HEAD,
		.whole = KEYS_HEAD + padded(bytes) };
	return out->form >= KEYS_PACKED && out->form <= KEYS_NAMED && p[5] <= 1 && out->whole <= len &&
	    (out->form != KEYS_NAMED || bytes == KEYS_NAME);
}

/* The next id; false at what is none. */
static bool next_id(const uint8_t **p, const uint8_t *end, uint64_t *next, bool first, uint64_t *id)
{
	uint64_t gap = 0;

	for (unsigned shift = 0; *p < end && shift < 64; shift += 7) {
		uint8_t b = *(*p)++;

		if (shift == 63 && b > 1)
			return false;
		gap |= (uint64_t)(b & 0x7f) << shift;
		if (b >= 0x80)
			continue;
		*id = *next + gap;
		/* Beyond the largest, or behind it. */
		if ((b == 0 && shift > 0) || *id < gap || (!first && *next == 0))
			return false;
		*next = *id + 1;
		return true;
	}
	return false;
}

bool keys_get(struct zip *z, const struct keys_block *b, uint64_t *ids)
{
	const uint8_t *p = b->bytes, *end = p + b->len;
	size_t got;
	uint64_t next = 0;

	if (b->form == KEYS_ZIPPED) {
		p = zip_expand(z, b->bytes, b->len, (size_t)b->n * PLACE64, &got);
		if (!p)
			return false;
		end = p + got;
	}
	for (uint32_t i = 0; i < b->n; i++)
		if (!next_id(&p, end, &next, i == 0, &ids[i]))
			return false;
	return p == end;
}
