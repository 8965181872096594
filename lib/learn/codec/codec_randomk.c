/* SPDX-License-Identifier: ISC */
#include "codec/block.h"
#include "codec/codec.h"

/* A fraction of the values (at least one), at random: u64 seed, u32 k, k float32. No places are
 * sent: the n values are divided into k stretches of nearly equal length, and the seed chooses one
 * value of each (Stich, Cordonnier and Jaggi, "Sparsified SGD with Memory", NeurIPS 2018, with
 * strata). Meant for feedback, which sends the rest later. */

extern const struct codec codec_randomk;

#define HEAD 12u

static size_t randomk_bound(double arg, size_t n)
{
	return HEAD + block_fraction(arg, n) * 4;
}

/* Walks over the stretches. Stretch i of k begins at n * i / k, rounded down, so there are two
 * lengths, differing by one. The division of rng_below is done once for each length. */
struct walk {
	struct rng rng;
	size_t begin, length, rest, k, over;
	uint64_t skip[2];
};

static void walk_init(struct walk *w, uint64_t seed, size_t n, size_t k)
{
	*w = (struct walk){ .k = k };
	rng_init(&w->rng, seed);
	if (!k)
		return;
	w->length = n / k;
	w->rest = n % k;
	for (uint64_t i = 0; i < 2; i++)
		w->skip[i] = -(w->length + i) % (w->length + i);
}

static inline size_t walk_next(struct walk *w)
{
	bool longer = (w->over += w->rest) >= w->k;
	uint64_t length = w->length + longer, x;
	size_t begin = w->begin;

	w->over -= longer ? w->k : 0;
	w->begin += (size_t)length;
	do
		x = rng_next(&w->rng);
	while (x < w->skip[longer]);
	return begin + (size_t)(x % length);
}

/* Only the seed of the places is written, and not the places: the decoder walks through the same
 * ones. */
static size_t randomk_encode(double arg, struct rng *rng, const float *x, size_t n, uint8_t *out)
{
	size_t k = block_fraction(arg, n);
	uint64_t seed = rng_next(rng);
	struct walk places;

	put_le64(out, seed);
	put_le32(out + 8, (uint32_t)k);
	walk_init(&places, seed, n, k);
	for (size_t i = 0; i < k; i++)
		block_put_float(out + HEAD + i * 4, x[walk_next(&places)]);
	return HEAD + k * 4;
}

static enum codec_check randomk_check(const uint8_t *p, size_t len, size_t n)
{
	size_t k;

	if (len < HEAD)
		return CODEC_MALFORMED;
	k = get_le32(p + 8);
	if (k > n || len != HEAD + k * 4)
		return CODEC_MALFORMED;
	return vec_all_bounded(k, p + HEAD) ? CODEC_GOOD : CODEC_BAD_VALUE;
}

static void randomk_add(const uint8_t *p, size_t len, size_t n, float weight, float *sum)
{
	size_t k = get_le32(p + 8);
	struct walk places;

	(void)len;
	walk_init(&places, get_le64(p), n, k);
	for (size_t i = 0; i < k; i++)
		sum[walk_next(&places)] += weight * block_get_float(p + HEAD + i * 4);
}

const struct codec codec_randomk = {
	.name = "randomk",
	.help = "random values, a fraction F of all values",
	.id = 7,
	.lossy = true,
	.takes = CODEC_FRACTION,
	.bound = randomk_bound,
	.encode = randomk_encode,
	.check = randomk_check,
	.add = randomk_add,
};
