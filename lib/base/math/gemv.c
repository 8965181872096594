/* SPDX-License-Identifier: ISC */
#include "math/gemv.h"

#include <string.h>

#include "math/clones.h"

/* GEMV_LANES lanes are four vectors of the compiler, which each clone maps to its own registers. */
typedef float lanes __attribute__((vector_size(32)));
enum { PER_VECTOR = sizeof(lanes) / sizeof(float) };

/* These are inlined, so that each clone of gemv_add gets its own vector code. */
__attribute__((always_inline)) static inline void add_products(const float *x, const float *y,
    lanes *sum)
{
	lanes a, b;

	memcpy(&a, x, sizeof a);
	memcpy(&b, y, sizeof b);
	*sum += a * b;
}

__attribute__((always_inline)) static inline float sum_products(size_t n, const float *x,
    const float *y)
{
	lanes s0 = { 0 }, s1 = { 0 }, s2 = { 0 }, s3 = { 0 };
	size_t i = 0;
	float sum;

	for (; i + GEMV_LANES <= n; i += GEMV_LANES) {
		add_products(x + i, y + i, &s0);
		add_products(x + i + PER_VECTOR, y + i + PER_VECTOR, &s1);
		add_products(x + i + 2 * PER_VECTOR, y + i + 2 * PER_VECTOR, &s2);
		add_products(x + i + 3 * PER_VECTOR, y + i + 3 * PER_VECTOR, &s3);
	}
	for (; i + PER_VECTOR <= n; i += PER_VECTOR)
		add_products(x + i, y + i, &s0);
	s0 = (s0 + s2) + (s1 + s3);
	sum = ((s0[0] + s0[4]) + (s0[2] + s0[6])) + ((s0[1] + s0[5]) + (s0[3] + s0[7]));
	for (; i < n; i++)
		sum += x[i] * y[i];
	return sum;
}

KERN_CLONES void gemv_add(size_t m, size_t n, const float *restrict a, const float *restrict x,
    float *restrict y)
{
	for (size_t i = 0; i < m; i++)
		y[i] += sum_products(n, a + i * n, x);
}

/* Four rows at a time, so that y is read and written once for them. The additions have the order of
 * the rows all the same. */
KERN_CLONES void gemv_transposed(size_t m, size_t n, const float *restrict a,
    const float *restrict x, float *restrict y)
{
	size_t i = 0;

	if (n > 0)
		memset(y, 0, n * sizeof *y);
	for (; i + 4 <= m; i += 4) {
		const float *r = a + i * n;

		for (size_t j = 0; j < n; j++)
			y[j] = (((y[j] + x[i] * r[j]) + x[i + 1] * r[n + j]) +
			           x[i + 2] * r[2 * n + j]) +
			    x[i + 3] * r[3 * n + j];
	}
	for (; i < m; i++)
		for (size_t j = 0; j < n; j++)
			y[j] += x[i] * a[i * n + j];
}
