#include "codec/block.h"
#include "codec/codec.h"

/* Blocks of 2048 values: the mean of those below 0 and of the others, two float32, then
 * a bit a value (1: not below 0), from the lowest on (Seide et al., "1-Bit Stochastic
 * Gradient Descent", Interspeech 2014).  Useless without feedback. */

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

static size_t onebit_encode(double arg, struct rng *rng, const float *x, size_t n, uint8_t *out)
{
	uint8_t *at = out;

	(void)arg;
	(void)rng;
	for (size_t b = 0; b < n; b += BLOCK) {
		size_t k = block_len(n, b, BLOCK), below = 0;
		double sum[2] = { 0, 0 };

		memset(at + 8, 0, (k + 7) / 8);
		for (size_t i = 0; i < k; i++) {
			bool up = !(x[b + i] < 0);

			sum[up] += (double)x[b + i];
			below += !up;
			at[8 + i / 8] |= (uint8_t)(up << i % 8);
		}
		put_float(at, below ? (float)(sum[0] / (double)below) : 0);
		put_float(at + 4, k > below ? (float)(sum[1] / (double)(k - below)) : 0);
		at += 8 + (k + 7) / 8;
	}
	return (size_t)(at - out);
}

static enum codec_check onebit_check(const uint8_t *p, size_t len, size_t n)
{
	enum codec_check good = CODEC_GOOD;

	if (len != onebit_len(n))
		return CODEC_MALFORMED;
	for (size_t b = 0; b < n; b += BLOCK) {
		size_t k = block_len(n, b, BLOCK);
		float mean[2] = { get_float(p), get_float(p + 4) };

		/* Bits beyond the last value. */
		if (k % 8 && p[8 + k / 8] >> k % 8)
			return CODEC_MALFORMED;
		if (!vec_all_bounded(2, mean))
			good = CODEC_UNBOUNDED;
		p += 8 + (k + 7) / 8;
	}
	return good;
}

static void onebit_add(const uint8_t *p, size_t len, size_t n, float weight, float *sum)
{
	(void)len;
	for (size_t b = 0; b < n; b += BLOCK) {
		size_t k = block_len(n, b, BLOCK);
		float mean[2] = { weight * get_float(p), weight * get_float(p + 4) };

		for (size_t i = 0; i < k; i++)
			sum[b + i] += mean[p[8 + i / 8] >> i % 8 & 1];
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
