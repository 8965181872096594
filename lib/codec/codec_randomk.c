#include "codec/block.h"
#include "codec/codec.h"

/* A fraction of the values (one at least), at random: u64 seed, u32 k, k float32.  No
 * places travel: the n values are cut into k stretches that are as long as can be alike,
 * and of each the seed chooses one (Stich, Cordonnier and Jaggi, "Sparsified SGD with
 * Memory", NeurIPS 2018, with strata).  Meant for feedback, which brings the rest. */

extern const struct codec codec_randomk;

#define HEAD 12u

static size_t randomk_bound(double arg, size_t n)
{
	return HEAD + fraction_of(arg, n) * 4;
}

/* Where stretch i of k begins. */
static size_t begin_of(size_t n, size_t k, size_t i)
{
	return (size_t)((uint64_t)n * i / k);
}

static size_t place_of(struct rng *rng, size_t n, size_t k, size_t i)
{
	size_t begin = begin_of(n, k, i);

	return begin + (size_t)rng_below(rng, begin_of(n, k, i + 1) - begin);
}

static size_t randomk_encode(double arg, struct rng *rng, const float *x, size_t n, uint8_t *out)
{
	size_t k = fraction_of(arg, n);
	uint64_t seed = rng_next(rng);
	struct rng places;

	put_le64(out, seed);
	put_le32(out + 8, (uint32_t)k);
	rng_init(&places, seed);
	for (size_t i = 0; i < k; i++)
		put_float(out + HEAD + i * 4, x[place_of(&places, n, k, i)]);
	return HEAD + k * 4;
}

static enum codec_check randomk_check(const uint8_t *p, size_t len, size_t n)
{
	enum codec_check good = CODEC_GOOD;
	size_t k;

	if (len < HEAD)
		return CODEC_MALFORMED;
	k = get_le32(p + 8);
	if (k > n || len != HEAD + k * 4)
		return CODEC_MALFORMED;
	for (size_t i = 0; i < k; i++) {
		float x = get_float(p + HEAD + i * 4);

		if (!vec_all_bounded(1, &x))
			good = CODEC_UNBOUNDED;
	}
	return good;
}

static void randomk_add(const uint8_t *p, size_t len, size_t n, float weight, float *sum)
{
	size_t k = get_le32(p + 8);
	struct rng places;

	(void)len;
	rng_init(&places, get_le64(p));
	for (size_t i = 0; i < k; i++)
		sum[place_of(&places, n, k, i)] += weight * get_float(p + HEAD + i * 4);
}

const struct codec codec_randomk = {
	.name = "randomk",
	.help = "values at random, such a fraction of all",
	.id = 7,
	.lossy = true,
	.takes = CODEC_FRACTION,
	.bound = randomk_bound,
	.encode = randomk_encode,
	.check = randomk_check,
	.add = randomk_add,
};
