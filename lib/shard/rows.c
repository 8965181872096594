#include "shard/rows.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "base/endian.h"
#include "base/mem.h"
#include "base/rng.h"

/* Entries of a bucket: a cache line.  They fill up from the front, and none is ever taken
 * out alone; what finds no place goes to the next bucket. */
#define PLACES 16u
/* On average no bucket has more. */
#define FULL 14u
#define ARENA_BYTES 4096u
/* Lines of a row that are fetched ahead; the rest the processor sees coming. */
#define AHEAD 8u
#define LINE 64u
/* The partition was chosen by the bits of the hash from 32 on, so the tag takes those
 * above that; the bucket is chosen by the lower 32. */
#define ROW_BITS 12u

struct rows {
	uint32_t stride, row_bytes;     /* floats; with the id before them */
	uint32_t count;
	uint32_t nbuckets;
	uint32_t (*bucket)[PLACES];     /* tag and, below it, the row's number plus 1; 0: free */
	uint32_t row_mask;              /* what of an entry is not tag */
	uint32_t arena_shift;           /* rows of an arena: a power of two */
	uint32_t lines;                 /* of a row, to fetch */
	uint32_t narenas, cap;
	uint8_t **arena;
};

struct rows *rows_new(uint32_t stride)
{
	struct rows *r = mem_alloc(sizeof *r);

