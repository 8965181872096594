/* SPDX-License-Identifier: ISC */
#include "codec/delta.h"

#include <string.h>

#include "codec/places.h"
#include "core/endian.h"
#include "core/mem.h"

#define HEAD 8u
/* Values decoded at once, on the stack (256 KiB). */
#define VALUES 65536u

static size_t padded_to_4(size_t n)
{
	return (n + 3) / 4 * 4;
}

/* A place needs a second byte only when 128 rows before it are left out, and so on. */
size_t delta_bound(const struct codec *c, size_t k, size_t n, size_t width)
{
	return HEAD + padded_to_4(k + n / 128) + c->bound(0, k * width);
}

size_t delta_encode(const struct codec *c, const uint32_t *place, const float *x, size_t k,
    size_t width, uint8_t *out)
{
	uint8_t *at = out + HEAD, *values;
	size_t next = 0;

	for (size_t i = 0; i < k; i++) {
		at = places_put(at, (uint32_t)(place[i] - next));
		next = (size_t)place[i] + 1;
	}
	put_le32(out, (uint32_t)k);
	put_le32(out + 4, (uint32_t)(at - out - HEAD));
	values = out + HEAD + padded_to_4((size_t)(at - out) - HEAD);
	memset(at, 0, (size_t)(values - at));
	return (size_t)(values - out) + c->encode(0, NULL, x, k * width, values);
}

/* Offset of the values; 0 when it is after the end. */
static size_t values_at(const uint8_t *p, size_t len)
{
	size_t places = len < HEAD ? len : get_le32(p + 4);

	return len < HEAD || places > len - HEAD || HEAD + padded_to_4(places) > len
	    ? 0
	    : HEAD + padded_to_4(places);
}

/* The padding between places and values must be zeroes. `at` walks through it after the last place,
 * and ends at the values only if the places filled exactly the length that the head states. */
enum codec_check delta_check(const struct codec *c, const uint8_t *p, size_t len, size_t n,
    size_t width)
{
	const uint8_t *at = p + HEAD, *end;
	size_t values = values_at(p, len), k, next = 0;

	if (!values)
		return CODEC_MALFORMED;
	k = get_le32(p);
	end = at + get_le32(p + 4);
	if (k > n)
		return CODEC_MALFORMED;
	for (size_t i = 0; i < k; i++) {
		next = places_get(&at, end, next, n) + 1;
		if (next > n)
			return CODEC_MALFORMED;
	}
	while (at == end && end < p + values)
		if (*end++)
			return CODEC_MALFORMED;
		else
			at++;
	return at == p + values ? c->check(p + values, len - values, k * width) : CODEC_MALFORMED;
}

void delta_apply(const struct codec *c, const uint8_t *p, size_t len, size_t n, size_t width,
    const uint32_t *pos, float *x)
{
	const uint8_t *at = p + HEAD, *end = at + get_le32(p + 4);
	size_t values = values_at(p, len), k = get_le32(p), next = 0;
	float small[VALUES],
	    *large = k * width > VALUES && !c->raw_values ? mem_array(k * width, sizeof *large)
	                                                  : NULL;
	const float *v = codec_decode(c, p + values, len - values, k * width,
	    large ? large : small);

	for (size_t i = 0; i < k; i++, v += width) {
		size_t place = places_get(&at, end, next, n);

		memcpy(x + (pos ? pos[place] : place) * width, v, width * sizeof *x);
		next = place + 1;
	}
	free(large);
}
