/* SPDX-License-Identifier: ISC */
#ifndef MATH_ORDER_H
#define MATH_ORDER_H

#include <stddef.h>

/* Order statistics, coordinate by coordinate, of n vectors x[0..n-1] of len floats, all finite
 * and below 2^127 in magnitude. -0 counts, and is given out, as +0. Any alignment; out
 * overlaps none of them; 1 <= n <= ORDER_MAX. No allocation, no errors, any thread.
 *
 * A sorting network is run over blocks of coordinates, each of its exchanges over a whole row of
 * them (K. E. Batcher, Sorting networks and their applications, AFIPS 1968: merge exchange).
 * The bits of every result are those of the plain _ref functions, on every instruction set. */
#define ORDER_MAX 4096

/* out[i]: the median of x[.][i]; for even n the mean of the middle two. */
void order_median(size_t n, size_t len, const float *const *x, float *out);
/* out[i]: the mean of x[.][i] without the k lowest and the k highest, summed in double in ascending
 * order; 2 k < n. */
void order_trimmed(size_t n, size_t k, size_t len, const float *const *x, float *out);

/* The plain versions, with the same results in every bit; for tests. */
void order_median_ref(size_t n, size_t len, const float *const *x, float *out);
void order_trimmed_ref(size_t n, size_t k, size_t len, const float *const *x, float *out);

/* The median of n > 0 doubles, the lower of two; sorts v. */
double order_middle(size_t n, double *v);

#endif
