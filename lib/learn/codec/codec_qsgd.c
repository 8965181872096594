/* SPDX-License-Identifier: ISC */
#include "codec/block.h"
#include "codec/codec.h"
#include "math/clones.h"

/* A byte with the number of levels L, then blocks of 512 values: the block's largest |value|, a
 * float32, then for each value a sign and a level from 0 to L in as few bits as needed, packed from
 * the lowest bit on. |value| = max * level / L, rounded up or down at random so that its
 * expectation is right (Alistarh et al., "QSGD", NeurIPS 2017, with the maximum instead of the
 * 2-norm, as in their experiments). */

extern const struct codec codec_qsgd;

#define BLOCK      512u
#define LEVELS_MAX 127u

static unsigned bits_for(unsigned levels)
{
	unsigned bits = 1;

	while (1u << bits <= levels)
		bits++;
	return bits + 1; /* one more for the sign */
}

static size_t packed_bytes(size_t k, unsigned levels)
{
	return (k * bits_for(levels) + 7) / 8;
}

static size_t qsgd_len(size_t n, unsigned levels)
{
	size_t whole = n / BLOCK, rest = n % BLOCK;

	return 1 + whole * (4 + packed_bytes(BLOCK, levels)) +
	    (rest ? 4 + packed_bytes(rest, levels) : 0);
}

static size_t qsgd_bound(double arg, size_t n)
{
	return qsgd_len(n, (unsigned)arg);
}

/* Fills out with 16 random bits a value. */
static void fill_random(struct rng *rng, size_t k, uint16_t *out)
{
	for (size_t i = 0; i < k; i += 4) {
		uint64_t r = rng_next(rng);

		memcpy(out + i, &r, sizeof r);
	}
}

/* Adds a random number in [0, 1) and rounds down, so that the probability of rounding up is the
 * fraction. */
KERN_CLONES static void quantise(size_t k, const float *x, float inverse, unsigned levels,
    const uint16_t *chance, uint8_t *out)
{
	for (size_t i = 0; i < k; i++) {
		float level = fabsf(x[i]) * inverse + (float)chance[i] * 0x1p-16f;
		int q = (int)level;

		q = q > (int)levels ? (int)levels : q;
		out[i] = (uint8_t)(q << 1 | (x[i] < 0));
	}
}

/* ---- values of this many bits ---- */

/* Eight packed values of w bits are w bytes. Spreading them in 64 bits to a byte each takes three
 * halvings: of 8 fields the upper 4 move to the upper half, of each 4 the upper 2, of each 2 the
 * upper one. Packing does the reverse. */
struct halving {
	uint64_t mask[3];         /* masks of the fields that stay */
	unsigned up[3], width[3]; /* how far the other fields move; their position */
};

static struct halving halving_of(unsigned width)
{
	struct halving h;
	uint64_t every = 1;

	for (unsigned i = 0, fields = 4; i < 3; i++, fields /= 2) {
		h.mask[i] = ((UINT64_C(1) << fields * width) - 1) * every;
		h.width[i] = fields * width;
		h.up[i] = fields * (8 - width);
		every |= every << 8 * fields;
	}
	return h;
}

#define GROUPS (BLOCK / 8)

KERN_CLONES static void spread_groups(size_t groups, const struct halving *h, uint64_t *word)
{
	uint64_t m0 = h->mask[0], m1 = h->mask[1], m2 = h->mask[2];
	unsigned u0 = h->up[0], u1 = h->up[1], u2 = h->up[2], w0 = h->width[0], w1 = h->width[1],
	         w2 = h->width[2];

	for (size_t i = 0; i < groups; i++) {
		uint64_t x = word[i];

		x = (x & m0) | (x & m0 << w0) << u0;
		x = (x & m1) | (x & m1 << w1) << u1;
		x = (x & m2) | (x & m2 << w2) << u2;
		word[i] = x;
	}
}

KERN_CLONES static void join_groups(size_t groups, const struct halving *h, uint64_t *word)
{
	uint64_t m0 = h->mask[0], m1 = h->mask[1], m2 = h->mask[2];
	unsigned u0 = h->up[0], u1 = h->up[1], u2 = h->up[2], w0 = h->width[0], w1 = h->width[1],
	         w2 = h->width[2];

	for (size_t i = 0; i < groups; i++) {
		uint64_t x = word[i];

		x = (x & m2) | (x >> u2 & m2 << w2);
		x = (x & m1) | (x >> u1 & m1 << w1);
		x = (x & m0) | (x >> u0 & m0 << w0);
		word[i] = x;
	}
}

/* Unpacks the values of a block, a byte each, and zeroes up to a whole group. */
static void unpack_block(const uint8_t *p, size_t k, unsigned width, const struct halving *h,
    uint64_t word[static GROUPS])
{
	size_t groups = (k + 7) / 8;
	uint8_t padded[BLOCK + 8];

	memcpy(padded, p, (k * width + 7) / 8);
	memset(padded + (k * width + 7) / 8, 0, 8);
	for (size_t i = 0; i < groups; i++)
		memcpy(&word[i], padded + i * width, sizeof *word);
	spread_groups(groups, h, word);
}

