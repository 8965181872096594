/* SPDX-License-Identifier: ISC */
#include "data/shape/shape_gather.h"

#include <stdlib.h>
#include <string.h>

#include "math/clones.h"

/* Rounding up lets batches of
 * nearly one size reuse their memory. */
bool shape_grow(void *p, size_t *room, size_t n, size_t size)
{
	size_t bytes;
	void *old, *q;

	memcpy(&old, p, sizeof(old));
	if (__builtin_mul_overflow(n, size, &bytes))
		return false;
	if (old && *room >= bytes)
		return true;
	if (__builtin_add_overflow(bytes, bytes / 4 + 63, &bytes))
		return false;
	bytes = bytes / 64 * 64 + 64;
	q = aligned_alloc(64, bytes);
	if (!q)
		return false;
	free(old);
	memcpy(p, &q, sizeof(q));
	*room = bytes;
	/* cppcheck-suppress memleak ; *p owns it */
	return true;
}

#define DIGIT     11
#define IDS_AHEAD 16

/* Sorts n words by their upper 32 bits, which are below `limit`: stable radix sort, least digit
 * first, alternating between `a` and `t`. Returns the one that has the result. */
static uint64_t *radix_sort(uint64_t *a, uint64_t *t, size_t n, size_t limit)
{
	unsigned bits = limit > 1 ? 64 - (unsigned)__builtin_clzll(limit - 1) : 1;
	unsigned passes = (bits + DIGIT - 1) / DIGIT, width = (bits + passes - 1) / passes;
	uint64_t mask = (UINT64_C(1) << width) - 1, *swap;
	uint32_t place[1 << DIGIT];
	uint32_t sum, count;

	for (unsigned shift = 32; passes > 0; passes--, shift += width) {
		memset(place, 0, (mask + 1) * sizeof(*place));
		for (size_t i = 0; i < n; i++)
			place[a[i] >> shift & mask]++;
		sum = 0;
		for (size_t i = 0; i <= mask; i++) {
			count = place[i];
			place[i] = sum;
			sum += count;
		}
		for (size_t i = 0; i < n; i++)
			t[place[a[i] >> shift & mask]++] = a[i];
		swap = a;
		a = t;
		t = swap;
	}
	return a;
}

/* Lists the distinct features of the batch by sorting. (number in the dataset, entry) pairs are
 * sorted in b->id, which the ids then overwrite from the front: id k is written after at least k
 * + 1 pairs were read. */
static void sort_batch_ids(const struct dataset *d, struct batch *b, size_t nnz)
{
	uint64_t *pair = b->id;
	const uint64_t *id = d->id;
	uint32_t number, at, last = UINT32_MAX;
	size_t n = 0;

	for (size_t k = 0; k < nnz; k++)
		pair[k] = (uint64_t)b->col[k] << 32 | k;
	pair = radix_sort(pair, pair + nnz, nnz, d->nids);
	for (size_t k = 0; k < nnz; k++) {
		if (id && k + IDS_AHEAD < nnz)
			__builtin_prefetch(&id[pair[k + IDS_AHEAD] >> 32]);
		at = (uint32_t)pair[k];
		number = (uint32_t)(pair[k] >> 32);
		n += number != last;
		last = number;
		b->id[n - 1] = id ? id[number] : number;
		b->col[at] = (uint32_t)n - 1;
	}
	b->nids = n;
}

/* Number of 64-bit words of a bit set over all features of the dataset. */
static size_t count_set_words(const struct dataset *d)
{
	return d->nids / 64 + 1;
}

/* Is listing the features with a bit set, and counts of its members before each word, cheaper
 * than sorting? Yes when it has not many more words than the batch has entries. */
static bool is_set_cheaper(const struct dataset *d, size_t nnz)
{
	return count_set_words(d) / 4 < nnz;
}

/* Lists the distinct features with the set; the set and its counts lie in b->id, after the ids. */
KERN_CLONES static void set_ids(const struct dataset *d, struct batch *b, size_t nnz)
{
	size_t words = count_set_words(d), number;
	const uint64_t *id = d->id;
	uint64_t *set = b->id + nnz, bits;
	uint32_t *before = (uint32_t *)(void *)(set + words), n = 0;

	memset(set, 0, words * sizeof(*set));
	for (size_t k = 0; k < nnz; k++)
		set[b->col[k] / 64] |= UINT64_C(1) << b->col[k] % 64;
	for (size_t w = 0; w < words; w++) {
		before[w] = n;
		for (bits = set[w]; bits; bits &= bits - 1) {
			number = w * 64 + (unsigned)__builtin_ctzll(bits);
			b->id[n++] = id ? id[number] : number;
		}
	}
	for (size_t k = 0; k < nnz; k++) {
		bits = set[b->col[k] / 64] & ((UINT64_C(1) << b->col[k] % 64) - 1);
		b->col[k] = before[b->col[k] / 64] + (uint32_t)__builtin_popcountll(bits);
	}
	b->nids = n;
}

/* 64-bit words that either way needs in b->id. */
static size_t ids_room(const struct dataset *d, size_t nnz)
{
	return nnz +
	    (is_set_cheaper(d, nnz) ? count_set_words(d) + count_set_words(d) / 2 + 1 : nnz);
}

void shape_gather_ids(const struct dataset *d, struct batch *b, size_t nnz)
{
	is_set_cheaper(d, nnz) ? set_ids(d, b, nnz) : sort_batch_ids(d, b, nnz);
}

static bool field_room(const struct dataset *d, struct batch *b, size_t nnz)
{
	b->fields = d->fields;
	if (d->fields)
		return SHAPE_GROW(b, field, nnz);
	free(b->field);
	b->field = NULL;
	return true;
}

bool shape_sparse_room(const struct dataset *d, struct batch *b, size_t n, uint64_t most)
{
	return most <= UINT32_MAX && SHAPE_GROW(b, start, n + 1) && SHAPE_GROW(b, col, most) &&
	    SHAPE_GROW(b, val, most) && SHAPE_GROW(b, id, ids_room(d, most)) &&
	    field_room(d, b, most);
}
