/* SPDX-License-Identifier: ISC */
#include <stdlib.h>

#include "codec/block.h"
#include "codec/codec.h"
#include "codec/places.h"
#include "core/mem.h"
#include "math/clones.h"

/* The values of largest magnitude, a fraction of all (at least one), exact: u32 k, k float32, then
 * their places (places.h). Aji and Heafield, "Sparse Communication for Distributed Gradient
 * Descent", EMNLP 2017.
 *
 * Finding them: a sample gives a lower bound that slightly more than k values reach
 * (guess_threshold); one pass lists the places of these values; a counting selection among them
 * finds the exact k-th magnitude (kth_threshold). */

extern const struct codec codec_topk, codec_dgc;

static size_t topk_bound(double arg, size_t n)
{
	return 4 + block_fraction(arg, n) * (4 + PLACE_BYTES);
}

/* The magnitude as an integer: floats and their bit patterns have the same order, and NaN is the
 * largest. */
static inline int32_t magnitude_bits(float x)
{
	int32_t u;

	memcpy(&u, &x, sizeof u);
	return u & 0x7fffffff;
}

/* The k-th largest, k from 1, by Hoare's selection; reorders a[]. */
static int32_t kth_largest(int32_t *a, size_t n, size_t k)
{
	size_t low = 0, high = n - 1, want = k - 1;

	while (low < high) {
		int32_t pivot = a[low + (high - low) / 2];
		size_t i = low, j = high;

		for (;;) {
			while (a[i] > pivot)
				i++;
			while (a[j] < pivot)
				j--;
			if (i >= j)
				break;
			int32_t t = a[i];

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

/* ---- candidates ---- */

/* Values processed together, while they are in the first-level cache. */
#define RUN 2048u

KERN_CLONES static void mark_above(size_t n, const float *restrict x, int32_t low,
    uint8_t *restrict mark)
{
	for (size_t i = 0; i < n; i++)
		mark[i] = magnitude_bits(x[i]) > low;
}

/* The places of magnitudes above low among the k values (up to RUN) from begin on. */
static size_t places_above(const float *x, size_t begin, size_t k, int32_t low, uint32_t *place)
{
	uint64_t mark[RUN / 8];
	size_t found = 0;

	mark[(k - 1) / 8] = 0;
	mark_above(k, x + begin, low, (uint8_t *)mark);
	/* Eight at a time: with a small fraction, most groups contain none. */
	for (size_t i = 0; i < k; i += 8)
		for (uint64_t w = mark[i / 8]; w; w &= w - 1)
			place[found++] = (uint32_t)(begin + i) + (uint32_t)__builtin_ctzll(w) / 8;
	return found;
}

/* The places, ascending, of magnitudes above low and of the first `ties` equal to it; perhaps of a
 * few more equal ones. */
static size_t places_from(const float *x, size_t n, int32_t low, size_t ties, uint32_t *place)
{
	size_t found = 0;

	for (size_t b = 0; b < n; b += RUN) {
		size_t more = places_above(x, b, block_len(n, b, RUN), ties ? low - 1 : low,
		    place + found);

		for (size_t i = 0; ties && i < more; i++)
			ties -= magnitude_bits(x[place[found + i]]) == low;
		found += more;
	}
	return found;
}

/* ---- the threshold ---- */

/* Several tables of counters, so that equal values do not wait for each other's increments. */
#define BINS   1024u
#define COUNTS 4u
/* Below this number, selection needs no counting. */
#define FEW 512u

struct range {
	int32_t min, max;
};

KERN_CLONES static void find_value_range(size_t n, const int32_t *a, struct range *r)
{
	int32_t min = INT32_MAX, max = 0;

	for (size_t i = 0; i < n; i++) {
		min = a[i] < min ? a[i] : min;
		max = a[i] > max ? a[i] : max;
	}
	*r = (struct range){ min, max };
}

/* Copies the values of the bin (of bins of equal width) that contains the *k-th largest into room,
 * which may be a[]; *k becomes its number among them. Returns how many they are. */
static size_t narrow_to_bin(const int32_t *a, size_t n, const struct range *r, size_t *k,
    int32_t *room)
{
	uint32_t count[BINS][COUNTS] = { 0 }, bin = BINS, shift = 0, min = (uint32_t)r->min;
	size_t larger = 0, in_bin = 0, at = 0;

	while (((uint32_t)r->max - min) >> shift >= BINS)
		shift++;
	for (size_t i = 0; i < n; i++)
		count[((uint32_t)a[i] - min) >> shift][i % COUNTS]++;
	while (larger + in_bin < *k) {
		const uint32_t *c = count[--bin];

		larger += in_bin;
		in_bin = (size_t)c[0] + c[1] + c[2] + c[3];
	}
	/* No branches: membership of the bin is unpredictable. */
	min += bin << shift;
	for (size_t i = 0; at < in_bin; i++) {
		int32_t v = a[i];

		room[at] = v;
		at += ((uint32_t)v - min) >> shift == 0;
	}
	*k -= larger;
	return in_bin;
}

/* The k-th largest of n, k from 1, and the number of values above it. room: for n values. */
static int32_t kth_threshold(const int32_t *a, size_t n, size_t k, int32_t *room, size_t *above)
{
	size_t want = k;
	struct range r;
	int32_t least;

	for (find_value_range(n, a, &r); n > FEW && r.min < r.max; find_value_range(n, a, &r)) {
		n = narrow_to_bin(a, n, &r, &k, room);
		a = room;
	}
	*above = want - k;
	if (r.min == r.max)
		return r.min;
	memmove(room, a, n * sizeof *a);
	least = kth_largest(room, n, k);
	for (size_t i = 0; i < n; i++)
		*above += room[i] > least;
	return least;
}

/* ---- a guess ---- */

/* The sample: one cache line of values in this many, at a varying offset, because in a gradient
 * with rows a fixed one could hit the same columns in each row. */
#define LINE   16u
#define LINES  16u
#define SAMPLE 4096u

/* A bound that k values or more, but not many more, are likely to reach; 0: all reach it. Four
 * standard deviations more than the expected number must reach it in the sample. */
static int32_t guess_threshold(const float *x, size_t n, size_t k)
{
	size_t want = (size_t)((double)k / LINES + 4 * sqrt((double)k / LINES)) + 1, have = 0,
	       above;
	int32_t sample[SAMPLE], room[SAMPLE];

	for (size_t i = 0; (i + 1) * LINE * LINES <= n && have < SAMPLE; i++) {
		const float *line = x +
		    LINE * (i * LINES + ((uint32_t)i * UINT32_C(2654435761) >> 28));

		for (size_t j = 0; j < LINE; j++)
			sample[have++] = magnitude_bits(line[j]);
	}
	return n / LINES > SAMPLE || want > have / 4
	    ? 0
	    : kth_threshold(sample, have, want, room, &above);
}

/* ---- encoding ---- */

/* Finds the magnitude *least that the k largest values reach, how many of them are equal to it
 * (*ties), and a list of places that contains theirs. Returns the length of the list. */
static size_t choose_largest(const float *x, size_t n, size_t k, uint32_t *place, int32_t *least,
    size_t *ties)
{
	int32_t low = guess_threshold(x, n, k), *mag;
	size_t found = low ? places_from(x, n, low - 1, 0, place) : 0, above;
	bool all = found < k;

	found = all ? n : found;
	/* Not zeroed, here and below: most of this memory is never touched. */
	mag = mem_regrow(NULL, 2 * found, sizeof *mag);
	for (size_t i = 0; i < found; i++)
		mag[i] = magnitude_bits(x[all ? i : place[i]]);
	*least = kth_threshold(mag, found, k, mag + found, &above);
	*ties = k - above;
	free(mag);
	return all ? places_from(x, n, *least, *ties, place) : found;
}

/* Layout: u32 k, the k values as floats, then their places (places.h). The values come first so
 * that they are aligned. Exactly k values are written, whatever the number of equal magnitudes. The
 * list of candidate places is allocated; without memory the process aborts. */
static size_t topk_encode(double arg, struct rng *rng, const float *x, size_t n, uint8_t *out)
{
	size_t k = block_fraction(arg, n), ties = 0, found = 0, taken = 0, next = 0;
	uint32_t *place = mem_regrow(NULL, n, sizeof *place);
	uint8_t *at = out + 4 + k * 4;
	int32_t least = 0;

	(void)rng;
	put_le32(out, (uint32_t)k);
	if (k)
		found = choose_largest(x, n, k, place, &least, &ties);
	/* Among equal magnitudes, take the first ones. */
	for (size_t i = 0; i < found && taken < k; i++) {
		int32_t m = magnitude_bits(x[place[i]]);

		if (m < least || (m == least && !ties))
			continue;
		ties -= m == least;
		block_put_float(out + 4 + taken++ * 4, x[place[i]]);
		at = places_put(at, (uint32_t)(place[i] - next));
		next = (size_t)place[i] + 1;
	}
	free(place);
	return (size_t)(at - out);
}

/* Walks over all places, since their count, order and range are not known otherwise. Bytes left
 * over after the last place make the encoding malformed: there is one encoding for a list of
 * places. */
static enum codec_check topk_check(const uint8_t *p, size_t len, size_t n)
{
	const uint8_t *end = p + len, *at;
	size_t k, next = 0;

	if (len < 4)
		return CODEC_MALFORMED;
	k = get_le32(p);
	if (k > n || (len - 4) / 4 < k)
		return CODEC_MALFORMED;
	at = p + 4 + k * 4;
	for (size_t i = 0; i < k; i++) {
		size_t place = places_get(&at, end, next, n);

		if (place >= n)
			return CODEC_MALFORMED;
		next = place + 1;
	}
	if (at != end)
		return CODEC_MALFORMED;
	return vec_all_bounded(k, p + 4) ? CODEC_GOOD : CODEC_BAD_VALUE;
}

/* `check` has been through the places, so none can be outside of sum. */
static void topk_add(const uint8_t *p, size_t len, size_t n, float weight, float *sum)
{
	const uint8_t *at, *end = p + len;
	size_t k = get_le32(p), next = 0;

	at = p + 4 + k * 4;
	for (size_t i = 0; i < k; i++) {
		size_t place = places_get(&at, end, next, n);

		sum[place] += weight * block_get_float(p + 4 + i * 4);
		next = place + 1;
	}
}

const struct codec codec_topk = {
	.name = "topk",
	.help = "the largest values, a fraction F of all values",
	.id = 6,
	.lossy = true,
	.takes = CODEC_FRACTION,
	.bound = topk_bound,
	.encode = topk_encode,
	.check = topk_check,
	.add = topk_add,
};

/* Deep gradient compression: the format is topk's; the sender applies momentum before the
 * selection. */
const struct codec codec_dgc = {
	.name = "dgc",
	.help = "the largest values of an accumulated momentum, a fraction F of all values",
	.id = 8,
	.lossy = true,
	.momentum = true,
	.takes = CODEC_FRACTION,
	.bound = topk_bound,
	.encode = topk_encode,
	.check = topk_check,
	.add = topk_add,
};
