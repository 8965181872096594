/* SPDX-License-Identifier: ISC */
#include <stdlib.h>

#include "core/err.h"
#include "data/data_pairs.h"
#include "data/data_words.h"
#include "math/clones.h"

/* Makes room for n elements at *p, which has *room bytes; the contents are lost. Rounding up lets batches of
 * nearly one size reuse their memory. */
static bool grow_bytes(void *p, size_t *room, size_t n, size_t size)
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
/* Makes room for n elements in an array of a batch. */
#define GROW(batch, array, n) \
	grow_bytes(&(batch)->array, &(batch)->room.array, n, sizeof(*(batch)->array))

#define LINE 64
/* bytes of a row; beyond these the processor prefetches by itself */
#define FETCH_MAX 4096
#define AHEAD     4 /* rows of a batch are at random places: prefetch so many ahead */

static void prefetch_cells(const void *p, size_t n)
{
	for (size_t i = 0; i < n && i < FETCH_MAX; i += LINE)
		__builtin_prefetch((const char *)p + i);
}

/* Blocks of fixed length become vector code at -O2. Each value is one product, the same on every
 * processor. */
KERN_CLONES static void scale_bytes(const uint8_t *restrict in, float *restrict out, size_t n,
    float scale)
{
	size_t i = 0;

	for (; i + 16 <= n; i += 16)
		for (size_t k = 0; k < 16; k++)
			out[i + k] = (float)in[i + k] * scale;
	for (; i < n; i++)
		out[i] = (float)in[i] * scale;
}

/* Rows are at random places, so the one that is AHEAD examples later is prefetched while this one
 * is copied. */
