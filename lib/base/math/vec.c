/* SPDX-License-Identifier: ISC */
#include "math/vec.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "math/clones.h"

KERN_CLONES void vec_axpy(size_t n, float a, const float *restrict x, float *restrict y)
{
	for (size_t i = 0; i < n; i++)
		y[i] += a * x[i];
}

/* Adding 0 turns -0 into +0, as in a vector of zeroes. */
KERN_CLONES void vec_axpy_first(size_t n, float a, const float *restrict x, float *restrict y)
{
	for (size_t i = 0; i < n; i++)
		y[i] = 0.0f + a * x[i];
}

KERN_CLONES void vec_add(size_t n, const float *restrict x, float *restrict y)
{
	for (size_t i = 0; i < n; i++)
		y[i] += x[i];
}

KERN_CLONES void vec_xpay(size_t n, const float *restrict x, float a, float *restrict y)
{
	for (size_t i = 0; i < n; i++)
		y[i] = a * y[i] + x[i];
}

KERN_CLONES void vec_mask(size_t n, const float *restrict x, float *restrict y)
{
	for (size_t i = 0; i < n; i++)
		y[i] = x[i] == 0 ? 0 : y[i];
}

KERN_CLONES void vec_scale(size_t n, float a, float *x)
{
	for (size_t i = 0; i < n; i++)
		x[i] *= a;
}

KERN_CLONES void vec_copy_scaled(size_t n, float a, const float *restrict x, float *restrict y)
{
	for (size_t i = 0; i < n; i++)
		y[i] = a * x[i];
}

KERN_CLONES void vec_add_scaled(size_t n, const float *restrict x, float s, float *restrict y)
{
	for (size_t i = 0; i < n; i++)
		y[i] = (y[i] + x[i]) * s;
}

KERN_CLONES void vec_join(size_t n, float a, const float *restrict x, const float *restrict y,
    float s, float *restrict out)
{
	for (size_t i = 0; i < n; i++)
		out[i] = (y[i] + a * x[i]) * s;
}

/* Adding 256 - k to the exponent field of |x| carries into bit 31 exactly when
 * the field was k or more: 255 marks infinities and NaNs. */
KERN_CLONES static uint32_t carry_of(size_t n, const uint8_t *x, uint32_t add)
{
	uint32_t any = 0;

	for (size_t i = 0; i < n; i++) {
		uint32_t u;

		memcpy(&u, x + i * sizeof u, sizeof u);
		any |= (u & UINT32_C(0x7fffffff)) + add;
	}
	return any >> 31;
}

static bool all_below(size_t n, const uint8_t *x, uint32_t exponent)
{
	/* Blocks, so that a bad gradient is refused at its first bad block. */
	enum { BLOCK = 4096 };

	for (size_t i = 0; i < n; i += BLOCK)
		if (carry_of(n - i < BLOCK ? n - i : BLOCK, x + i * sizeof(float),
		        (256 - exponent) << 23))
			return false;
	return true;
}

bool vec_all_finite(size_t n, const float *x)
{
	return all_below(n, (const uint8_t *)x, 255);
}

bool vec_all_bounded(size_t n, const void *x)
{
	return all_below(n, x, 127 + VEC_BOUND_LOG2);
}

/* Magnitudes have the same order as their bits, and values that are not finite come last. Compared
 * as signed numbers, because SSE2 has no unsigned comparison. */
KERN_CLONES static int32_t largest_bits(size_t n, const float *x)
{
	int32_t max = 0;

	for (size_t i = 0; i < n; i++) {
		int32_t u;

		memcpy(&u, x + i, sizeof u);
		u &= 0x7fffffff;
		max = u > max ? u : max;
	}
	return max;
}

float vec_max_abs(size_t n, const float *x)
{
	int32_t u = largest_bits(n, x);
	float max;

	memcpy(&max, &u, sizeof max);
	return u < 0x7f800000 ? max : NAN;
}

/* A product of two floats is exact in double: only the additions round.
 * Inlined, so that each clone of a caller gets its own vector code. */
__attribute__((always_inline)) static inline double sum_lanes(size_t n, const float *x,
    const float *y)
{
	double lane[VEC_LANES] = { 0 };
	size_t i = 0;

	for (; i + VEC_LANES <= n; i += VEC_LANES)
		for (size_t j = 0; j < VEC_LANES; j++)
			lane[j] += (double)x[i + j] * (double)y[i + j];
	for (size_t j = 0; i + j < n; j++)
		lane[j] += (double)x[i + j] * (double)y[i + j];
	for (size_t half = VEC_LANES / 2; half > 0; half /= 2)
		for (size_t j = 0; j < half; j++)
			lane[j] += lane[j + half];
	return lane[0];
}

KERN_CLONES double vec_dot(size_t n, const float *x, const float *y)
{
	return sum_lanes(n, x, y);
}

KERN_CLONES double vec_sumsq(size_t n, const float *x)
{
	return sum_lanes(n, x, x);
}

double vec_norm2(size_t n, const float *x)
{
	return sqrt(vec_sumsq(n, x));
}
