/* SPDX-License-Identifier: ISC */
#ifndef MATH_BLAS_SKIP_H
#define MATH_BLAS_SKIP_H

#include <stdbool.h>
#include <stddef.h>

/* A matrix product that skips zeroes, made for layers of networks: c (m, n) = op(a) (m, k) b (k,
 * n), plus c if `add`; with ta, a is stored (k, m). Nothing is packed, and a term that is 0 in all
 * rows of a tile is skipped, as is common where images have a background or relu has cut.
 *
 * Bits: the products of each element are summed one after the other by fused multiply-add, in the
 * same parts as OpenBLAS uses on processors with AVX-512; so they are equal on all processors that
 * have it, and equal to OpenBLAS's there. When a skipped factor meets one that is not finite, the
 * sum lacks the NaN.
 *
 * False: it cannot do this product, or not on this processor. Any thread. */
bool blas_skip(bool ta, size_t m, size_t n, size_t k, const float *a, const float *b, bool add,
    float *c);

#endif
