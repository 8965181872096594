#include <stdlib.h>

#include "base/mem.h"
#include "codec/block.h"
#include "codec/codec.h"
#include "codec/places.h"
#include "kern/clones.h"

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
static inline int32_t magnitude(float x)
{
	int32_t u;

	memcpy(&u, &x, sizeof u);
	return u & 0x7fffffff;
}

/* The k-th largest, k from 1; a[] is mixed up.  Hoare's selection. */
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

/* ---- candidates ------------------------------------------------------------------------ */

/* So many are looked at together, in the first cache. */
#define RUN 2048u

KERN_CLONES static void mark_above(size_t n, const float *restrict x, int32_t low, uint8_t *restrict mark)
{
	for (size_t i = 0; i < n; i++)
		mark[i] = magnitude(x[i]) > low;
}

/* The places of magnitudes above low among the k, up to RUN, from begin on. */
static size_t places_above(const float *x, size_t begin, size_t k, int32_t low, uint32_t *place)
{
	uint64_t mark[RUN / 8];
	size_t found = 0;

	mark[(k - 1) / 8] = 0;
	mark_above(k, x + begin, low, (uint8_t *)mark);
	/* Eight at a time: of a small fraction most have none. */
	for (size_t i = 0; i < k; i += 8)
		for (uint64_t w = mark[i / 8]; w; w &= w - 1)
			place[found++] = (uint32_t)(begin + i) + (uint32_t)__builtin_ctzll(w) / 8;
	return found;
}

/* The places of magnitudes above low, ascending, and of those that are equal to it the first
 * `ties`, and maybe a few more. */
static size_t places_from(const float *x, size_t n, int32_t low, size_t ties, uint32_t *place)
{
	size_t found = 0;

	for (size_t b = 0; b < n; b += RUN) {
		size_t more = places_above(x, b, block_len(n, b, RUN), ties ? low - 1 : low, place + found);

		for (size_t i = 0; ties && i < more; i++)
			ties -= magnitude(x[place[found + i]]) == low;
		found += more;
	}
	return found;
}

/* ---- the threshold --------------------------------------------------------------------- */

/* Several counts, so that values that are alike do not wait for each other. */
#define BINS 1024u
#define COUNTS 4u
/* So few are chosen among without counting. */
#define FEW 512u

struct range {
	int32_t min, max;
};

KERN_CLONES static void range_of(size_t n, const int32_t *a, struct range *r)
{
	int32_t min = INT32_MAX, max = 0;

	for (size_t i = 0; i < n; i++) {
		min = a[i] < min ? a[i] : min;
		max = a[i] > max ? a[i] : max;
	}
	*r = (struct range){ min, max };
}

/* Those in the bin of equal width that the *k-th largest lies in, in room, which may be a[];
 * *k is then counted among them.  Returns how many. */
static size_t narrow(const int32_t *a, size_t n, const struct range *r, size_t *k, int32_t *room)
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
	/* Without branches: which are in it is not to be foreseen. */
	min += bin << shift;
	for (size_t i = 0; at < in_bin; i++) {
		int32_t v = a[i];

		room[at] = v;
		at += ((uint32_t)v - min) >> shift == 0;
	}
	*k -= larger;
	return in_bin;
}

/* The k-th largest of n, k from 1, and how many are above it.  room: for n. */
static int32_t threshold(const int32_t *a, size_t n, size_t k, int32_t *room, size_t *above)
{
	size_t want = k;
	struct range r;
	int32_t least;

	for (range_of(n, a, &r); n > FEW && r.min < r.max; range_of(n, a, &r)) {
		n = narrow(a, n, &r, &k, room);
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

/* ---- a guess --------------------------------------------------------------------------- */

/* Looked at is one line of values in so many, at a place in them that is not the same in
 * each: where a gradient has rows, they must not be looked at in the same columns. */
#define LINE 16u
#define LINES 16u
#define SAMPLE 4096u

/* A bound that is likely to be reached by k values or more, but not by many more; 0 is by
 * all.  In the sample four deviations more are to reach it than would be right. */
static int32_t guess(const float *x, size_t n, size_t k)
{
	size_t want = (size_t)((double)k / LINES + 4 * sqrt((double)k / LINES)) + 1, have = 0, above;
	int32_t sample[SAMPLE], room[SAMPLE];

	for (size_t i = 0; (i + 1) * LINE * LINES <= n && have < SAMPLE; i++) {
		const float *line = x + LINE * (i * LINES + ((uint32_t)i * UINT32_C(2654435761) >> 28));

		for (size_t j = 0; j < LINE; j++)
			sample[have++] = magnitude(line[j]);
	}
	return n / LINES > SAMPLE || want > have / 4 ? 0 : threshold(sample, have, want, room, &above);
}

/* ---- encoding -------------------------------------------------------------------------- */

/* The magnitude that the k largest reach, how many of them are equal to it, and their places,
 * maybe among others.  Returns how many places. */
static size_t choose(const float *x, size_t n, size_t k, uint32_t *place, int32_t *least, size_t *ties)
{
	int32_t low = guess(x, n, k), *mag;
	size_t found = low ? places_from(x, n, low - 1, 0, place) : 0, above;
	bool all = found < k;

	found = all ? n : found;
	/* Not zeroed, here and below: most of it is never touched. */
	mag = mem_regrow(NULL, 2 * found, sizeof *mag);
	for (size_t i = 0; i < found; i++)
		mag[i] = magnitude(x[all ? i : place[i]]);
	*least = threshold(mag, found, k, mag + found, &above);
	*ties = k - above;
	free(mag);
	return all ? places_from(x, n, *least, *ties, place) : found;
}

static size_t topk_encode(double arg, struct rng *rng, const float *x, size_t n, uint8_t *out)
{
	size_t k = fraction_of(arg, n), ties = 0, found = 0, taken = 0, next = 0;
	uint32_t *place = mem_regrow(NULL, n, sizeof *place);
	uint8_t *at = out + 4 + k * 4;
	int32_t least = 0;

	(void)rng;
	put_le32(out, (uint32_t)k);
	if (k)
		found = choose(x, n, k, place, &least, &ties);
	/* Of those that are alike the first. */
	for (size_t i = 0; i < found && taken < k; i++) {
		int32_t m = magnitude(x[place[i]]);

		if (m < least || (m == least && !ties))
			continue;
		ties -= m == least;
		put_float(out + 4 + taken++ * 4, x[place[i]]);
		at = place_put(at, (uint32_t)(place[i] - next));
		next = (size_t)place[i] + 1;
	}
	free(place);
	return (size_t)(at - out);
}

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
		size_t place = place_get(&at, end, next, n);

		if (place >= n)
			return CODEC_MALFORMED;
		next = place + 1;
	}
	if (at != end)
		return CODEC_MALFORMED;
	return vec_all_bounded(k, p + 4) ? CODEC_GOOD : CODEC_UNBOUNDED;
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
