/* SPDX-License-Identifier: ISC */
#include "shard/rows.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "core/endian.h"
#include "core/keyed_hash.h"
#include "core/mem.h"

/* Entries of a bucket: one cache line. A bucket fills up from the front, and entries are never
 * removed one by one. An entry that finds no place goes to the next bucket (linear probing). */
#define PLACES 16u
/* Greatest average number of entries in a bucket. */
#define FULL        14u
#define ARENA_BYTES 4096u
/* Cache lines of a row that are prefetched; the processor foresees the rest by itself. */
#define AHEAD 8u
#define LINE  64u
/* The bucket is chosen by the lower 32 bits of the hash; the tag is taken from the upper ones. */
#define ROW_BITS 12u

struct rows {
	uint32_t row_bytes; /* with the id before it */
	uint32_t count;
	uint32_t nbuckets;
	uint32_t (*bucket)[PLACES]; /* tag and, below it, the row's number plus 1; 0: free */
	/* Bits of an entry that are the row's number, not the tag. */
	uint32_t row_mask;
	uint32_t arena_shift; /* rows of an arena: a power of two */
	uint32_t lines;       /* cache lines of a row to prefetch */
	uint32_t narenas, cap;
	uint8_t **arena;
};

struct rows *rows_new(uint32_t bytes)
{
	struct rows *r = mem_alloc(sizeof *r);

	/* Workers choose the ids, and a push of many that lie in one bucket would take quadratic
	 * time under the partition's lock. */
	keyed_hash_begin();
	r->row_bytes = 8 + bytes;
	r->lines = r->row_bytes / LINE < AHEAD ? r->row_bytes / LINE : AHEAD;
	while ((UINT64_C(2) << r->arena_shift) * r->row_bytes <= ARENA_BYTES)
		r->arena_shift++;
	return r;
}

void rows_free(struct rows *r)
{
	if (!r)
		return;
	for (uint32_t i = 0; i < r->narenas; i++)
		free(r->arena[i]);
	free(r->arena);
	free(r->bucket);
	free(r);
}

/* ---- positions ---- */

/* The bucket where the search for a hash begins. The hash is taken as a fraction, so the number of
 * buckets need not be a power of two. */
static uint32_t home_bucket(const struct rows *r, uint64_t hash)
{
	return (uint32_t)((uint64_t)(uint32_t)hash * r->nbuckets >> 32);
}

/* The tag of an entry: the bits of the hash that the row's number leaves free. */
static uint32_t entry_tag(const struct rows *r, uint64_t hash)
{
	return (uint32_t)(hash >> 32) & ~r->row_mask;
}

/* The address of row i. Arenas have a power of two of rows, so a shift and a mask find it. */
static void *row_at(const struct rows *r, uint32_t i)
{
	uint32_t in = i & ((1u << r->arena_shift) - 1);

	return r->arena[i >> r->arena_shift] + (size_t)in * r->row_bytes + 8;
}

static uint64_t row_id_before(const void *row)
{
	return get_le64((const uint8_t *)row - 8);
}

/* Bit i is set when entry i has this tag. Free entries have tag 0, so with tag 0 they match,
 * too. */
static uint32_t matching_entries(const uint32_t e[static PLACES], uint32_t tag, uint32_t row_mask)
{
#ifdef __SSE2__
	const __m128i *v = (const __m128i *)(const void *)e;
	__m128i t = _mm_set1_epi32((int)tag), m = _mm_set1_epi32((int)~row_mask);
	__m128i a = _mm_cmpeq_epi32(_mm_and_si128(_mm_load_si128(v), m), t),
	        b = _mm_cmpeq_epi32(_mm_and_si128(_mm_load_si128(v + 1), m), t);
	__m128i c = _mm_cmpeq_epi32(_mm_and_si128(_mm_load_si128(v + 2), m), t),
	        d = _mm_cmpeq_epi32(_mm_and_si128(_mm_load_si128(v + 3), m), t);

	return (uint32_t)_mm_movemask_epi8(
	    _mm_packs_epi16(_mm_packs_epi32(a, b), _mm_packs_epi32(c, d)));
#else
	uint32_t bits = 0;

	for (uint32_t i = 0; i < PLACES; i++)
		bits |= (uint32_t)((e[i] & ~row_mask) == tag) << i;
	return bits;
#endif
}

/* Looks at the last entry alone, because a bucket fills up from the front. */
static bool bucket_is_full(const uint32_t e[static PLACES])
{
	return e[PLACES - 1] != 0;
}

static uint32_t next_bucket(const struct rows *r, uint32_t at)
{
	return at + 1 == r->nbuckets ? 0 : at + 1;
}

