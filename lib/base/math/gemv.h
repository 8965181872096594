/* SPDX-License-Identifier: ISC */
#ifndef MATH_GEMV_H
#define MATH_GEMV_H

#include <stddef.h>

/* Products of a matrix a (m, n) of floats, row-major and contiguous, with a vector. The kernels of
 * a BLAS sum a row in another order when the number of rows differs. These do not: the result of a
 * row depends on that row alone, so that a score is the same in a batch of any size. The bits are
 * the same on every instruction set. Any alignment, any m and n, also 0; no argument overlaps y.
 * Any thread. */

/* y[i] += sum over j of a[i][j] x[j], for m rows. A row is summed in GEMV_LANES lanes (element j in
 * lane j modulo GEMV_LANES), and what is left of it, eight by eight, in the first eight. The lanes
 * are added pairwise, upper half to lower half, and the last n modulo 8 products one by one. */
#define GEMV_LANES 32
void gemv_add(size_t m, size_t n, const float *restrict a, const float *restrict x,
    float *restrict y);

/* y[j] = sum over i of a[i][j] x[i], for n columns, one row after the other. What y contained is
 * not read. */
void gemv_transposed(size_t m, size_t n, const float *restrict a, const float *restrict x,
    float *restrict y);

#endif
