/* SPDX-License-Identifier: ISC */
#ifndef MATH_VEC_H
#define MATH_VEC_H

#include <stdbool.h>
#include <stddef.h>

/* Loops over n floats. Any alignment, any n, also 0; x and y do not overlap.
 * No allocation, no errors, any thread. The bits of every result are the same
 * on every instruction set: elementwise functions round once an operation, and
 * sums run in VEC_LANES fixed lanes of double (element i in lane i modulo
 * VEC_LANES), which are then added pairwise, upper half to lower half. */
#define VEC_LANES 16

/* Elementwise functions; each comment is the result for every element. */
void vec_axpy(size_t n, float a, const float *restrict x, float *restrict y); /* y += a x */
/* y = 0 + a x: as vec_axpy to a vector of zeroes, in equal bits, which is not read. */
void vec_axpy_first(size_t n, float a, const float *restrict x, float *restrict y);
void vec_add(size_t n, const float *restrict x, float *restrict y);           /* y += x */
void vec_xpay(size_t n, const float *restrict x, float a, float *restrict y); /* y = x + a y */
void vec_mask(size_t n, const float *restrict x, float *restrict y);          /* y = 0 where x is */
void vec_scale(size_t n, float a, float *x);                                  /* x *= a */
void vec_copy_scaled(size_t n, float a, const float *restrict x, float *restrict y); /* y = a x */
void vec_add_scaled(size_t n, const float *restrict x, float s,
    float *restrict y); /* y = s (y + x) */
/* out = s (y + a x) */
void vec_join(size_t n, float a, const float *restrict x, const float *restrict y, float s,
    float *restrict out);

/* True when no element is an infinity or a NaN. Looks at exponent bits, so
 * that it neither raises floating-point flags nor slows down on denormals. */
bool vec_all_finite(size_t n, const float *x);
/* True when every |x[i]| is below 2^84: the sum of 2^12 such values, each
 * weighted by up to 2^32 - 1, is finite. x: n float32 at any address. */
#define VEC_BOUND_LOG2 84
bool vec_all_bounded(size_t n, const void *x);
float vec_max_abs(size_t n, const float *x); /* the largest |x[i]|; NaN when one is not finite */

double vec_sumsq(size_t n, const float *x);               /* sum of x[i]^2 */
double vec_dot(size_t n, const float *x, const float *y); /* sum of x[i] y[i]; x may be y */
double vec_norm2(size_t n, const float *x);               /* sqrt(vec_sumsq) */

#endif
