/* SPDX-License-Identifier: ISC */
/* The nearest rows: the filter's kinds of code against each other and against its definition, and searches
 * against a comparison of all rows, in equal bits, while rows come, change and go. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tap.h"

#include "math/int_dot.c"
#include "math/vec.h"
#include "nearest/nearest.h"

static uint64_t state = 88172645463325252u;

static uint64_t number(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

/* About normal: the sum of four uniform numbers. */
static float normal(void)
{
	float sum = 0;

	for (int i = 0; i < 4; i++)
		sum += (float)(number() >> 40) / (float)(1 << 24) - 0.5f;
	return sum;
}

/* ---- the filter ---- */

static void filters_agree(size_t ngroups, size_t pairs, size_t nvectors)
{
	size_t rows = ngroups * INT_DOT_ROWS;
	int8_t *a = malloc(rows * 2 * pairs);
	int16_t *x = malloc(nvectors * 2 * pairs * sizeof *x);
	float *scale = malloc(rows * sizeof *scale), *slack = malloc(rows * sizeof *slack);
	struct int_dot_vector v[9];
	uint8_t one[9 * 64], two[9 * 64];
	size_t passed = 0;
	bool defined = true;
	int32_t most = int_dot_vector_max(pairs);

	for (size_t i = 0; i < rows * 2 * pairs; i++)
		a[i] = (int8_t)(number() % 255 - 127);
	for (size_t i = 0; i < nvectors * 2 * pairs; i++)
		x[i] = (int16_t)((int64_t)(number() % (2 * (uint64_t)most + 1)) - most);
	for (size_t r = 0; r < rows; r++) {
		scale[r] = (float)(number() % 1000) / 1000;
		slack[r] = r % 5 == 4 ? (r % 2 ? INFINITY : -INFINITY) : normal();
	}
	for (size_t k = 0; k < nvectors; k++)
		v[k] = (struct int_dot_vector){ x + k * 2 * pairs, 1e-6f, normal() };
	filter_plain(ngroups, pairs, a, scale, slack, nvectors, v, one);
	int_dot_filter(ngroups, pairs, a, scale, slack, nvectors, v, two);
	for (size_t k = 0; k < nvectors; k++)
		for (size_t r = 0; r < rows; r++) {
			size_t g = r / INT_DOT_ROWS, i = r % INT_DOT_ROWS;
			int64_t sum = 0;
			float bound;
			bool pass = one[k * ngroups + g] >> i & 1;

			for (size_t j = 0; j < 2 * pairs; j++)
				sum += a[(g * pairs + j / 2) * 16 + 2 * i + j % 2] * v[k].x[j];
			bound = (float)sum * v[k].factor * scale[r] + slack[r];
			defined = defined && pass == !(bound < v[k].limit) && sum == (int32_t)sum;
			passed += pass;
		}
	ok(defined, "%zu groups of %zu pairs, %zu vectors: as defined, %zu rows pass", ngroups,
	    pairs, nvectors, passed);
	ok(memcmp(one, two, nvectors * ngroups) == 0, "the processor's kind agrees");
	free(a);
	free(x);
	free(scale);
	free(slack);
}

/* Sums of the largest numbers do not overflow. */
static void largest_sums(size_t pairs)
{
	int8_t *a = malloc(16 * pairs);
	int16_t *x = malloc(2 * pairs * sizeof *x);
	float scale[8], slack[8] = { 0 };
	struct int_dot_vector v = { x, 1, 0 };
	uint8_t pass = 0;

	for (size_t i = 0; i < 16 * pairs; i++)
		a[i] = INT_DOT_ROW_MAX;
	for (size_t i = 0; i < 2 * pairs; i++)
		x[i] = (int16_t)int_dot_vector_max(pairs);
	for (size_t i = 0; i < 8; i++)
		scale[i] = 1;
	int_dot_filter(1, pairs, a, scale, slack, 1, &v, &pass);
	ok(pass == 255 && int_dot_vector_max(pairs) > 0, "%zu pairs: the largest sum is positive",
	    pairs);
	free(a);
	free(x);
}

/* ---- searches ---- */

#define ROWS  1200u
#define QUERY 7u

struct plain_row {
	bool there;
	float *v;
};

static size_t width;
static struct plain_row row[ROWS];
static enum nearest_metric metric;

static bool better(const struct nearest_hit *a, const struct nearest_hit *b)
{
	return a->score != b->score ? a->score > b->score : a->id < b->id;
}

static int by_order(const void *a, const void *b)
{
	return better(a, b) ? -1 : better(b, a);
}

static uint64_t id_of(size_t r)
{
	return r * UINT64_C(0x9e3779b97f4a7c15) | 1;
}

static bool in(const uint64_t *list, size_t n, uint64_t id)
{
	for (size_t i = 0; i < n; i++)
		if (list[i] == id)
			return true;
	return false;
}

static size_t search_plainly(const struct nearest_query *q, struct nearest_hit *out)
{
	size_t n = 0;

	for (size_t r = 0; r < ROWS; r++) {
		struct nearest_hit h = { .id = id_of(r) };
		double lengths;

		if (!row[r].there || in(q->without, q->nwithout, h.id))
			continue;
		h.score = vec_dot(width, row[r].v, q->v);
		lengths = vec_norm2(width, row[r].v) * vec_norm2(width, q->v);
		if (metric == NEAREST_COSINE)
			h.score = lengths > 0 ? h.score / lengths : 0;
		out[n++] = h;
	}
	qsort(out, n, sizeof *out, by_order);
	return n < q->k ? n : q->k;
}

