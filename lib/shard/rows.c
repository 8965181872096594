#include "shard/rows.h"

#include "base/mem.h"
#include "base/rng.h"

/* Rows an arena: a power of two, so that finding one is a shift and a mask. */
#define ARENA_SHIFT 8
#define ARENA_ROWS (1u << ARENA_SHIFT)

struct rows {
	uint32_t stride;
	uint32_t count, cap;            /* rows made; places for ids */
	uint64_t *id;                   /* of the i-th row */
	uint32_t *index;                /* row number plus 1 at its hash; 0: free */
	uint32_t mask;                  /* index size minus 1; 0: no index yet */
	float **arena;
	uint32_t narenas;
};

struct rows *rows_new(uint32_t stride)
{
	struct rows *r = mem_alloc(sizeof *r);

	r->stride = stride;
	return r;
}

void rows_free(struct rows *r)
{
	if (!r)
		return;
	for (uint32_t i = 0; i < r->narenas; i++)
		free(r->arena[i]);
	free(r->arena);
	free(r->index);
	free(r->id);
	free(r);
}

/* The partition was chosen by low bits of the same hash, so take others. */
static uint32_t place(const struct rows *r, uint64_t id)
{
	return (uint32_t)(rng_mix(id) >> 8) & r->mask;
}

static float *row(const struct rows *r, uint32_t i)
{
	return r->arena[i >> ARENA_SHIFT] + (size_t)(i & (ARENA_ROWS - 1)) * r->stride;
}

float *rows_get(const struct rows *r, uint64_t id)
{
	if (!r->mask)
		return NULL;
	for (uint32_t at = place(r, id); r->index[at]; at = (at + 1) & r->mask)
		if (r->id[r->index[at] - 1] == id)
			return row(r, r->index[at] - 1);
	return NULL;
}

static void index_row(struct rows *r, uint32_t i)
{
	uint32_t at = place(r, r->id[i]);

	while (r->index[at])
		at = (at + 1) & r->mask;
	r->index[at] = i + 1;
}

/* Room for one more row in ids, index (at most two thirds full) and arenas. */
static bool grow(struct rows *r)
{
	if (r->count == r->cap) {
		uint32_t cap = r->cap ? r->cap + r->cap / 2 : 16;
		uint64_t *id = realloc(r->id, cap * sizeof *id);

		if (!id)
			return false;
		r->id = id;
		r->cap = cap;
	}
	if (!r->mask || r->count >= r->mask / 3 * 2) {
		uint32_t size = r->mask ? (r->mask + 1) * 2 : 32;
		uint32_t *index = mem_try_array(size, sizeof *index);

		if (!index)
			return false;
		free(r->index);
		r->index = index;
		r->mask = size - 1;
		for (uint32_t i = 0; i < r->count; i++)
			index_row(r, i);
	}
	if (r->count >> ARENA_SHIFT >= r->narenas) {
		float **arena = realloc(r->arena, (r->narenas + 1) * sizeof *arena);

		if (!arena)
			return false;
		r->arena = arena;
		arena[r->narenas] = mem_try_array((size_t)ARENA_ROWS * r->stride, sizeof **arena);
		if (!arena[r->narenas])
			return false;
		r->narenas++;
	}
	return true;
}

float *rows_put(struct rows *r, uint64_t id, bool *made)
{
	float *p = rows_get(r, id);

	*made = !p;
	if (p)
		return p;
	if (!grow(r))
		return NULL;
	r->id[r->count] = id;
	index_row(r, r->count);
	p = row(r, r->count++);
	memset(p, 0, r->stride * sizeof *p);
	return p;
}

void rows_clear(struct rows *r)
{
	if (r->count)
		memset(r->index, 0, ((size_t)r->mask + 1) * sizeof *r->index);
	r->count = 0;
}

size_t rows_count(const struct rows *r)
{
	return r->count;
}

float *rows_at(const struct rows *r, size_t i, uint64_t *id)
{
	*id = r->id[i];
	return row(r, (uint32_t)i);
}

size_t rows_bytes(const struct rows *r)
{
	return (size_t)r->narenas * ARENA_ROWS * r->stride * sizeof(float) + r->cap * sizeof *r->id +
	    (r->mask ? ((size_t)r->mask + 1) * sizeof *r->index : 0);
}
