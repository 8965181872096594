/* SPDX-License-Identifier: ISC */
#ifndef MODEL_ENTRIES_H
#define MODEL_ENTRIES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "data/batch/batch.h"

/* One example as factorization models see it, for dense and sparse data alike. Pure. */

/* n entries. Entry i uses row col[i] of the parameters (col NULL: row i, each in a field of its
 * own) and is in field field[i] (NULL: all in one). */
struct entries {
	const uint32_t *col;
	const uint16_t *field;
	const float *val;
	size_t n;
};

/* Example r of the batch, borrowed. */
static inline struct entries entries_of(const struct batch *b, size_t r)
{
	uint32_t at;

	if (!b->sparse)
		return (struct entries){ .val = b->x + r * b->cols, .n = b->cols };
	at = b->start[r];
	return (struct entries){ b->col + at, b->field ? b->field + at : NULL, b->val + at,
		b->start[r + 1] - at };
}

/* Offset of the row of entry i in a table of this width. */
static inline size_t entries_at(const struct entries *x, size_t i, size_t width)
{
	return (x->col ? x->col[i] : i) * width;
}

/* Field of entry i. */
static inline size_t entries_field(const struct entries *x, size_t i)
{
	return !x->col ? i : x->field ? x->field[i] : 0;
}

/* Dot product of short vectors, four elements at a time in a fixed order, so that all machines get
 * the same bits. */
typedef float entries_four __attribute__((vector_size(16)));

static inline float entries_dot(size_t k, const float *a, const float *b)
{
	entries_four s = { 0 }, x, y;
	size_t i = 0;
	float sum;

	for (; i + 4 <= k; i += 4) {
		memcpy(&x, a + i, sizeof x);
		memcpy(&y, b + i, sizeof y);
		s += x * y;
	}
	sum = (s[0] + s[1]) + (s[2] + s[3]);
	for (; i < k; i++)
		sum += a[i] * b[i];
	return sum;
}

/* y += a x */
static inline void entries_axpy(size_t k, float a, const float *x, float *y)
{
	entries_four u, v;
	size_t i = 0;

	for (; i + 4 <= k; i += 4) {
		memcpy(&u, x + i, sizeof u);
		memcpy(&v, y + i, sizeof v);
		v += a * u;
		memcpy(y + i, &v, sizeof v);
	}
	for (; i < k; i++)
		y[i] += a * x[i];
}

#endif
