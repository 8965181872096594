#include "codec/block.h"
#include "codec/codec.h"
#include "kern/clones.h"

/* A byte with the number of levels L, then blocks of 512 values: the block's largest
 * |value|, a float32, then for each value a sign and a level 0 to L in as few bits as
 * they need, packed from the lowest bit on.  |value| = max * level / L, rounded up or
 * down at random so that it is right in the mean (Alistarh et al., "QSGD", NeurIPS 2017,
 * with the maximum instead of the 2-norm, as in their experiments). */

extern const struct codec codec_qsgd;

#define BLOCK 512u
#define LEVELS_MAX 127u

static unsigned bits_for(unsigned levels)
{
	unsigned bits = 1;

	while (1u << bits <= levels)
		bits++;
	return bits + 1;                /* and the sign */
}

static size_t packed(size_t k, unsigned levels)
{
	return (k * bits_for(levels) + 7) / 8;
}

static size_t qsgd_len(size_t n, unsigned levels)
{
	size_t whole = n / BLOCK, rest = n % BLOCK;

	return 1 + whole * (4 + packed(BLOCK, levels)) + (rest ? 4 + packed(rest, levels) : 0);
}

static size_t qsgd_bound(double arg, size_t n)
{
	return qsgd_len(n, (unsigned)arg);
}

/* 16 random bits a value. */
static void fill_random(struct rng *rng, size_t k, uint16_t *out)
{
	for (size_t i = 0; i < k; i += 4) {
		uint64_t r = rng_next(rng);

		memcpy(out + i, &r, sizeof r);
	}
}

/* Rounded down after a chance of up to 1 was added: up as often as it is near. */
KERN_CLONES static void quantise(size_t k, const float *x, float inverse, unsigned levels, const uint16_t *chance, uint8_t *out)
{
	for (size_t i = 0; i < k; i++) {
		float level = fabsf(x[i]) * inverse + (float)chance[i] * 0x1p-16f;
		int q = (int)level;

		q = q > (int)levels ? (int)levels : q;
		out[i] = (uint8_t)(q << 1 | (x[i] < 0));
	}
}

static void encode_block(const float *x, size_t k, unsigned levels, struct rng *rng, float max, uint8_t *out)
{
	unsigned width = bits_for(levels), have = 0;
	float inverse = (float)levels / max;
	uint16_t chance[BLOCK];
	uint8_t q[BLOCK];
	uint64_t word = 0;

	if (!(max > 0) || isinf(inverse))
		inverse = 0;
	fill_random(rng, k, chance);
	quantise(k, x, inverse, levels, chance, q);
	for (size_t i = 0; i < k; i++) {
		word |= (uint64_t)q[i] << have;
		for (have += width; have >= 8; have -= 8) {
			*out++ = (uint8_t)word;
			word >>= 8;
		}
	}
	if (have)
		*out = (uint8_t)word;
}

static size_t qsgd_encode(double arg, struct rng *rng, const float *x, size_t n, uint8_t *out)
{
	unsigned levels = (unsigned)arg;
	uint8_t *at = out;

	*at++ = (uint8_t)levels;
	for (size_t b = 0; b < n; b += BLOCK) {
		size_t k = block_len(n, b, BLOCK);
		float max = block_max(x + b, k);

		put_float(at, max);
		if (isnan(max))
			memset(at + 4, 0, packed(k, levels));
		else
			encode_block(x + b, k, levels, rng, max, at + 4);
		at += 4 + packed(k, levels);
	}
	return (size_t)(at - out);
}

/* Calls fn-like code for each value would be slow: both walks are written out. */
static bool levels_fit(const uint8_t *p, size_t k, unsigned levels)
{
	unsigned width = bits_for(levels), have = 0, over = 0;
	uint64_t word = 0;

	for (size_t i = 0; i < k; i++) {
		for (; have < width; have += 8)
			word |= (uint64_t)*p++ << have;
		over |= (word >> 1 & ((1u << (width - 1)) - 1)) > levels;
		word >>= width;
		have -= width;
	}
	return !over && word == 0;
}

static enum codec_check qsgd_check(const uint8_t *p, size_t len, size_t n)
{
	enum codec_check good = CODEC_GOOD;
	unsigned levels = len ? p[0] : 0;

	if (levels < 1 || levels > LEVELS_MAX || len != qsgd_len(n, levels))
		return CODEC_MALFORMED;
	p++;
	for (size_t b = 0; b < n; b += BLOCK) {
		size_t k = block_len(n, b, BLOCK);
		float max = get_float(p);

		if (max < 0 || !levels_fit(p + 4, k, levels))
			return CODEC_MALFORMED;
		if (!vec_all_bounded(1, &max))
			good = CODEC_UNBOUNDED;
		p += 4 + packed(k, levels);
	}
	return good;
}

static void qsgd_add(const uint8_t *p, size_t len, size_t n, float weight, float *sum)
{
	unsigned levels = *p++, width = bits_for(levels);
	uint64_t mask = (1u << (width - 1)) - 1;

	(void)len;
	for (size_t b = 0; b < n; b += BLOCK) {
		size_t k = block_len(n, b, BLOCK);
		float step = weight * get_float(p) / (float)levels;
		const uint8_t *at = p + 4;
		uint64_t word = 0;
		unsigned have = 0;

		for (size_t i = 0; i < k; i++) {
			float q;

			for (; have < width; have += 8)
				word |= (uint64_t)*at++ << have;
			q = (float)(word >> 1 & mask);
			sum[b + i] += word & 1 ? -step * q : step * q;
			word >>= width;
			have -= width;
		}
		p += 4 + packed(k, levels);
	}
}

const struct codec codec_qsgd = {
	.name = "qsgd",
	.help = "so many levels, rounded at random, scaled in blocks of 512",
	.id = 4,
	.lossy = true,
	.takes = CODEC_LEVELS,
	.bound = qsgd_bound,
	.encode = qsgd_encode,
	.check = qsgd_check,
	.add = qsgd_add,
};