/* Searches the buckets for an id; NULL when it is not there. */
static void *seek_row(const struct rows *r, uint64_t id, uint64_t hash)
{
	uint32_t tag = entry_tag(r, hash);

	if (!r->nbuckets)
		return NULL;
	for (uint32_t at = home_bucket(r, hash);; at = next_bucket(r, at)) {
		const uint32_t *e = r->bucket[at];

		for (uint32_t m = matching_entries(e, tag, r->row_mask); m; m &= m - 1) {
			uint32_t i = e[__builtin_ctz(m)] & r->row_mask;
			void *row = i ? row_at(r, i - 1) : NULL;

			if (row && row_id_before(row) == id)
				return row;
		}
		if (!bucket_is_full(e))
			return NULL;
	}
}

/* ---- growing ---- */

/* Enters row i in the first free place from its bucket on. */
static void index_row(struct rows *r, uint32_t i, uint64_t hash)
{
	uint32_t at = home_bucket(r, hash);

	while (bucket_is_full(r->bucket[at]))
		at = next_bucket(r, at);
	r->bucket[at][__builtin_ctz(matching_entries(r->bucket[at], 0, 0))] = entry_tag(r, hash) |
	    (i + 1);
}

/* Enters all rows in an empty index. */
static void index_all(struct rows *r)
{
	uint64_t hash[ROWS_BLOCK];

	for (uint32_t at = 0, n; at < r->count; at += n) {
		n = r->count - at < ROWS_BLOCK ? r->count - at : ROWS_BLOCK;
		for (uint32_t i = 0; i < n; i++) {
			hash[i] = keyed_hash(row_id_before(row_at(r, at + i)));
			__builtin_prefetch(r->bucket[home_bucket(r, hash[i])], 1);
		}
		for (uint32_t i = 0; i < n; i++)
			index_row(r, at + i, hash[i]);
	}
}

/* Makes the index a third larger, and the row numbers wider where needed. False: no memory. */
static bool grow_index(struct rows *r)
{
	uint64_t n = r->nbuckets + r->nbuckets / 3 + UINT64_C(1), mask = (1u << ROW_BITS) - 1;
	uint32_t(*bucket)[PLACES];

	while (mask < n * FULL)
		mask = mask * 2 + 1;
	bucket = mask <= UINT32_MAX ? mem_try_array(n, sizeof *bucket) : NULL;
	if (!bucket)
		return false;
	free(r->bucket);
	r->bucket = bucket;
	r->nbuckets = (uint32_t)n;
	r->row_mask = (uint32_t)mask;
	index_all(r);
	return true;
}

/* Adds an arena. False: no memory. */
static bool grow_arenas(struct rows *r)
{
	if (r->narenas == r->cap) {
		uint32_t cap = r->cap + r->cap / 8 + 1;
		uint8_t **arena = realloc(r->arena, cap * sizeof *arena);

		if (!arena)
			return false;
		r->arena = arena;
		r->cap = cap;
	}
	/* Not zeroed: each row is, when it is made. */
	r->arena[r->narenas] = malloc((size_t)r->row_bytes << r->arena_shift);
	r->narenas += r->arena[r->narenas] != NULL;
	return r->count >> r->arena_shift < r->narenas;
}

/* Makes the row of an id that has none. NULL: no memory. */
static void *append_row(struct rows *r, uint64_t id, uint64_t hash)
{
	void *row;

	if ((r->count >= (uint64_t)r->nbuckets * FULL && !grow_index(r)) ||
	    (r->count >> r->arena_shift >= r->narenas && !grow_arenas(r)))
		return NULL;
	row = row_at(r, r->count);
	put_le64((uint8_t *)row - 8, id);
	memset(row, 0, r->row_bytes - 8);
	index_row(r, r->count++, hash);
	return row;
}

/* ---- look-ups ---- */

void *rows_get(const struct rows *r, uint64_t id)
{
	return seek_row(r, id, keyed_hash(id));
}

void *rows_put(struct rows *r, uint64_t id, bool *made)
{
	uint64_t hash = keyed_hash(id);
	void *row = seek_row(r, id, hash);

	*made = !row;
	return row ? row : append_row(r, id, hash);
}

/* The ids of one block and their hashes, which the second pass needs again. */
struct block {
	uint64_t id[ROWS_BLOCK], hash[ROWS_BLOCK];
};

/* The first row whose entry matches, or NULL. It is rarely a wrong one: another id has the same
 * tag, or the row is in a later bucket. */
static void *likely_row(const struct rows *r, uint64_t hash)
{
	const uint32_t *e = r->bucket[home_bucket(r, hash)];
	uint32_t m = matching_entries(e, entry_tag(r, hash), r->row_mask),
	         i = m ? e[__builtin_ctz(m)] & r->row_mask : 0;

	return i ? row_at(r, i - 1) : NULL;
}

