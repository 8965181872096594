/* SPDX-License-Identifier: ISC */
#ifndef MATH_BLAS_H
#define MATH_BLAS_H

#include <stdbool.h>
#include <stddef.h>

/* Row-major float matrix products, by blas_skip.h or CBLAS. This is the only object that needs
 * OpenBLAS, so that programs which never multiply do not link it. Matrices are contiguous; every
 * dimension is at most INT_MAX. With beta 0 the output is only written, whatever it contained. Any
 * thread. */

/* Limits BLAS to one thread: workers are the unit of parallelism, and a second thread would change
 * the order of sums. Call it once, before other threads start. */
void blas_init(void);

/* OpenBLAS's name of the kernels that it has chosen: "Haswell". A constant. */
const char *blas_core(void);

/* OpenBLAS chooses the kernels for Prescott, without AVX2 and FMA, on a processor that is newer
 * than itself; they have a quarter of the speed. Returns the core type whose kernels to use
 * instead, for the environment variable OPENBLAS_CORETYPE, which OpenBLAS reads when it is loaded;
 * NULL: the present ones suit the processor. */
const char *blas_better_core(void);

/* c (m, n) = alpha op(a) (m, k) op(b) (k, n) + beta c. With ta, a is stored
 * (k, m) and used transposed; with tb, b is stored (n, k). */
void blas_gemm(bool ta, bool tb, size_t m, size_t n, size_t k, float alpha, const float *a,
    const float *b, float beta, float *c);

#endif
