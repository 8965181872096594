#include <stdlib.h>

#include "base/mem.h"
#include "codec/block.h"
#include "codec/codec.h"
#include "codec/places.h"

/* The values that are largest in magnitude, a fraction of all (one at least), exact:
 * u32 k, k float32, then their places (places.h).  Aji and Heafield, "Sparse
 * Communication for Distributed Gradient Descent", EMNLP 2017. */

extern const struct codec codec_topk, codec_dgc;

static size_t topk_bound(double arg, size_t n)
{
	return 4 + fraction_of(arg, n) * (4 + PLACE_BYTES);
}

/* Magnitudes as integers: those of floats are in the same order, and NaN is the
 * largest of all. */
static uint32_t magnitude(float x)
{
	uint32_t u;

	memcpy(&u, &x, sizeof u);
	return u & 0x7fffffff;
}

/* The k-th largest, k from 1; a[] is mixed up.  Hoare's selection. */
static uint32_t kth_largest(uint32_t *a, size_t n, size_t k)
{
	size_t low = 0, high = n - 1, want = k - 1;

	while (low < high) {
		uint32_t pivot = a[low + (high - low) / 2];
		size_t i = low, j = high;

		for (;;) {
			while (a[i] > pivot)
				i++;
			while (a[j] < pivot)
				j--;
			if (i >= j)
				break;
			uint32_t t = a[i];

			a[i++] = a[j];
			a[j--] = t;
		}
		if (want <= j)
			high = j;
		else
			low = j + 1;
	}
	return a[want];
}

/* Magnitudes by their upper bits; several counts, so that values that are alike do not
 * wait for each other. */
#define BIN_SHIFT 19
#define BINS (1u << (31 - BIN_SHIFT))
#define COUNTS 4

/* The k-th largest magnitude, k from 1, and how many are above it: the bin that it lies
 * in by counting, then among those of that bin. */
static uint32_t threshold(const float *x, size_t n, size_t k, size_t *above)
{
	uint32_t *count = mem_array(COUNTS * BINS, sizeof *count), *a, bin = BINS, least;
	size_t larger = 0, in_bin = 0, at = 0;

	for (size_t i = 0; i < n; i++)
		count[(i % COUNTS) * BINS + (magnitude(x[i]) >> BIN_SHIFT)]++;
	while (larger + in_bin < k) {
		larger += in_bin;
		bin--;
		in_bin = (size_t)count[bin] + count[BINS + bin] + count[2 * BINS + bin] + count[3 * BINS + bin];
	}
	free(count);
	a = mem_array(in_bin, sizeof *a);
	for (size_t i = 0; at < in_bin; i++)
		if (magnitude(x[i]) >> BIN_SHIFT == bin)
			a[at++] = magnitude(x[i]);
	least = kth_largest(a, in_bin, k - larger);
	*above = larger;
	for (size_t i = 0; i < in_bin; i++)
		*above += a[i] > least;
	free(a);
	return least;
}

static size_t topk_encode(double arg, struct rng *rng, const float *x, size_t n, uint8_t *out)
{
	size_t k = fraction_of(arg, n), above = 0, ties, taken = 0, next = 0;
	uint32_t least = k ? threshold(x, n, k, &above) : 0;
	uint8_t *at = out + 4 + k * 4;

	(void)rng;
	put_le32(out, (uint32_t)k);
	ties = k - above;
	for (size_t i = 0; taken < k; i++) {
		uint32_t m = magnitude(x[i]);

		if (m < least || (m == least && !ties))
			continue;
		ties -= m == least;
		put_float(out + 4 + taken++ * 4, x[i]);
		at = place_put(at, (uint32_t)(i - next));
		next = i + 1;
	}
	return (size_t)(at - out);
}

static enum codec_check topk_check(const uint8_t *p, size_t len, size_t n)
{
	const uint8_t *end = p + len, *at;
	enum codec_check good = CODEC_GOOD;
	size_t k, next = 0;

	if (len < 4)
		return CODEC_MALFORMED;
	k = get_le32(p);
	if (k > n || (len - 4) / 4 < k)
		return CODEC_MALFORMED;
	at = p + 4 + k * 4;
	for (size_t i = 0; i < k; i++) {
		float x = get_float(p + 4 + i * 4);
		size_t place = place_get(&at, end, next, n);

		if (place >= n)
			return CODEC_MALFORMED;
		if (!vec_all_bounded(1, &x))
			good = CODEC_UNBOUNDED;
		next = place + 1;
	}
	return at == end ? good : CODEC_MALFORMED;
}

static void topk_add(const uint8_t *p, size_t len, size_t n, float weight, float *sum)
{
	const uint8_t *at, *end = p + len;
	size_t k = get_le32(p), next = 0;

	at = p + 4 + k * 4;
	for (size_t i = 0; i < k; i++) {
		size_t place = place_get(&at, end, next, n);

		sum[place] += weight * get_float(p + 4 + i * 4);
		next = place + 1;
	}
}

const struct codec codec_topk = {
	.name = "topk",
	.help = "the largest values only, such a fraction of all",
	.id = 6,
	.lossy = true,
	.takes = CODEC_FRACTION,
	.bound = topk_bound,
	.encode = topk_encode,
	.check = topk_check,
	.add = topk_add,
};

/* The bytes are topk's; what the sender chooses them from is not. */
const struct codec codec_dgc = {
	.name = "dgc",
	.help = "the largest values of an accumulated momentum, such a fraction of all",
	.id = 8,
	.lossy = true,
	.momentum = true,
	.takes = CODEC_FRACTION,
	.bound = topk_bound,
	.encode = topk_encode,
	.check = topk_check,
	.add = topk_add,
};
