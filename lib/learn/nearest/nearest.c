/* SPDX-License-Identifier: ISC */
#include "nearest/nearest.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/keyed_hash.h"
#include "core/mem.h"
#include "math/int_dot.h"
#include "math/vec.h"

struct nearest {
	size_t width, pairs;
	enum nearest_metric metric;
	size_t n, room; /* rows; room is a multiple of INT_DOT_ROWS */
	uint64_t *id;
	float *v;     /* (room, width) */
	int8_t *code; /* groups of rows (int_dot.h) */
	/* (room) of the bound of a row's score for a query of length 1: the step of its codes, and what the
	 * bound adds to the product of the codes. Rows n .. room-1 have zeroes. */
	float *scale, *slack;
	/* An open hash table with linear probing: the numbers of rows by their ids, plus 1; 0 is free, and at
	 * least half of the slots are. */
	uint32_t *slot;
	size_t slots;       /* a power of two, or 0 */
	double query_error; /* the most that rounding changes a query of length 1 */
};

/* Bytes of rows that are compared with all queries before the next ones are: half of a first-level
 * cache. */
#define BLOCK_BYTES 16384u
/* Queries of a pass at most, so that they stay in the cache, too. */
#define PASS_QUERIES 64u
/* Covers the roundings of a bound and of a score, each at most 2^-24 of the product of the lengths. */
#define ROUNDINGS 0x1p-20

struct nearest *nearest_new(size_t width, enum nearest_metric metric)
{
	struct nearest *x = mem_alloc(sizeof *x);

	keyed_hash_begin();
	x->width = width;
	x->pairs = (width + 1) / 2;
	x->metric = metric;
	/* A value of a vector of length 1 is at most 1, so half a step is at most 1 / (2 max). */
	x->query_error = sqrt((double)width) / (2.0 * int_dot_vector_max(x->pairs)) * (1 + 1e-6);
	return x;
}

void nearest_free(struct nearest *x)
{
	if (!x)
		return;
	free(x->id);
	free(x->v);
	free(x->code);
	free(x->scale);
	free(x->slack);
	free(x->slot);
	free(x);
}

size_t nearest_count(const struct nearest *x)
{
	return x->n;
}

/* ---- ids ---- */

static size_t first_slot(const struct nearest *x, uint64_t id)
{
	return keyed_hash(id) & (x->slots - 1);
}

/* The slot of an id, or the free one where it would be. The table has slots. */
static size_t find_slot(const struct nearest *x, uint64_t id)
{
	size_t at = first_slot(x, id);

	while (x->slot[at] && x->id[x->slot[at] - 1] != id)
		at = (at + 1) & (x->slots - 1);
	return at;
}

/* Frees a slot, and moves those after it that would not be found any more. */
static void free_slot(struct nearest *x, size_t at)
{
	size_t mask = x->slots - 1;

	for (size_t next = (at + 1) & mask; x->slot[next]; next = (next + 1) & mask) {
		size_t home = first_slot(x, x->id[x->slot[next] - 1]);

		if (((next - home) & mask) < ((next - at) & mask))
			continue;
		x->slot[at] = x->slot[next];
		at = next;
	}
	x->slot[at] = 0;
}

static bool index_ids(struct nearest *x, size_t room)
{
	size_t slots = 64;
	uint32_t *fresh;

	while (slots < 2 * room)
		slots *= 2;
	if (slots == x->slots)
		return true;
	fresh = mem_try_array(slots, sizeof *fresh);
	if (!fresh)
		return false;
	free(x->slot);
	x->slot = fresh;
	x->slots = slots;
	for (size_t r = 0; r < x->n; r++)
		x->slot[find_slot(x, x->id[r])] = (uint32_t)(r + 1);
	return true;
}

/* ---- rows ---- */

/* Moves the first `used` of an array's elements to a new one with room for n. False: no memory. */
static bool grow_array(void **p, size_t used, size_t n, size_t size)
{
	void *fresh = mem_try_array(n, size);

	if (!fresh)
		return false;
	if (used > 0)
		memcpy(fresh, *p, used * size);
	free(*p);
	*p = fresh;
	return true;
}

