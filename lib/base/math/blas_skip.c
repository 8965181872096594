/* SPDX-License-Identifier: ISC */
#include "math/blas_skip.h"

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

/* As OpenBLAS 0.3, sgemm for SKYLAKEX: it sums PART terms at once and works on units of rows;
 * smaller products go to other kernels. */
#define PART  320u
#define UNIT  16u
#define LEAST (100.0 * 100.0 * 100.0)
/* PART rows of this many columns stay in the second-level cache. */
#define COLUMNS 256u

struct product {
	const float *a, *b;
	float *c;
	size_t m, n;
	/* distances in a between rows and between terms, in floats */
	size_t row, term;
};

static inline uint32_t float_bits(const float *x)
{
	uint32_t u;

	memcpy(&u, x, sizeof u);
	return u;
}

/* ---- AVX-512: 16 sums, of few rows: the fewer, the more terms are left out ---- */

#define AVX512 __attribute__((target("avx512f")))

AVX512 static inline __mmask16 lanes512(size_t n)
{
	return (__mmask16)((1u << n) - 1);
}

#define NAME(x)      avx512_##x
#define TARGET       AVX512
#define VEC          __m512
#define WIDTH        16u
#define ROWS         4u
#define VECS         4u
#define FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define SET(x)       _mm512_set1_ps(x)
#define LOAD(p, n)   ((n) == 16 ? _mm512_loadu_ps(p) : _mm512_maskz_loadu_ps(lanes512(n), p))
#define STORE(p, n, v) \
	((n) == 16 ? _mm512_storeu_ps(p, v) : _mm512_mask_storeu_ps(p, lanes512(n), v))
#define ANY(p, n) \
	_mm512_cmp_ps_mask(_mm512_maskz_loadu_ps(lanes512(n), p), _mm512_setzero_ps(), _CMP_NEQ_UQ)
#include "math/blas_tile.h"

/* ---- AVX2: 12 sums, 2 vectors of b, a factor: all registers but one ---- */

#define AVX2 __attribute__((target("avx2,fma")))

AVX2 static inline __m256i lanes256(size_t n)
{
	return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n),
	    _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

#define NAME(x)        avx2_##x
#define TARGET         AVX2
#define VEC            __m256
#define WIDTH          8u
#define ROWS           6u
#define VECS           2u
#define FMA(a, b, c)   _mm256_fmadd_ps(a, b, c)
#define SET(x)         _mm256_set1_ps(x)
#define LOAD(p, n)     ((n) == 8 ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, lanes256(n)))
#define STORE(p, n, v) ((n) == 8 ? _mm256_storeu_ps(p, v) : _mm256_maskstore_ps(p, lanes256(n), v))
#define ANY(p, n) \
	(uint32_t) _mm256_movemask_ps( \
	    _mm256_cmp_ps(_mm256_maskload_ps(p, lanes256(n)), _mm256_setzero_ps(), _CMP_NEQ_UQ))
#include "math/blas_tile.h"

/* ---- which ---- */

typedef void part_fn(const struct product *x, size_t from, size_t to, bool add);

static part_fn *choose_kernel(void)
{
	if (__builtin_cpu_supports("avx512f"))
		return avx512_part;
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? avx2_part : NULL;
}

/* How many of the remaining terms are summed next. */
static size_t next_part(size_t left)
{
	if (left >= 2 * PART)
		return PART;
	return left > PART ? (left / 2 + UNIT - 1) / UNIT * UNIT : left;
}

bool blas_skip(bool ta, size_t m, size_t n, size_t k, const float *a, const float *b, bool add,
    float *c)
{
	const struct product
	    x = { .a = a, .b = b, .c = c, .m = m, .n = n, .row = ta ? 1 : k, .term = ta ? m : 1 };
	part_fn *part = choose_kernel();
	size_t from = 0, more;

	/* With few columns, registers would be used badly. */
	if (!part || n < COLUMNS / 8 || k > UINT32_MAX ||
	    (double)m * (double)n * (double)k <= LEAST)
		return false;
	for (; from < k; from += more) {
		more = next_part(k - from);
		part(&x, from, from + more, add || from);
	}
	return true;
}

#else

bool blas_skip(bool ta, size_t m, size_t n, size_t k, const float *a, const float *b, bool add,
    float *c)
{
	(void)ta;
	(void)m;
	(void)n;
	(void)k;
	(void)a;
	(void)b;
	(void)add;
	(void)c;
	return false;
}

#endif
