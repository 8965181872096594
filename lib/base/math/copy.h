/* SPDX-License-Identifier: ISC */
#ifndef MATH_COPY_H
#define MATH_COPY_H

#include <stddef.h>
#include <string.h>

/* Copies n floats from x to y, which do not overlap. For many short rows of one length, where
 * memcpy() would dispatch on the size each time. Pure. */
static inline void copy_floats(float *restrict y, const float *restrict x, size_t n)
{
	if (n > 64) {
		memcpy(y, x, n * sizeof *y);
		return;
	}
	for (; n >= 8; n -= 8, x += 8, y += 8)
		memcpy(y, x, 8 * sizeof *y);
	if (n & 4) {
		memcpy(y, x, 4 * sizeof *y);
		x += 4;
		y += 4;
	}
	if (n & 2) {
		memcpy(y, x, 2 * sizeof *y);
		x += 2;
		y += 2;
	}
	if (n & 1)
		*y = *x;
}

#endif