#define GROW(member, used, n) \
	grow_array((void **)(void *)&x->member, (used), (n), sizeof *x->member)

enum err_code nearest_reserve(struct nearest *x, size_t n, struct err *e)
{
	size_t room = (n + INT_DOT_ROWS - 1) / INT_DOT_ROWS * INT_DOT_ROWS, used = x->room;

	if (n <= x->room)
		return ERR_OK;
	if (n > NEAREST_ROWS_MAX)
		return err_set(e, ERR_LIMIT, "an index of rows has at most %zu rows",
		    NEAREST_ROWS_MAX);
	if (!GROW(id, used, room) || !GROW(v, used * x->width, room * x->width) ||
	    !GROW(code, used * 2 * x->pairs, room * 2 * x->pairs) || !GROW(scale, used, room) ||
	    !GROW(slack, used, room) || !index_ids(x, room))
		return err_set(e, ERR_NOMEM, "no memory for an index of %zu rows of %zu values", n,
		    x->width);
	x->room = room;
	return ERR_OK;
}

static int8_t *code_of(const struct nearest *x, size_t r, size_t k)
{
	return x->code + (r / INT_DOT_ROWS * x->pairs + k / 2) * 2 * INT_DOT_ROWS +
	    2 * (r % INT_DOT_ROWS) + k % 2;
}

/* The least float that is not below v. */
static float float_above(double v)
{
	float f = (float)v;

	return (double)f < v ? nextafterf(f, INFINITY) : f;
}

/* Makes the codes of row r of its floats, and what its bound needs. */
static void encode_row(struct nearest *x, size_t r)
{
	const float *v = x->v + r * x->width;
	float most = vec_max_abs(x->width, v), step = most / INT_DOT_ROW_MAX;
	double error = 0, length = 0, by = 1;
	bool can = step > 0;

	for (size_t k = 0; k < x->width; k++) {
		double c = can ? rint((double)v[k] / (double)step) : 0, rounded;

		c = c > INT_DOT_ROW_MAX    ? INT_DOT_ROW_MAX
		    : c < -INT_DOT_ROW_MAX ? -INT_DOT_ROW_MAX
		                           : c;
		*code_of(x, r, k) = (int8_t)c;
		rounded = c * (double)step;
		error += ((double)v[k] - rounded) * ((double)v[k] - rounded);
		length += rounded * rounded;
	}
	if (x->metric == NEAREST_COSINE)
		by = vec_norm2(x->width, v);
	if (!(by > 0)) {
		x->scale[r] = x->slack[r] = 0;
		return;
	}
	error = sqrt(error) * (1 + 1e-6) + sqrt(length) * (x->query_error + ROUNDINGS);
	x->scale[r] = (float)((double)step / by);
	/* FLT_MIN: products of very small numbers lose their bits. */
	x->slack[r] = float_above(error / by * (1 + ROUNDINGS)) + FLT_MIN;
	/* A row of such a length is always compared by its floats, because bounds would overflow. */
	if (!(length < (double)FLT_MAX) || x->slack[r] > FLT_MAX / 4 || x->scale[r] > FLT_MAX / 4) {
		x->scale[r] = 0;
		x->slack[r] = INFINITY;
	}
}

enum err_code nearest_put(struct nearest *x, uint64_t id, const float *row, struct err *e)
{
	size_t at, r;
	enum err_code rc;

	if (!vec_all_finite(x->width, row))
		return err_set(e, ERR_NONFINITE, "row %llu has a value that is not a finite number",
		    (unsigned long long)id);
	if (x->n == x->room && !(x->slots && x->slot[find_slot(x, id)])) {
		rc = nearest_reserve(x, x->n < 32 ? 64 : x->n + x->n / 2, e);
		if (rc)
			return rc;
	}
	at = find_slot(x, id);
	if (!x->slot[at]) {
		x->id[x->n] = id;
		x->slot[at] = (uint32_t)++x->n;
	}
	r = x->slot[at] - 1;
	memcpy(x->v + r * x->width, row, x->width * sizeof *row);
	encode_row(x, r);
	return ERR_OK;
}