	r->stride = stride;
	r->row_bytes = 8 + stride * 4;
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

/* ---- where things are --------------------------------------------------------------- */

/* Any number of buckets will do: the hash as a fraction of them. */
static uint32_t home(const struct rows *r, uint64_t hash)
{
	return (uint32_t)((uint64_t)(uint32_t)hash * r->nbuckets >> 32);
}

static uint32_t tag_of(const struct rows *r, uint64_t hash)
{
	return (uint32_t)(hash >> 32) & ~r->row_mask;
}

static float *row_at(const struct rows *r, uint32_t i)
{
	uint32_t in = i & ((1u << r->arena_shift) - 1);

	return (float *)(void *)(r->arena[i >> r->arena_shift] + (size_t)in * r->row_bytes + 8);
}

static uint64_t id_of(const float *row)
{
	return get_le64((const uint8_t *)row - 8);
}

/* Bit i: entry i has this tag.  Of those that are free, too, when it is 0. */
static uint32_t matches(const uint32_t e[static PLACES], uint32_t tag, uint32_t row_mask)
{
#ifdef __SSE2__
	const __m128i *v = (const __m128i *)(const void *)e;
	__m128i t = _mm_set1_epi32((int)tag), m = _mm_set1_epi32((int)~row_mask);
	__m128i a = _mm_cmpeq_epi32(_mm_and_si128(_mm_load_si128(v), m), t), b = _mm_cmpeq_epi32(_mm_and_si128(_mm_load_si128(v + 1), m), t);
	__m128i c = _mm_cmpeq_epi32(_mm_and_si128(_mm_load_si128(v + 2), m), t), d = _mm_cmpeq_epi32(_mm_and_si128(_mm_load_si128(v + 3), m), t);

	return (uint32_t)_mm_movemask_epi8(_mm_packs_epi16(_mm_packs_epi32(a, b), _mm_packs_epi32(c, d)));
#else
	uint32_t bits = 0;

	for (uint32_t i = 0; i < PLACES; i++)
		bits |= (uint32_t)((e[i] & ~row_mask) == tag) << i;
	return bits;
#endif
}

static bool is_full(const uint32_t e[static PLACES])
{
	return e[PLACES - 1] != 0;
}

static uint32_t next_bucket(const struct rows *r, uint32_t at)
{
	return at + 1 == r->nbuckets ? 0 : at + 1;
}

/* The row, or NULL. */
static float *seek(const struct rows *r, uint64_t id, uint64_t hash)
{
	uint32_t tag = tag_of(r, hash);

	if (!r->nbuckets)
		return NULL;
	for (uint32_t at = home(r, hash);; at = next_bucket(r, at)) {
		const uint32_t *e = r->bucket[at];

		for (uint32_t m = matches(e, tag, r->row_mask); m; m &= m - 1) {
			uint32_t i = e[__builtin_ctz(m)] & r->row_mask;
			float *row = i ? row_at(r, i - 1) : NULL;

			if (row && id_of(row) == id)
				return row;
		}
		if (!is_full(e))
			return NULL;
	}
}

/* ---- growing ------------------------------------------------------------------------- */

static void index_row(struct rows *r, uint32_t i, uint64_t hash)
{
	uint32_t at = home(r, hash);

	while (is_full(r->bucket[at]))
		at = next_bucket(r, at);
	r->bucket[at][__builtin_ctz(matches(r->bucket[at], 0, 0))] = tag_of(r, hash) | (i + 1);
}

static void index_all(struct rows *r)
{
	uint64_t hash[ROWS_BLOCK];

	for (uint32_t at = 0, n; at < r->count; at += n) {
		n = r->count - at < ROWS_BLOCK ? r->count - at : ROWS_BLOCK;
		for (uint32_t i = 0; i < n; i++) {
			hash[i] = rng_mix(id_of(row_at(r, at + i)));
			__builtin_prefetch(r->bucket[home(r, hash[i])], 1);
		}
		for (uint32_t i = 0; i < n; i++)
			index_row(r, at + i, hash[i]);
	}
}

static bool grow_index(struct rows *r)
{
	uint64_t n = r->nbuckets + r->nbuckets / 3 + UINT64_C(1), mask = (1u << ROW_BITS) - 1;
	uint32_t (*bucket)[PLACES];

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
	/* Not zeroed: rows are, when they are made. */
	r->arena[r->narenas] = malloc((size_t)r->row_bytes << r->arena_shift);
	r->narenas += r->arena[r->narenas] != NULL;
	return r->count >> r->arena_shift < r->narenas;
}

/* A row that is not there yet. */
static float *add(struct rows *r, uint64_t id, uint64_t hash)
{
	float *row;

	if ((r->count >= (uint64_t)r->nbuckets * FULL && !grow_index(r)) || (r->count >> r->arena_shift >= r->narenas && !grow_arenas(r)))
		return NULL;
	row = row_at(r, r->count);
	put_le64((uint8_t *)row - 8, id);
	memset(row, 0, r->stride * sizeof *row);
	index_row(r, r->count++, hash);
	return row;
}

/* ---- look-ups ------------------------------------------------------------------------ */

float *rows_get(const struct rows *r, uint64_t id)
{
	return seek(r, id, rng_mix(id));
}

float *rows_put(struct rows *r, uint64_t id, bool *made)
{
	uint64_t hash = rng_mix(id);
	float *row = seek(r, id, hash);

	*made = !row;
	return row ? row : add(r, id, hash);
}

struct block {
	uint64_t id[ROWS_BLOCK], hash[ROWS_BLOCK];
};

/* The first row whose entry matches, if any: rarely it is another's, or its own is not in
 * this bucket. */
static float *likely(const struct rows *r, uint64_t hash)
{
	const uint32_t *e = r->bucket[home(r, hash)];
	uint32_t m = matches(e, tag_of(r, hash), r->row_mask), i = m ? e[__builtin_ctz(m)] & r->row_mask : 0;

	return i ? row_at(r, i - 1) : NULL;
}

static void fetch(const struct rows *r, const float *row)
{
	const uint8_t *at = (const uint8_t *)row - 8;

	__builtin_prefetch(at, 1);
	for (uint32_t k = 1; k < r->lines; k++)
		__builtin_prefetch(at + k * LINE, 1);
	__builtin_prefetch(at + r->row_bytes - 1, 1);
}

/* Row i of each that is likely, the memory under way meanwhile. */
static void look(const struct rows *r, const uint8_t *ids, uint32_t n, struct block *b, float **row)
{
	for (uint32_t i = 0; i < n; i++) {
		b->id[i] = get_le64(ids + (size_t)i * 8);
		b->hash[i] = rng_mix(b->id[i]);
		row[i] = NULL;
	}
	if (!r->nbuckets)
		return;
	for (uint32_t i = 0; i < n; i++)
		__builtin_prefetch(r->bucket[home(r, b->hash[i])]);
	for (uint32_t i = 0; i < n; i++) {
		row[i] = likely(r, b->hash[i]);
		if (row[i])
			fetch(r, row[i]);
	}
}

static float *settle(const struct rows *r, const struct block *b, uint32_t i, float *row)
{
	return row && id_of(row) == b->id[i] ? row : seek(r, b->id[i], b->hash[i]);
}

void rows_find(const struct rows *r, const uint8_t *ids, uint32_t n, float **row)
{
	struct block b;

	look(r, ids, n, &b, row);
	for (uint32_t i = 0; i < n; i++)
		row[i] = settle(r, &b, i, row[i]);
}

bool rows_make(struct rows *r, const uint8_t *ids, uint32_t n, float **row, uint64_t *made)
{
	struct block b;

	*made = 0;
	look(r, ids, n, &b, row);
	for (uint32_t i = 0; i < n; i++) {
		row[i] = settle(r, &b, i, row[i]);
		if (row[i])
			continue;
		row[i] = add(r, b.id[i], b.hash[i]);
		if (!row[i])
			return false;
		*made |= UINT64_C(1) << i;
	}
	return true;
}

/* ---- all of them ---------------------------------------------------------------------- */

void rows_clear(struct rows *r)
{
	if (r->count)
		memset(r->bucket, 0, (size_t)r->nbuckets * sizeof *r->bucket);
	r->count = 0;
}

/* Without the places of those that went; a larger index than the rest wants goes, too. */
static void shrink(struct rows *r)
{
	uint32_t want = (r->count >> r->arena_shift) + 1, n = r->count / FULL * 4 / 3 + 1;
	uint32_t (*bucket)[PLACES] = n < r->nbuckets ? mem_try_array(n, sizeof *bucket) : NULL;

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
		float *row = row_at(r, i), *to = row_at(r, left);

		if (!keeps(ctx, id_of(row), row))
			continue;
		if (to != row)
			memcpy((uint8_t *)to - 8, (const uint8_t *)row - 8, r->row_bytes);
		left++;
	}
	r->count = left;
	if (left < had)
		shrink(r);
	return had - left;
}

size_t rows_count(const struct rows *r)
{
	return r->count;
}

float *rows_at(const struct rows *r, size_t i, uint64_t *id)
{
	float *row = row_at(r, (uint32_t)i);

	*id = id_of(row);
	return row;
}

size_t rows_bytes(const struct rows *r)
{
	return ((size_t)r->narenas * r->row_bytes << r->arena_shift) + r->cap * sizeof *r->arena + (size_t)r->nbuckets * sizeof *r->bucket;
}

int rows_by_id(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}