/* Begins to load the row for writing: its id, a few lines, and its last byte, which may be on one
 * more line. */
static void prefetch_row(const struct rows *r, const void *row)
{
	const uint8_t *at = (const uint8_t *)row - 8;

	__builtin_prefetch(at, 1);
	for (uint32_t k = 1; k < r->lines; k++)
		__builtin_prefetch(at + k * LINE, 1);
	__builtin_prefetch(at + r->row_bytes - 1, 1);
}

/* Loads the buckets and then the rows of n hashes, and gets the likely rows. t: a copy of the
 * table, whose members need not be read again after each write to row[]. */
static void prefetch_block(struct rows t, const struct block *b, uint32_t n, void **row)
{
	for (uint32_t i = 0; i < n; i++)
		__builtin_prefetch(t.bucket[home_bucket(&t, b->hash[i])]);
	for (uint32_t i = 0; i < n; i++) {
		row[i] = likely_row(&t, b->hash[i]);
		if (row[i])
			prefetch_row(&t, row[i]);
	}
}

/* Finds the likely row of each id, and prefetches buckets and rows meanwhile. */
static void look_up_block(const struct rows *r, const uint8_t *ids, uint32_t n, struct block *b,
    void **row)
{
	for (uint32_t i = 0; i < n; i++) {
		b->id[i] = get_le64(ids + (size_t)i * 8);
		b->hash[i] = keyed_hash(b->id[i]);
		row[i] = NULL;
	}
	if (r->nbuckets)
		prefetch_block(*r, b, n, row);
}

/* The row of id i: the likely one if its id is right, else the result of a search. */
static void *confirm_row(const struct rows *r, const struct block *b, uint32_t i, void *row)
{
	return row && row_id_before(row) == b->id[i] ? row : seek_row(r, b->id[i], b->hash[i]);
}

void rows_find(const struct rows *r, const uint8_t *ids, uint32_t n, void **row)
{
	struct block b;

	look_up_block(r, ids, n, &b, row);
	for (uint32_t i = 0; i < n; i++)
		row[i] = confirm_row(r, &b, i, row[i]);
}

bool rows_make(struct rows *r, const uint8_t *ids, uint32_t n, void **row, uint64_t *made)
{
	struct block b;

	*made = 0;
	look_up_block(r, ids, n, &b, row);
	for (uint32_t i = 0; i < n; i++) {
		row[i] = confirm_row(r, &b, i, row[i]);
		if (row[i])
			continue;
		row[i] = append_row(r, b.id[i], b.hash[i]);
		if (!row[i])
			return false;
		*made |= UINT64_C(1) << i;
	}
	return true;
}

/* ---- all rows ---- */

void rows_clear(struct rows *r)
{
	if (r->count)
		memset(r->bucket, 0, (size_t)r->nbuckets * sizeof *r->bucket);
	r->count = 0;
}

/* After rows were removed: builds the index again, smaller if the rows left need less, and frees
 * empty arenas. */
static void shrink_memory(struct rows *r)
{
	uint32_t want = (r->count >> r->arena_shift) + 1, n = r->count / FULL * 4 / 3 + 1;
	uint32_t(*bucket)[PLACES] = n < r->nbuckets ? mem_try_array(n, sizeof *bucket) : NULL;

	while (r->narenas > want)
		free(r->arena[--r->narenas]);
	if (bucket) {
		free(r->bucket);
		r->bucket = bucket;
		r->nbuckets = n;
	} else {
		memset(r->bucket, 0, (size_t)r->nbuckets * sizeof *r->bucket);
	}
	index_all(r);
}

size_t rows_sift(struct rows *r, rows_keeps_fn *keeps, void *ctx)
{
	uint32_t had = r->count, left = 0;

	for (uint32_t i = 0; i < had; i++) {
		void *row = row_at(r, i), *to = row_at(r, left);

		if (!keeps(ctx, row_id_before(row), row))
			continue;
		if (to != row)
			memcpy((uint8_t *)to - 8, (const uint8_t *)row - 8, r->row_bytes);
		left++;
	}
	r->count = left;
	if (left < had)
		shrink_memory(r);
	return had - left;
}

size_t rows_count(const struct rows *r)
{
	return r->count;
}

void *rows_at(const struct rows *r, size_t i, uint64_t *id)
{
	void *row = row_at(r, (uint32_t)i);

	*id = row_id_before(row);
	return row;
}

size_t rows_bytes(const struct rows *r)
{
	return ((size_t)r->narenas * r->row_bytes << r->arena_shift) + r->cap * sizeof *r->arena +
	    (size_t)r->nbuckets * sizeof *r->bucket;
}

int rows_by_id(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}
