/* SPDX-License-Identifier: ISC */
#include "math/order.h"

#include <stdlib.h>

#include "math/clones.h"

/* The rows of a block have at least ROW_MIN floats, and a block has a limited number, so that it
 * stays in the second-level cache, and with few vectors in the first. */
#define ROW_MIN 4u
#define ROW_MAX 64u
#define BLOCK   (ORDER_MAX * ROW_MIN)

/* Adding 0 turns -0 into +0: equal values then have equal bits in any order. */
KERN_CLONES static void load_row(size_t n, const float *restrict x, float *restrict row)
{
	for (size_t i = 0; i < n; i++)
		row[i] = x[i] + 0.0f;
}

KERN_CLONES static void exchange(size_t n, float *restrict low, float *restrict high)
{
	for (size_t i = 0; i < n; i++) {
		float a = low[i], b = high[i];

		low[i] = b < a ? b : a;
		high[i] = b < a ? a : b;
	}
}

/* Sorts n rows of m floats, coordinate by coordinate. */
static void sort_rows(size_t n, size_t m, float *row)
{
	for (size_t p = 1; p < n; p *= 2)
		for (size_t k = p; k > 0; k /= 2)
			for (size_t j = k % p; j + k < n; j += 2 * k)
				for (size_t i = j; i < j + k && i + k < n; i++)
					if (i / (2 * p) == (i + k) / (2 * p))
						exchange(m, row + i * m, row + (i + k) * m);
}

KERN_CLONES static void half_sum(size_t n, const float *restrict a, const float *restrict b,
    float *restrict out)
{
	for (size_t i = 0; i < n; i++)
		out[i] = (a[i] + b[i]) * 0.5f;
}

KERN_CLONES static void add_row(size_t n, const float *restrict row, double *restrict sum)
{
	for (size_t i = 0; i < n; i++)
		sum[i] += (double)row[i];
}

KERN_CLONES static void divide(size_t n, const double *restrict sum, double by, float *restrict out)
{
	for (size_t i = 0; i < n; i++)
		out[i] = (float)(sum[i] / by);
}

/* Makes m floats of n sorted rows of m floats. k: as in order_trimmed. */
typedef void combine_fn(size_t n, size_t k, size_t m, const float *row, float *out);

static void combine_middle(size_t n, size_t k, size_t m, const float *row, float *out)
{
	(void)k;
	half_sum(m, row + (n - 1) / 2 * m, row + n / 2 * m, out);
}

static void combine_trimmed(size_t n, size_t k, size_t m, const float *row, float *out)
{
	double sum[ROW_MAX] = { 0 };

	for (size_t i = k; i < n - k; i++)
		add_row(m, row + i * m, sum);
	divide(m, sum, (double)(n - 2 * k), out);
}

/* Sorts the coordinates of n vectors, a block at a time, and combines them. */
static void sort_and_combine(size_t n, size_t k, size_t len, const float *const *x, float *out,
    combine_fn *combine)
{
	float block[BLOCK];
	size_t most = BLOCK / n < ROW_MAX ? BLOCK / n : ROW_MAX;

	for (size_t at = 0, m; at < len; at += m) {
		m = len - at < most ? len - at : most;
		for (size_t i = 0; i < n; i++)
			load_row(m, x[i] + at, block + i * m);
		sort_rows(n, m, block);
		combine(n, k, m, block, out + at);
	}
}

void order_median(size_t n, size_t len, const float *const *x, float *out)
{
	sort_and_combine(n, 0, len, x, out, combine_middle);
}

void order_trimmed(size_t n, size_t k, size_t len, const float *const *x, float *out)
{
	sort_and_combine(n, k, len, x, out, combine_trimmed);
}

/* ---- plainly ---- */

/* Sorts one coordinate of all vectors by insertion. */
static void sort_column(size_t n, size_t i, const float *const *x, float *v)
{
	for (size_t k = 0; k < n; k++) {
		float a = x[k][i] + 0.0f;
		size_t at = k;

		for (; at > 0 && v[at - 1] > a; at--)
			v[at] = v[at - 1];
		v[at] = a;
	}
}

void order_median_ref(size_t n, size_t len, const float *const *x, float *out)
{
	float v[ORDER_MAX];

	for (size_t i = 0; i < len; i++) {
		sort_column(n, i, x, v);
		out[i] = (v[(n - 1) / 2] + v[n / 2]) * 0.5f;
	}
}

void order_trimmed_ref(size_t n, size_t k, size_t len, const float *const *x, float *out)
{
	float v[ORDER_MAX];

	for (size_t i = 0; i < len; i++) {
		double sum = 0;

		sort_column(n, i, x, v);
		for (size_t j = k; j < n - k; j++)
			sum += (double)v[j];
		out[i] = (float)(sum / (double)(n - 2 * k));
	}
}

static int compare_ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double order_middle(size_t n, double *v)
{
	qsort(v, n, sizeof *v, compare_ascending);
	return v[(n - 1) / 2];
}
