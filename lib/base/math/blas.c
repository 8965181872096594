/* SPDX-License-Identifier: ISC */
#include "math/blas.h"

#include <assert.h>
#include <cblas.h>
#include <limits.h>
#include <string.h>

#include "math/blas_skip.h"

void blas_init(void)
{
	openblas_set_num_threads(1);
}

/* Converts a dimension to CBLAS's integer type. */
static blasint checked_blasint(size_t n)
{
	assert(n <= INT_MAX);
	return (blasint)n;
}

/* CBLAS refuses a leading dimension of 0 even when there is nothing to do. */
static blasint leading_dimension(size_t n)
{
	return n == 0 ? 1 : checked_blasint(n);
}

void blas_gemm(bool ta, bool tb, size_t m, size_t n, size_t k, float alpha, const float *a,
    const float *b, float beta, float *c)
{
	if (!tb && alpha == 1 && (beta == 0 || beta == 1) &&
	    blas_skip(ta, m, n, k, a, b, beta != 0, c))
		return;
	cblas_sgemm(CblasRowMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans,
	    checked_blasint(m), checked_blasint(n), checked_blasint(k), alpha, a,
	    leading_dimension(ta ? m : k), b, leading_dimension(tb ? k : n), beta, c,
	    leading_dimension(n));
}

void blas_gemv(bool ta, size_t m, size_t n, float alpha, const float *a, const float *x, float beta,
    float *y)
{
	size_t out = ta ? n : m;

	/* BLAS libraries differ on whether 0 * NaN in y survives, and return
	 * early, leaving y alone, when the inner dimension is 0. */
	if (beta == 0 && out > 0)
		memset(y, 0, out * sizeof *y);
	cblas_sgemv(CblasRowMajor, ta ? CblasTrans : CblasNoTrans, checked_blasint(m),
	    checked_blasint(n), alpha, a, leading_dimension(n), x, 1, beta, y, 1);
}