/* The last row takes the place of the removed one. */
void nearest_remove(struct nearest *x, uint64_t id)
{
	size_t at = x->slots ? find_slot(x, id) : 0, r, last = x->n - 1;

	if (!x->n || !x->slot[at])
		return;
	r = x->slot[at] - 1;
	free_slot(x, at);
	if (r != last) {
		x->slot[find_slot(x, x->id[last])] = (uint32_t)(r + 1);
		x->id[r] = x->id[last];
		memcpy(x->v + r * x->width, x->v + last * x->width, x->width * sizeof *x->v);
		encode_row(x, r);
	}
	for (size_t k = 0; k < 2 * x->pairs; k++)
		*code_of(x, last, k) = 0;
	x->scale[last] = x->slack[last] = 0;
	x->n = last;
}

const float *nearest_row(const struct nearest *x, uint64_t id)
{
	uint32_t r = x->slots ? x->slot[find_slot(x, id)] : 0;

	return r ? x->v + (r - 1) * x->width : NULL;
}

/* ---- search ---- */

/* A query during a pass: its hits are a heap, whose first one is the worst. */
struct seeker {
	struct nearest_query *q;
	double length;
	double unit; /* of the limit: scores by this are those of a query of length 1 */
};

/* Is a to be listed before b? */
static bool is_better(const struct nearest_hit *a, const struct nearest_hit *b)
{
	return a->score != b->score ? a->score > b->score : a->id < b->id;
}

static int by_order(const void *a, const void *b)
{
	return is_better(a, b) ? -1 : is_better(b, a);
}

static void sink_first(struct nearest_hit *h, size_t n)
{
	struct nearest_hit moved = h[0];
	size_t at = 0;

	for (size_t child; (child = 2 * at + 1) < n; at = child) {
		if (child + 1 < n && is_better(&h[child], &h[child + 1]))
			child++;
		if (!is_better(&moved, &h[child]))
			break;
		h[at] = h[child];
	}
	h[at] = moved;
}

static void add_hit(struct nearest_query *q, struct nearest_hit hit)
{
	struct nearest_hit *h = q->hit;
	size_t at = q->nhits;

	if (q->nhits == q->k) {
		if (is_better(&hit, &h[0])) {
			h[0] = hit;
			sink_first(h, q->k);
		}
		return;
	}
	q->nhits++;
	for (; at > 0 && is_better(&h[(at - 1) / 2], &hit); at = (at - 1) / 2)
		h[at] = h[(at - 1) / 2];
	h[at] = hit;
}

static bool is_unwanted(const struct nearest_query *q, uint64_t id)
{
	size_t low = 0, high = q->nwithout;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (q->without[mid] < id)
			low = mid + 1;
		else
			high = mid;
	}
	return low < q->nwithout && q->without[low] == id;
}

/* Compares row r by its floats. */
static void compare_row(const struct nearest *x, struct seeker *s, size_t r)
{
	const float *v = x->v + r * x->width;
	struct nearest_hit hit = { .id = x->id[r] };

	if (is_unwanted(s->q, hit.id))
		return;
	s->q->compared++;
	hit.score = vec_dot(x->width, v, s->q->v);
	if (x->metric == NEAREST_COSINE) {
		double lengths = vec_norm2(x->width, v) * s->length;

		hit.score = lengths > 0 ? hit.score / lengths : 0;
	}
	add_hit(s->q, hit);
}

/* The limit that bounds have to reach: the worst of k hits, rounded down. */
static float limit_of(const struct seeker *s)
{
	float f;

	if (s->q->nhits < s->q->k)
		return -INFINITY;
	f = (float)(s->q->hit[0].score / s->unit);
	return nextafterf(f, -INFINITY);
}

