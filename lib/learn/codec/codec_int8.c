/* SPDX-License-Identifier: ISC */
#include "codec/block.h"
#include "codec/codec.h"
#include "math/clones.h"

/* Blocks of 256 values: the scale, a float32, then a signed byte a value, -127 to 127. value =
 * scale * byte; the largest |value| of a block is at 127 (Dettmers et al., "8-bit Optimizers via
 * Block-wise Quantization", ICLR 2022, linear). */

extern const struct codec codec_int8;

#define BLOCK 256u

static size_t int8_len(size_t n)
{
	return n + (n + BLOCK - 1) / BLOCK * 4;
}

static size_t int8_bound(double arg, size_t n)
{
	(void)arg;
	return int8_len(n);
}

/* Rounds numbers far below 2^22 like lrintf: adding 3 * 2^22 leaves no fraction bits, and the
 * lowest bits of the sum are the number in two's complement. */
KERN_CLONES static void round_bytes(size_t k, const float *restrict x, float inverse,
    uint8_t *restrict out)
{
	for (size_t i = 0; i < k; i++) {
		float sum = x[i] * inverse + 0x1.8p23f;
		uint32_t u;

		memcpy(&u, &sum, sizeof u);
		out[i] = (uint8_t)u;
	}
}

KERN_CLONES static void sum_bytes(size_t k, const uint8_t *restrict p, float scale,
    float *restrict sum)
{
	for (size_t i = 0; i < k; i++)
		sum[i] += scale * (float)(int8_t)p[i];
}

/* Writes for each block a float scale, the largest magnitude / 127, then one signed byte a value. A
 * block that contains an infinity or a NaN has NaN as its scale and zero bytes, so it decodes to
 * NaN and the receiver's check reports it. */
static size_t int8_encode(double arg, struct rng *rng, const float *x, size_t n, uint8_t *out)
{
	uint8_t *at = out;

	(void)arg;
	(void)rng;
	for (size_t b = 0; b < n; b += BLOCK) {
		size_t k = block_len(n, b, BLOCK);
		float scale = vec_max_abs(k, x + b) / 127, inverse = 1 / scale;

		/* All values are zero, or so small that the inverse of the scale is not finite. */
		if (scale == 0 || isinf(inverse))
			scale = inverse = 0;
		block_put_float(at, scale);
		if (isnan(scale))
			memset(at + 4, 0, k);
		else
			round_bytes(k, x + b, inverse, at + 4);
		at += 4 + k;
	}
	return (size_t)(at - out);
}

/* The byte 0x80 is -128, which no encoder writes: the range is -127 to 127. The largest value that
 * a block can decode to is its scale times 127. */
static enum codec_check int8_check(const uint8_t *p, size_t len, size_t n)
{
	enum codec_check good = CODEC_GOOD;

	if (len != int8_len(n))
		return CODEC_MALFORMED;
	for (size_t b = 0; b < n; b += BLOCK) {
		size_t k = block_len(n, b, BLOCK);
		float most = block_get_float(p) * 127;

		if (most < 0 || memchr(p + 4, 0x80, k))
			return CODEC_MALFORMED;
		if (!vec_all_bounded(1, &most))
			good = CODEC_BAD_VALUE;
		p += 4 + k;
	}
	return good;
}

static void int8_add(const uint8_t *p, size_t len, size_t n, float weight, float *sum)
{
	(void)len;
	for (size_t b = 0; b < n; b += BLOCK) {
		size_t k = block_len(n, b, BLOCK);

		sum_bytes(k, p + 4, weight * block_get_float(p), sum + b);
		p += 4 + k;
	}
}

const struct codec codec_int8 = {
	.name = "int8",
	.help = "one byte per value, scaled in blocks of 256",
	.id = 3,
	.lossy = true,
	.pulls = true,
	.bound = int8_bound,
	.encode = int8_encode,
	.check = int8_check,
	.add = int8_add,
};
