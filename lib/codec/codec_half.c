#include <string.h>

#include "base/endian.h"
#include "codec/codec.h"

/* Two bytes a value: IEEE 754 binary16 (f16), or the upper half of a float32
 * (bf16).  Rounded to nearest, ties to even; what is too large becomes the largest,
 * and with feedback the rest follows. */

extern const struct codec codec_f16, codec_bf16;

#define F16_MAX 0x7bffu
#define F16_INF 0x7c00u
#define BF16_MAX 0x7f7fu
#define BF16_INF 0x7f80u
/* |x| below 2^84, as vec_all_bounded: exponents of bfloat16. */
#define BF16_BOUND ((127u + 84u) << 7)

static uint32_t bits_of(float x)
{
	uint32_t u;

	memcpy(&u, &x, sizeof u);
	return u;
}

static float of_bits(uint32_t u)
{
	float x;

	memcpy(&x, &u, sizeof x);
	return x;
}

static uint16_t to_f16(float x)
{
	uint32_t u = bits_of(x), sign = u >> 16 & 0x8000, a = u & 0x7fffffff, h;

	if (a >= 0x7f800000)
		return (uint16_t)(sign | F16_INF);
	if (a >= 0x477ff000)            /* 65520 and above */
		return (uint16_t)(sign | F16_MAX);
	if (a < 0x38800000)             /* below 2^-14: the sum rounds */
		h = bits_of(of_bits(a) + 0.5f) - bits_of(0.5f);
	else
		h = (a - ((127u - 15u) << 23) + 0xfff + (a >> 13 & 1)) >> 13;
	return (uint16_t)(sign | h);
}

static float from_f16(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, m = h & 0x7fff;

	if (m < 0x400)
		return of_bits(sign | bits_of((float)m * 0x1p-24f));
	return of_bits(sign | ((m << 13) + ((127u - 15u) << 23)));
}

static uint16_t to_bf16(float x)
{
	uint32_t u = bits_of(x), sign = u >> 16 & 0x8000, a = u & 0x7fffffff, h = (a + 0x7fff + (a >> 16 & 1)) >> 16;

	if (a >= 0x7f800000)
		return (uint16_t)(sign | BF16_INF);
	return (uint16_t)(sign | (h < BF16_INF ? h : BF16_MAX));
}

static float from_bf16(uint16_t h)
{
	return of_bits((uint32_t)h << 16);
}

static size_t half_bound(double arg, size_t n)
{
	(void)arg;
	return n * 2;
}

static size_t f16_encode(double arg, struct rng *rng, const float *x, size_t n, uint8_t *out)
{
	(void)arg;
	(void)rng;
	for (size_t i = 0; i < n; i++)
		put_le16(out + 2 * i, to_f16(x[i]));
	return n * 2;
}

static size_t bf16_encode(double arg, struct rng *rng, const float *x, size_t n, uint8_t *out)
{
	(void)arg;
	(void)rng;
	for (size_t i = 0; i < n; i++)
		put_le16(out + 2 * i, to_bf16(x[i]));
	return n * 2;
}

static enum codec_check check_below(const uint8_t *p, size_t len, size_t n, uint32_t limit)
{
	uint32_t over = 0;

	if (len != n * 2)
		return CODEC_MALFORMED;
	for (size_t i = 0; i < n; i++)
		over |= (get_le16(p + 2 * i) & 0x7fffu) >= limit;
	return over ? CODEC_UNBOUNDED : CODEC_GOOD;
}

static enum codec_check f16_check(const uint8_t *p, size_t len, size_t n)
{
	return check_below(p, len, n, F16_INF);
}

static enum codec_check bf16_check(const uint8_t *p, size_t len, size_t n)
{
	return check_below(p, len, n, BF16_BOUND);
}

static void f16_add(const uint8_t *p, size_t len, size_t n, float weight, float *sum)
{
	(void)len;
	for (size_t i = 0; i < n; i++)
		sum[i] += weight * from_f16(get_le16(p + 2 * i));
}

static void bf16_add(const uint8_t *p, size_t len, size_t n, float weight, float *sum)
{
	(void)len;
	for (size_t i = 0; i < n; i++)
		sum[i] += weight * from_bf16(get_le16(p + 2 * i));
}

const struct codec codec_f16 = {
	.name = "f16",
	.help = "IEEE half precision, 2 bytes a value",
	.id = 1,
	.lossy = true,
	.pulls = true,
	.bound = half_bound,
	.encode = f16_encode,
	.check = f16_check,
	.add = f16_add,
};

const struct codec codec_bf16 = {
	.name = "bf16",
	.help = "the upper half of float32, 2 bytes a value",
	.id = 2,
	.lossy = true,
	.pulls = true,
	.bound = half_bound,
	.encode = bf16_encode,
	.check = bf16_check,
	.add = bf16_add,
};
