/* SPDX-License-Identifier: ISC */
#include <string.h>

#include "codec/codec.h"
#include "math/clones.h"
#include "math/half.h"

/* Two bytes a value: IEEE 754 binary16 (f16), or the upper half of a float32 (bf16). Rounded to
 * nearest, ties to even. Too large values become the largest one; with feedback the rest follows
 * later. */

extern const struct codec codec_f16, codec_bf16;

/* The bound of vec_all_bounded, |x| < 2^84, as a bfloat16. */
#define BF16_BOUND ((127u + 84u) << 7)

/* As put_le16 and get_le16, but with one move each: compilers do not vectorize single bytes. */
static inline void put_half(uint8_t *p, uint16_t h)
{
	memcpy(p, &h, sizeof h);
}

static inline uint16_t get_half(const uint8_t *p)
{
	uint16_t h;

	memcpy(&h, p, sizeof h);
	return h;
}

KERN_CLONES static void pack_f16(size_t n, const float *restrict x, uint8_t *restrict out)
{
	for (size_t i = 0; i < n; i++)
		put_half(out + 2 * i, half_to_f16(x[i]));
}

KERN_CLONES static void pack_bf16(size_t n, const float *restrict x, uint8_t *restrict out)
{
	for (size_t i = 0; i < n; i++)
		put_half(out + 2 * i, half_to_bf16(x[i]));
}

KERN_CLONES static void sum_f16(size_t n, const uint8_t *restrict p, float weight,
    float *restrict sum)
{
	for (size_t i = 0; i < n; i++)
		sum[i] += weight * half_from_f16(get_half(p + 2 * i));
}

KERN_CLONES static void sum_bf16(size_t n, const uint8_t *restrict p, float weight,
    float *restrict sum)
{
	for (size_t i = 0; i < n; i++)
		sum[i] += weight * half_from_bf16(get_half(p + 2 * i));
}

/* Is any |h| at or above the limit? The addition carries into the sign bit then. */
KERN_CLONES static bool any_from(size_t n, const uint8_t *p, uint16_t limit)
{
	uint16_t any = 0, add = (uint16_t)(0x8000 - limit);

	for (size_t i = 0; i < n; i++)
		any |= (uint16_t)((get_half(p + 2 * i) & 0x7fff) + add);
	return any >> 15;
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
	pack_f16(n, x, out);
	return n * 2;
}

static size_t bf16_encode(double arg, struct rng *rng, const float *x, size_t n, uint8_t *out)
{
	(void)arg;
	(void)rng;
	pack_bf16(n, x, out);
	return n * 2;
}

static enum codec_check check_below(const uint8_t *p, size_t len, size_t n, uint16_t limit)
{
	if (len != n * 2)
		return CODEC_MALFORMED;
	return any_from(n, p, limit) ? CODEC_BAD_VALUE : CODEC_GOOD;
}

static enum codec_check f16_check(const uint8_t *p, size_t len, size_t n)
{
	return check_below(p, len, n, HALF_F16_INF);
}

static enum codec_check bf16_check(const uint8_t *p, size_t len, size_t n)
{
	return check_below(p, len, n, BF16_BOUND);
}

static void f16_add(const uint8_t *p, size_t len, size_t n, float weight, float *sum)
{
	(void)len;
	sum_f16(n, p, weight, sum);
}

static void bf16_add(const uint8_t *p, size_t len, size_t n, float weight, float *sum)
{
	(void)len;
	sum_bf16(n, p, weight, sum);
}

const struct codec codec_f16 = {
	.name = "f16",
	.help = "IEEE half precision, 2 bytes per value",
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
	.help = "the upper half of float32, 2 bytes per value",
	.id = 2,
	.lossy = true,
	.pulls = true,
	.bound = half_bound,
	.encode = bf16_encode,
	.check = bf16_check,
	.add = bf16_add,
};
