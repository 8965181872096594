/* SPDX-License-Identifier: ISC */
#ifndef MATH_COPY_H
#define MATH_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

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

/* Copies n floats from x to y, which do not overlap, for readers on other processors that have the
 * former values of y in their caches. An ordinary store would wait for each such cache in turn;
 * these go to memory at once (x86: non-temporal stores; elsewhere this is memcpy). Other stores of
 * this thread keep their order with them. Pure. */
static inline void copy_past_caches(float *restrict y, const float *restrict x, size_t n)
{
#ifdef __SSE2__
	size_t i = 0;

	for (; i < n && (uintptr_t)(y + i) % 16; i++)
		y[i] = x[i];
	_mm_sfence();
	for (; i + 16 <= n; i += 16)
		for (size_t k = i; k < i + 16; k += 4)
			_mm_stream_ps(y + k, _mm_loadu_ps(x + k));
	_mm_sfence();
	memcpy(y + i, x + i, (n - i) * sizeof *y);
#else
	memcpy(y, x, n * sizeof *y);
#endif
}

#endif