static void check_search(const struct nearest *x, size_t k, const char *what)
{
	struct nearest_query q[QUERY];
	struct nearest_hit *want = malloc(ROWS * sizeof *want);
	uint64_t without[2] = { id_of(3), id_of(5) };
	struct err e;
	bool same = true;

	if (without[0] > without[1]) {
		uint64_t first = without[0];

		without[0] = without[1];
		without[1] = first;
	}
	for (size_t i = 0; i < QUERY; i++) {
		float *v = malloc(width * sizeof *v);

		for (size_t j = 0; j < width; j++)
			v[j] = i == 1             ? 0
			    : i == 2 && row[11].v ? row[11].v[j]
			                          : normal() * (i == 3 ? 1e30f : 1);
		q[i] = (struct nearest_query){ .v = v,
			.k = i == 4 ? 0 : k,
			.without = without,
			.nwithout = i % 3,
			.hit = malloc((k + 1) * sizeof *want) };
	}
	ok(nearest_search(x, q, QUERY, &e) == ERR_OK, "%s: a search of width %zu, k %zu", what,
	    width, k);
	for (size_t i = 0; i < QUERY; i++) {
		size_t n = search_plainly(&q[i], want);

		same = same && n == q[i].nhits;
		for (size_t j = 0; same && j < n; j++)
			same = want[j].id == q[i].hit[j].id && want[j].score == q[i].hit[j].score;
		free((void *)(uintptr_t)q[i].v);
		free(q[i].hit);
	}
	ok(same, "%s: the same hits as by comparing all rows", what);
	free(want);
}

static void fill_row(size_t r)
{
	float by = r % 50 == 1 ? 1e-41f : r % 50 == 2 ? 1e25f : r % 50 == 3 ? 0 : r % 7 ? 1 : 0.01f;

	for (size_t j = 0; j < width; j++)
		row[r].v[j] = r % 10 == 9 ? row[r - 1].v[j] : normal() * by;
	if (r % 100 == 21)
		memset(row[r].v + 1, 0, (width - 1) * sizeof(float));
}

static void searches(size_t w, enum nearest_metric m)
{
	struct nearest *x = nearest_new(w, m);
	bool put = true;
	struct err e;

	width = w;
	metric = m;
	check_search(x, 3, "an empty index");
	for (size_t r = 0; r < ROWS; r++) {
		row[r] = (struct plain_row){ true, malloc(w * sizeof(float)) };
		fill_row(r);
		put = put && !nearest_put(x, id_of(r), row[r].v, &e);
	}
	ok(put && nearest_count(x) == ROWS, "rows are put");
	check_search(x, 1, "all rows");
	check_search(x, 10, "all rows");
	for (int i = 0; i < 2000; i++) {
		size_t r = number() % ROWS;

		if (number() % 2) {
			nearest_remove(x, id_of(r));
			row[r].there = false;
		} else {
			fill_row(r);
			put = put && !nearest_put(x, id_of(r), row[r].v, &e);
			row[r].there = true;
		}
	}
	check_search(x, 17, "rows have come and gone");
	check_search(x, ROWS, "more than there are");
	for (size_t r = 0; r < ROWS; r++) {
		const float *v = nearest_row(x, id_of(r));

		put = put && (v != NULL) == row[r].there && (!v || memcmp(v, row[r].v, w * 4) == 0);
		if (r % 300)
			nearest_remove(x, id_of(r));
		row[r].there = row[r].there && r % 300 == 0;
	}
	ok(put, "rows are found by their ids");
	check_search(x, 10, "few rows are left");
	for (size_t r = 0; r < ROWS; r++) {
		free(row[r].v);
		row[r] = (struct plain_row){ false, NULL };
	}
	nearest_free(x);
}

/* The filter keeps most rows from being compared by their floats. */
static void filter_is_of_use(enum nearest_metric m)
{
	struct nearest *x = nearest_new(32, m);
	struct nearest_hit hit[10];
	float v[32];
	struct nearest_query q = { .v = v, .k = 10, .hit = hit };
	struct err e;

	for (uint64_t r = 0; r < 20000; r++) {
		for (size_t j = 0; j < 32; j++)
			v[j] = normal();
		nearest_put(x, r, v, &e);
	}
	nearest_search(x, &q, 1, &e);
	ok(q.nhits == 10 && hit[0].id == 19999 && q.compared < 2000,
	    "%zu of 20000 rows were compared by their floats", q.compared);
	nearest_free(x);
}

static void refusals(void)
{
	struct nearest *x = nearest_new(2, NEAREST_DOT);
	float bad[2] = { 1, NAN }, good[2] = { 1, 2 };
	struct nearest_hit hit[1];
	struct nearest_query q = { .v = bad, .k = 1, .hit = hit };
	struct err e;

	ok(nearest_put(x, 1, bad, &e) == ERR_NONFINITE && strstr(e.msg, "row 1"),
	    "NaN is refused: %s", e.msg);
	ok(nearest_put(x, 1, good, &e) == ERR_OK && nearest_count(x) == 1,
	    "and the row is not there");
	ok(nearest_search(x, &q, 1, &e) == ERR_NONFINITE, "a query with NaN is refused: %s", e.msg);
	nearest_remove(x, 7);
	ok(nearest_count(x) == 1 && !nearest_row(x, 7), "a row that does not exist");
	nearest_free(x);
}

int main(void)
{
	static const size_t widths[] = { 1, 2, 3, 16, 64, 101, 600 };

	for (size_t n = 1; n <= 9; n++)
		filters_agree(n * 5, n == 9 ? 300 : n, n);
	largest_sums(1);
	largest_sums(33);
	largest_sums(4001);
	for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
		searches(widths[i], NEAREST_DOT);
		searches(widths[i], NEAREST_COSINE);
	}
	filter_is_of_use(NEAREST_DOT);
	filter_is_of_use(NEAREST_COSINE);
	refusals();
	return tap_done();
}
