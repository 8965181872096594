/* SPDX-License-Identifier: ISC */
#include "codec/block.h"
#include "codec/codec.h"
#include "math/clones.h"

/* Blocks of 2048 values: the mean of the negative ones and the mean of the others, two float32,
 * then a bit a value (1: not negative), from the lowest bit on (Seide et al., "1-Bit Stochastic
 * Gradient Descent", Interspeech 2014). Useless without feedback. */

extern const struct codec codec_onebit;

#define BLOCK 2048u

static size_t onebit_len(size_t n)
{
	return n / BLOCK * (8 + BLOCK / 8) + (n % BLOCK ? 8 + (n % BLOCK + 7) / 8 : 0);
}

static size_t onebit_bound(double arg, size_t n)
{
	(void)arg;
	return onebit_len(n);
}

/* Sums run in this many lanes of double, value i in lane i modulo LANES. The lanes are then added
 * pairwise, upper half to lower half: a fixed order, for equal bits on all machines. */
#define LANES 8u

/* The negative values and the others, each with zeroes in the places of the other kind. */
struct split {
	float low[BLOCK], high[BLOCK];
	uint8_t up[BLOCK]; /* 1: not negative */
};

KERN_CLONES static unsigned split_signs(size_t k, const float *restrict x, struct split *restrict s)
{
	unsigned above = 0;

	for (size_t i = 0; i < k; i++) {
		bool up = !(x[i] < 0);

		s->low[i] = up ? 0 : x[i];
		s->high[i] = up ? x[i] : 0;
		s->up[i] = up;
		above += up;
	}
	return above;
}

KERN_CLONES static void add_lanes(size_t k, const float *low, const float *high,
    double *restrict below, double *restrict above)
{
	double a[LANES] = { 0 }, b[LANES] = { 0 };

	for (size_t i = 0; i < k; i += LANES)
		for (size_t j = 0; j < LANES; j++) {
			a[j] += (double)low[i + j];
			b[j] += (double)high[i + j];
		}
	memcpy(below, a, sizeof a);
	memcpy(above, b, sizeof b);
}

/* Processors differ in the NaN that results from two: use one constant. */
static float mean_of(double *lane, size_t n)
{
	for (size_t half = LANES / 2; half > 0; half /= 2)
		for (size_t j = 0; j < half; j++)
			lane[j] += lane[j + half];
	return !n ? 0 : isnan(lane[0]) ? NAN : (float)(lane[0] / (double)n);
}

/* Packs eight bytes of 0 or 1 into bits: the product moves byte j to bit 56 + j, and no two of its
 * terms overlap. */
static inline uint8_t bits_of_bytes(const uint8_t *up)
{
	uint64_t w;

	memcpy(&w, up, sizeof w);
	return (uint8_t)(w * UINT64_C(0x0102040810204080) >> 56);
}

/* Writes one block and returns its length: the mean of the negative values and that of the others,
 * as floats, then a bit for each value. The last bits of the last byte are 0. */
static size_t onebit_block(size_t k, const float *x, uint8_t *out)
{
	size_t bytes = (k + 7) / 8;
	double low[LANES], high[LANES];
	struct split s;
	unsigned above = split_signs(k, x, &s);

	for (size_t i = k; i < bytes * 8; i++)
		s.low[i] = s.high[i] = s.up[i] = 0;
	add_lanes(bytes * 8, s.low, s.high, low, high);
	block_put_float(out, mean_of(low, k - above));
	block_put_float(out + 4, mean_of(high, above));
	for (size_t i = 0; i < bytes; i++)
		out[8 + i] = bits_of_bytes(s.up + 8 * i);
	return 8 + bytes;
}

/* Unpacks: isolates bit j of the byte in byte j, then sets bit 7 of each byte that is not 0. */
KERN_CLONES static void bytes_of_bits(size_t n, const uint8_t *restrict bits, uint64_t *restrict up)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t w = bits[i] * UINT64_C(0x0101010101010101) & UINT64_C(0x8040201008040201);

		up[i] = (w + UINT64_C(0x7f7f7f7f7f7f7f7f)) >> 7 & UINT64_C(0x0101010101010101);
	}
}

KERN_CLONES static void sum_signs(size_t k, const uint8_t *restrict up, float low, float high,
    float *restrict sum)
{
	for (size_t i = 0; i < k; i++)
		sum[i] += up[i] ? high : low;
}

static size_t onebit_encode(double arg, struct rng *rng, const float *x, size_t n, uint8_t *out)
{
	uint8_t *at = out;

	(void)arg;
	(void)rng;
	for (size_t b = 0; b < n; b += BLOCK)
		at += onebit_block(block_len(n, b, BLOCK), x + b, at);
	return (size_t)(at - out);
}

static enum codec_check onebit_check(const uint8_t *p, size_t len, size_t n)
{
	enum codec_check good = CODEC_GOOD;

	if (len != onebit_len(n))
		return CODEC_MALFORMED;
	for (size_t b = 0; b < n; b += BLOCK) {
		size_t k = block_len(n, b, BLOCK);
		float mean[2] = { block_get_float(p), block_get_float(p + 4) };

		/* Bits beyond the last value must be 0. */
		if (k % 8 && p[8 + k / 8] >> k % 8)
			return CODEC_MALFORMED;
		if (!vec_all_bounded(2, mean))
			good = CODEC_BAD_VALUE;
		p += 8 + (k + 7) / 8;
	}
	return good;
}

/* A block's two means are multiplied by the weight once, and each bit then selects one of them. */
static void onebit_add(const uint8_t *p, size_t len, size_t n, float weight, float *sum)
{
	(void)len;
	for (size_t b = 0; b < n; b += BLOCK) {
		size_t k = block_len(n, b, BLOCK);
		uint64_t up[BLOCK / 8];

		bytes_of_bits((k + 7) / 8, p + 8, up);
		sum_signs(k, (const uint8_t *)up, weight * block_get_float(p),
		    weight * block_get_float(p + 4), sum + b);
		p += 8 + (k + 7) / 8;
	}
}

const struct codec codec_onebit = {
	.name = "onebit",
	.help = "the sign of each value, and two means for 2048",
	.id = 5,
	.lossy = true,
	.bound = onebit_bound,
	.encode = onebit_encode,
	.check = onebit_check,
	.add = onebit_add,
};
