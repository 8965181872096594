#ifndef BLAS_BLAS_SKIP_H
#define BLAS_BLAS_SKIP_H

#include <stdbool.h>
#include <stddef.h>

/* c (m, n) = op(a) (m, k) b (k, n), with `add` that plus c; with ta, a is stored (k, m).
 * Made for layers of networks: nothing is packed, and a term that is 0 in all rows of a
 * tile is left out, as it is wherever images have a background and relu has cut.  Bits:
 * each element's products are summed one after the other by fused multiply-add, in the
 * parts in which OpenBLAS sums them for processors with AVX-512; so they are the same on
 * all processors that have it, and those of OpenBLAS there.  Where a factor that is left
 * out meets one that is not finite, the sum is without the NaN.
 *
 * False: not for this product, or this processor. */
bool blas_skip(bool ta, size_t m, size_t n, size_t k, const float *a, const float *b, bool add, float *c);

#endif
