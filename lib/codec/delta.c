#include "codec/delta.h"

#include <string.h>

#include "base/endian.h"
#include "codec/places.h"

#define HEAD 8u
#define VALUES 65536u

static size_t padded(size_t n)
{
	return (n + 3) / 4 * 4;
}

size_t delta_bound(const struct codec *c, size_t k)
{
	return HEAD + padded(k * PLACE_BYTES) + c->bound(0, k);
}

size_t delta_encode(const struct codec *c, const uint16_t *place, const float *x, size_t k, uint8_t *out)
{
	uint8_t *at = out + HEAD, *values;
	size_t next = 0;

	for (size_t i = 0; i < k; i++) {
		at = place_put(at, (uint32_t)(place[i] - next));
		next = (size_t)place[i] + 1;
	}
	put_le32(out, (uint32_t)k);
	put_le32(out + 4, (uint32_t)(at - out - HEAD));
	values = out + HEAD + padded((size_t)(at - out) - HEAD);
	memset(at, 0, (size_t)(values - at));
	return (size_t)(values - out) + c->encode(0, NULL, x, k, values);
}

/* Where the values begin; 0 when that is behind the end. */
static size_t values_at(const uint8_t *p, size_t len)
{
	size_t places = len < HEAD ? len : get_le32(p + 4);

	return len < HEAD || places > len - HEAD || HEAD + padded(places) > len ? 0 : HEAD + padded(places);
}

enum codec_check delta_check(const struct codec *c, const uint8_t *p, size_t len, size_t n)
{
	const uint8_t *at = p + HEAD, *end;
	size_t values = values_at(p, len), k, next = 0;

	if (!values || n > VALUES)
		return CODEC_MALFORMED;
	k = get_le32(p);
	end = at + get_le32(p + 4);
	if (k > n)
		return CODEC_MALFORMED;
	for (size_t i = 0; i < k; i++) {
		next = place_get(&at, end, next, n) + 1;
		if (next > n)
			return CODEC_MALFORMED;
	}
	while (at == end && end < p + values)
		if (*end++)
			return CODEC_MALFORMED;
		else
			at++;
	return at == p + values ? c->check(p + values, len - values, k) : CODEC_MALFORMED;
}

void delta_apply(const struct codec *c, const uint8_t *p, size_t len, size_t n, float *x)
{
	const uint8_t *at = p + HEAD, *end = at + get_le32(p + 4);
	size_t values = values_at(p, len), k = get_le32(p), next = 0;
	float room[VALUES];
	const float *v = codec_values(c, p + values, len - values, k, room);

	for (size_t i = 0; i < k; i++) {
		size_t place = place_get(&at, end, next, n);

		x[place] = v[i];
		next = place + 1;
	}
}
