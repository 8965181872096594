/* SPDX-License-Identifier: ISC */
#include "math/blas.h"

#include <assert.h>
#include <cblas.h>
#include <limits.h>
#include <strings.h>

#include "core/lazy_load.h"
#include "math/blas_skip.h"

#define BLAS_CALL(type, name, params, args) \
	LAZY_CALL("libopenblas.so.0", "libopenblas0", type, name, params, args)

BLAS_CALL(void, openblas_set_num_threads, (int n), (n))
BLAS_CALL(char *, openblas_get_corename, (void), ())
BLAS_CALL(void, cblas_sgemm,
    (CBLAS_LAYOUT order, CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, blasint m, blasint n, blasint k,
        float alpha, const float *a, blasint lda, const float *b, blasint ldb, float beta, float *c,
        blasint ldc),
    (order, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc))

void blas_init(void)
{
	openblas_set_num_threads(1);
}

const char *blas_core(void)
{
	return openblas_get_corename();
}

const char *blas_better_core(void)
{
#if defined(__x86_64__)
	/* The core types of OpenBLAS 0.3.21 whose kernels use AVX2 and FMA. */
	static const char *const fast[] = { "Haswell", "Zen", "Excavator", "SkylakeX", "Cooperlake",
		"SapphireRapids" };
	bool better = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");

	for (size_t i = 0; better && i < sizeof fast / sizeof *fast; i++)
		better = strcasecmp(blas_core(), fast[i]) != 0;
	return better ? fast[0] : NULL;
#else
	return NULL;
#endif
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
