/* SPDX-License-Identifier: ISC */
#include "math/stored_rows.h"

#include <math.h>
#include <string.h>

#include "math/clones.h"
#include "math/vec.h"

KERN_CLONES void stored_row_widen(size_t cols, const int8_t *restrict from, float scale,
    float *restrict to)
{
	for (size_t i = 0; i < cols; i++)
		to[i] = (float)from[i] * scale;
}

/* A scale below the normal numbers is rounded itself, so that a quotient may be above 127. */
KERN_CLONES static void divide_row(size_t cols, const float *restrict row, float scale,
    int8_t *restrict to)
{
	for (size_t i = 0; i < cols; i++) {
		float q = rintf(row[i] / scale);

		q = q > 127 ? 127 : q;
		to[i] = (int8_t)(q < -127 ? -127 : q);
	}
}

float stored_row_scale(size_t cols, const float *row)
{
	return vec_max_abs(cols, row) / 127;
}

void stored_row_narrow(size_t cols, const float *row, float scale, int8_t *to)
{
	if (scale > 0)
		divide_row(cols, row, scale, to);
	else
		memset(to, 0, cols);
}

void stored_rows_get(const struct stored_rows *r, size_t cols, uint64_t first, size_t n, float *to)
{
	if (!r->scale) {
		element_widen(r->type, n * cols, r->at + first * cols * element_bytes(r->type), to);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		float scale;

		memcpy(&scale, r->scale + (first + i) * sizeof scale, sizeof scale);
		stored_row_widen(cols, (const int8_t *)r->at + (first + i) * cols, scale,
		    to + i * cols);
	}
}
