/* SPDX-License-Identifier: ISC */
#ifndef MATH_INT_DOT_H
#define MATH_INT_DOT_H

#include <stddef.h>
#include <stdint.h>

/* Products of many rows of 8-bit integers with a few vectors of 16-bit integers, as a filter: only
 * the rows whose product, times a factor, can reach a limit are reported. The sums are integers, so
 * they do not depend on the order of additions, and the bits of every result are the same on every
 * instruction set. No allocation, no errors, any thread. */

/* Rows of a group. A group with `pairs` pairs of elements a row has 16 * pairs bytes: elements 2p and
 * 2p + 1 of row i are at 16 p + 2 i. Rows of an odd width end with a zero. */
#define INT_DOT_ROWS 8u

/* The elements of a row are within +-127. */
#define INT_DOT_ROW_MAX 127

/* The largest magnitude that the elements of vectors may have for rows of this many pairs, so that no
 * sum overflows; at least 1 for up to INT_DOT_PAIRS_MAX pairs. */
#define INT_DOT_PAIRS_MAX ((size_t)1 << 20)
int32_t int_dot_vector_max(size_t pairs);

struct int_dot_vector {
	const int16_t *x; /* 2 * pairs elements */
	float factor;
	float limit;
};

/* pass (nvectors, ngroups): bit i of pass[v * ngroups + g] is 0 if, in this order of operations in float,
 *
 *   sum * vector[v].factor * scale[r] + slack[r] < vector[v].limit
 *
 * for row r = INT_DOT_ROWS * g + i, where sum is its product with vector[v].x, rounded to float. rows:
 * ngroups groups. scale and slack (ngroups * INT_DOT_ROWS): of each row; no product of 0 and an
 * infinity may occur in them, but slack may be infinite. */
void int_dot_filter(size_t ngroups, size_t pairs, const int8_t *rows, const float *scale,
    const float *slack, size_t nvectors, const struct int_dot_vector *vector, uint8_t *pass);

#endif