static void gather_dense(const struct dataset *d, const uint32_t *index, size_t n, struct batch *b)
{
	size_t size = d->x8 ? 1 : sizeof(*d->x);
	const char *rows = d->x8 ? (const char *)d->x8 : (const char *)d->x;

	for (size_t i = 0; i < n; i++) {
		if (i + AHEAD < n)
			prefetch_cells(rows + index[i + AHEAD] * d->cols * size, d->cols * size);
		if (d->x8)
			scale_bytes(d->x8 + index[i] * d->cols, b->x + i * d->cols, d->cols,
			    d->scale);
		else
			memcpy(b->x + i * d->cols, d->x + index[i] * d->cols,
			    d->cols * sizeof(*b->x));
	}
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
 * sorted in b->id, which the ids then overwrite from the front: id k is written after at least k +
 * 1 pairs were read. */
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

/* Is listing the features with a bit set, and counts of its members before each word, cheaper than
 * sorting? Yes when it has not many more words than the batch has entries. */
static bool is_set_cheaper(const struct dataset *d, size_t nnz)
{
	return count_set_words(d) / 4 < nnz;
}

/* Lists the distinct features with the set; the set and its counts lie in b->id, behind the ids. */
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

static void gather_ids(const struct dataset *d, struct batch *b, size_t nnz)
{
	is_set_cheaper(d, nnz) ? set_ids(d, b, nnz) : sort_batch_ids(d, b, nnz);
}

static bool field_room(const struct dataset *d, struct batch *b, size_t nnz)
{
	b->fields = d->fields;
	if (d->fields)
		return GROW(b, field, nnz);
	free(b->field);
	b->field = NULL;
	return true;
}

/* Copies n values of 4 bytes. Examples such as ratings have two or three entries, for which a call
 * of memcpy costs more than the copy. */
static inline void copy_entries(void *restrict to, const void *restrict from, size_t n)
{
	char *y = to;
	const char *x = from;

	if (n > 7) {
		memcpy(y, x, n * 4);
		return;
	}
	/* The bits of n decide, because compilers replace a loop by a call of memcpy. */
	if (n & 4)
		memcpy(y, x, 16);
	if (n & 2)
		memcpy(y + (n & 4) * 4, x + (n & 4) * 4, 8);
	if (n & 1)
		memcpy(y + (n & 6) * 4, x + (n & 6) * 4, 4);
}

/* Copies the entries of the rows, then lists their distinct features. */
static bool gather_sparse(const struct dataset *d, const uint32_t *index, size_t n, struct batch *b)
{
	uint64_t nnz = 0, from, len, at = 0;

	for (size_t i = 0; i < n; i++)
		nnz += d->start[index[i] + 1] - d->start[index[i]];
	if (nnz > UINT32_MAX || !GROW(b, start, n + 1) || !GROW(b, col, nnz) ||
	    !GROW(b, val, nnz) || !GROW(b, id, ids_room(d, nnz)) || !field_room(d, b, nnz))
		return false;
	b->start[0] = 0;
	for (size_t i = 0; i < n; i++) {
		if (i + AHEAD < n) {
			from = d->start[index[i + AHEAD]];
			len = d->start[index[i + AHEAD] + 1] - from;
			prefetch_cells(d->col + from, len * sizeof(*b->col));
			prefetch_cells(d->val + from, len * sizeof(*b->val));
		}
		from = d->start[index[i]];
		len = d->start[index[i] + 1] - from;
		b->start[i + 1] = (uint32_t)(at + len);
		/* Datasets without entries have no arrays of them. */
		if (!len)
			continue;
		copy_entries(b->col + at, d->col + from, len);
		copy_entries(b->val + at, d->val + from, len);
		if (d->field)
			memcpy(b->field + at, d->field + from, len * sizeof(*b->field));
		at += len;
	}
	gather_ids(d, b, nnz);
	return true;
}

/* Reserves for the most entries that n words can have; most words have fewer. False: no memory, or
 * too many entries for their 32-bit numbers. */
static bool gather_words(const struct dataset *d, const uint32_t *index, size_t n, struct batch *b)
{
	size_t most;

	if (__builtin_mul_overflow(n, data_words_most(d->words), &most) || most > UINT32_MAX ||
	    !GROW(b, start, n + 1) || !GROW(b, col, most) || !GROW(b, val, most) ||
	    !GROW(b, id, ids_room(d, most)) || !field_room(d, b, most))
		return false;
	data_words_gather(d->words, index, n, b);
	gather_ids(d, b, b->start[n]);
	return true;
}

/* As gather_words, of pairs. */
static bool gather_pairs(const struct dataset *d, const uint32_t *index, size_t n, struct batch *b)
{
	size_t most = n * DATA_PAIRS_FIELDS;

	if (most > UINT32_MAX || !GROW(b, start, n + 1) || !GROW(b, col, most) ||
	    !GROW(b, val, most) || !GROW(b, id, ids_room(d, most)) || !field_room(d, b, most))
		return false;
	data_pairs_gather(d, index, n, b);
	gather_ids(d, b, b->start[n]);
	return true;
}

static void gather_targets(const struct dataset *d, const uint32_t *index, size_t n,
    struct batch *b)
{
	size_t width = d->targets;

	for (size_t k = 0; k < width; k++) {
		const float *from = d->y + k;
		float *to = b->y + k;

		for (size_t i = 0; i < n; i++, to += width)
			*to = from[index[i] * width];
	}
}

/* Sizes are the caller's job.batch times the width, so running out of memory is an error that names
 * the setting rather than an abort. On an error b keeps its arrays and may be released or filled
 * again. */
enum err_code data_gather(const struct dataset *d, const uint32_t *index, size_t n, struct batch *b,
    struct err *e)
{
	bool good = true, grouped = d->group || d->grouped_by_first;

	b->rows = n;
	b->cols = d->cols;
	b->sparse = d->sparse;
	/* The batch may have had examples of another file, which has weights or groups. */
	if (d->weight) {
		good = GROW(b, weight, n);
	} else {
		free(b->weight);
		b->weight = NULL;
	}
	if (good && grouped) {
		good = GROW(b, group, n);
	} else if (!grouped) {
		free(b->group);
		b->group = NULL;
	}
	if (good && d->name) {
		good = GROW(b, name, n);
	} else if (!d->name) {
		free((void *)b->name);
		b->name = NULL;
	}
	b->targets = d->targets;
	if (good && d->y)
		good = d->targets <= SIZE_MAX / (n + 1) && GROW(b, y, n * d->targets);
	if (d->label)
		good = good && GROW(b, label, n);
	if (good && d->sparse)
		good = (d->words   ? gather_words
		        : d->pairs ? gather_pairs
		                   : gather_sparse)(d, index, n, b);
	else if (good)
		good = d->cols <= SIZE_MAX / (n + 1) && GROW(b, x, n * d->cols);
	if (!good)
		return err_set(e, ERR_NOMEM,
		    "no memory for a batch of %zu examples; make job.batch smaller", n);
	if (!d->sparse)
		gather_dense(d, index, n, b);
	for (size_t i = 0; d->weight && i < n; i++)
		b->weight[i] = d->weight[index[i]];
	for (size_t i = 0; d->group && i < n; i++)
		b->group[i] = d->group[index[i]];
	for (size_t i = 0; d->name && i < n; i++)
		b->name[i] = d->name[index[i]];
	/* The feature's number plus 1, because 0 is no group. */
	for (size_t i = 0; d->grouped_by_first && i < n; i++)
		b->group[i] = b->start[i] < b->start[i + 1] ? b->id[b->col[b->start[i]]] + 1 : 0;
	if (d->y)
		gather_targets(d, index, n, b);
	for (size_t i = 0; d->label && i < n; i++)
		b->label[i] = d->label[index[i]];
	return ERR_OK;
}