/* Rounds a query to integers; x has 2 * pairs places. */
static void encode_query(const struct nearest *x, struct seeker *s, int16_t *code,
    struct int_dot_vector *out)
{
	const float *v = s->q->v;
	double step = (double)vec_max_abs(x->width, v) / int_dot_vector_max(x->pairs);

	memset(code, 0, 2 * x->pairs * sizeof *code);
	s->length = vec_norm2(x->width, v);
	s->unit = x->metric == NEAREST_COSINE || !(s->length > 0) ? 1 : s->length;
	for (size_t k = 0; step > 0 && k < x->width; k++)
		code[k] = (int16_t)lrint((double)v[k] / step);
	*out = (struct int_dot_vector){ .x = code,
		.factor = s->length > 0 ? (float)(step / s->length) : 0 };
}

/* Compares the rows of ngroups groups from g on that have passed the filter. */
static void compare_passed(const struct nearest *x, struct seeker *s, size_t g, size_t ngroups,
    const uint8_t *pass)
{
	for (size_t k = 0; k < ngroups; k++)
		for (unsigned bits = pass[k]; bits; bits &= bits - 1) {
			size_t r = (g + k) * INT_DOT_ROWS + (size_t)__builtin_ctz(bits);

			if (r < x->n)
				compare_row(x, s, r);
		}
}

static bool check_query(const struct nearest *x, const struct nearest_query *q)
{
	return vec_all_finite(x->width, q->v);
}

/* Answers up to PASS_QUERIES queries. */
static enum err_code search_pass(const struct nearest *x, struct nearest_query *query, size_t n,
    struct err *e)
{
	size_t groups = (x->n + INT_DOT_ROWS - 1) / INT_DOT_ROWS,
	       group = x->pairs * 2 * INT_DOT_ROWS,
	       most = group < BLOCK_BYTES / 4 ? BLOCK_BYTES / group : 4, kept = 0;
	struct seeker seek[PASS_QUERIES];
	struct int_dot_vector vector[PASS_QUERIES];
	int16_t *code = mem_try_array(n * 2 * x->pairs, sizeof *code);
	uint8_t *pass = mem_try_array(n * most, sizeof *pass);
	enum err_code rc = code && pass
	    ? ERR_OK
	    : err_set(e, ERR_NOMEM, "no memory for %zu queries of %zu values", n, x->width);

	for (size_t i = 0; !rc && i < n; i++) {
		query[i].nhits = query[i].compared = 0;
		if (!check_query(x, &query[i]))
			rc = err_set(e, ERR_NONFINITE,
			    "a query has a value that is not a finite number");
		if (rc || !query[i].k)
			continue;
		seek[kept].q = &query[i];
		encode_query(x, &seek[kept], code + kept * 2 * x->pairs, &vector[kept]);
		kept++;
	}
	for (size_t g = 0; !rc && kept && g < groups; g += most) {
		size_t some = groups - g < most ? groups - g : most;

		for (size_t i = 0; i < kept; i++)
			vector[i].limit = limit_of(&seek[i]);
		int_dot_filter(some, x->pairs, x->code + g * group, x->scale + g * INT_DOT_ROWS,
		    x->slack + g * INT_DOT_ROWS, kept, vector, pass);
		for (size_t i = 0; i < kept; i++)
			compare_passed(x, &seek[i], g, some, pass + i * some);
	}
	for (size_t i = 0; !rc && i < kept; i++)
		qsort(seek[i].q->hit, seek[i].q->nhits, sizeof *seek[i].q->hit, by_order);
	free(code);
	free(pass);
	return rc;
}

enum err_code nearest_search(const struct nearest *x, struct nearest_query *query, size_t n,
    struct err *e)
{
	enum err_code rc = ERR_OK;

	for (size_t at = 0; !rc && at < n; at += PASS_QUERIES)
		rc = search_pass(x, query + at, n - at < PASS_QUERIES ? n - at : PASS_QUERIES, e);
	return rc;
}