/* Packs them; values after k must be zero. */
static void pack_block(uint64_t *word, size_t k, unsigned width, const struct halving *h,
    uint8_t *out)
{
	size_t groups = (k + 7) / 8;
	uint8_t padded[BLOCK + 8];

	join_groups(groups, h, word);
	for (size_t i = 0; i < groups; i++)
		memcpy(padded + i * width, &word[i], sizeof *word);
	memcpy(out, padded, (k * width + 7) / 8);
}

/* A largest magnitude of 0, or one so small that the inverse is infinite, gives levels of 0. Random
 * numbers are drawn in any case, so that the sequence does not depend on the values. */
static void encode_block(const float *x, size_t k, unsigned levels, const struct halving *h,
    struct rng *rng, float max, uint8_t *out)
{
	float inverse = (float)levels / max;
	uint64_t word[GROUPS] = { 0 };
	uint16_t chance[BLOCK];

	if (!(max > 0) || isinf(inverse))
		inverse = 0;
	fill_random(rng, k, chance);
	quantise(k, x, inverse, levels, chance, (uint8_t *)word);
	pack_block(word, k, bits_for(levels), h, out);
}

/* A block that is not finite has NaN as its scale and levels of 0, so that it decodes to NaN. */
static size_t qsgd_encode(double arg, struct rng *rng, const float *x, size_t n, uint8_t *out)
{
	unsigned levels = (unsigned)arg;
	struct halving h = halving_of(bits_for(levels));
	uint8_t *at = out;

	*at++ = (uint8_t)levels;
	for (size_t b = 0; b < n; b += BLOCK) {
		size_t k = block_len(n, b, BLOCK);
		float max = vec_max_abs(k, x + b);

		block_put_float(at, max);
		if (isnan(max))
			memset(at + 4, 0, packed_bytes(k, levels));
		else
			encode_block(x + b, k, levels, &h, rng, max, at + 4);
		at += 4 + packed_bytes(k, levels);
	}
	return (size_t)(at - out);
}

KERN_CLONES static uint8_t largest_of(size_t k, const uint8_t *q)
{
	uint8_t max = 0;

	for (size_t i = 0; i < k; i++)
		max = q[i] > max ? q[i] : max;
	return max;
}

/* Is no level above L, and no bit set after the last value? */
static bool levels_fit(const uint8_t *p, size_t k, unsigned levels, const struct halving *h)
{
	unsigned width = bits_for(levels);
	uint64_t word[GROUPS];

	if (k * width % 8 && p[k * width / 8] >> k * width % 8)
		return false;
	if (levels + 1 == 1u << (width - 1))
		return true;
	unpack_block(p, k, width, h, word);
	return largest_of(k, (const uint8_t *)word) >> 1 <= levels;
}

/* The first byte is the number of levels; each block is the float scale and then its packed levels.
 * The length follows from n and the levels alone, so it is compared before any block is read. A
 * scale that is NaN passes the test `max < 0` and is reported as a bad value. */
static enum codec_check qsgd_check(const uint8_t *p, size_t len, size_t n)
{
	enum codec_check good = CODEC_GOOD;
	unsigned levels = len ? p[0] : 0;
	struct halving h;

	if (levels < 1 || levels > LEVELS_MAX || len != qsgd_len(n, levels))
		return CODEC_MALFORMED;
	h = halving_of(bits_for(levels));
	p++;
	for (size_t b = 0; b < n; b += BLOCK) {
		size_t k = block_len(n, b, BLOCK);
		float max = block_get_float(p);

		if (max < 0 || !levels_fit(p + 4, k, levels, &h))
			return CODEC_MALFORMED;
		if (!vec_all_bounded(1, &max))
			good = CODEC_BAD_VALUE;
		p += 4 + packed_bytes(k, levels);
	}
	return good;
}

/* The lowest bit is the sign, also of 0. */
KERN_CLONES static void sum_levels(size_t k, const uint8_t *restrict q, float step,
    float *restrict sum)
{
	for (size_t i = 0; i < k; i++) {
		float x = step * (float)(q[i] >> 1);
		uint32_t u;

		memcpy(&u, &x, sizeof u);
		u ^= (uint32_t)q[i] << 31;
		memcpy(&x, &u, sizeof x);
		sum[i] += x;
	}
}

/* A level's worth is max / levels, times the weight; it is computed once a block. */
static void qsgd_add(const uint8_t *p, size_t len, size_t n, float weight, float *sum)
{
	unsigned levels = *p++, width = bits_for(levels);
	struct halving h = halving_of(width);
	uint64_t word[GROUPS];

	(void)len;
	for (size_t b = 0; b < n; b += BLOCK) {
		size_t k = block_len(n, b, BLOCK);

		unpack_block(p + 4, k, width, &h, word);
		sum_levels(k, (const uint8_t *)word, weight * block_get_float(p) / (float)levels,
		    sum + b);
		p += 4 + packed_bytes(k, levels);
	}
}

const struct codec codec_qsgd = {
	.name = "qsgd",
	.help = "L levels, rounded at random, scaled in blocks of 512",
	.id = 4,
	.lossy = true,
	.takes = CODEC_LEVELS,
	.bound = qsgd_bound,
	.encode = qsgd_encode,
	.check = qsgd_check,
	.add = qsgd_add,
};
