/* SPDX-License-Identifier: ISC */
#include "math/int_dot.h"

#include <stdbool.h>
#include <string.h>

int32_t int_dot_vector_max(size_t pairs)
{
	size_t most = INT32_MAX / (INT_DOT_ROW_MAX * 2 * (pairs ? pairs : 1));

	return most < INT16_MAX ? (int32_t)most : INT16_MAX;
}

typedef void filter_fn(size_t ngroups, size_t pairs, const int8_t *rows, const float *scale,
    const float *slack, size_t nvectors, const struct int_dot_vector *vector, uint8_t *pass);

static void filter_plain(size_t ngroups, size_t pairs, const int8_t *rows, const float *scale,
    const float *slack, size_t nvectors, const struct int_dot_vector *vector, uint8_t *pass)
{
	for (size_t v = 0; v < nvectors; v++)
		for (size_t g = 0; g < ngroups; g++) {
			const int8_t *a = rows + g * pairs * 2 * INT_DOT_ROWS;
			const int16_t *x = vector[v].x;
			int32_t sum[INT_DOT_ROWS] = { 0 };
			unsigned bits = 0;

			for (size_t p = 0; p < pairs; p++, a += 2 * INT_DOT_ROWS)
				for (size_t i = 0; i < INT_DOT_ROWS; i++)
					sum[i] += a[2 * i] * x[2 * p] + a[2 * i + 1] * x[2 * p + 1];
			for (size_t i = 0; i < INT_DOT_ROWS; i++) {
				size_t r = INT_DOT_ROWS * g + i;
				float most = (float)sum[i] * vector[v].factor * scale[r] + slack[r];

				bits |= (unsigned)!(most < vector[v].limit) << i;
			}
			pass[v * ngroups + g] = (uint8_t)bits;
		}
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

/* A tile of GROUPS groups and VECTORS vectors, whose sums stay in registers. */
#define AVX2 __attribute__((target("avx2")))

enum { GROUPS = 2, VECTORS = 4 };

/* Rows are fetched this many bytes before they are used: the processor does not do so by itself beyond the
 * end of a page, and a tile is about as long. */
#define AHEAD 8192u
#define LINE  64u

AVX2 __attribute__((always_inline)) static inline void filter_tile(bool ahead, size_t groups,
    size_t vectors, size_t pairs, const int8_t *rows, const float *scale, const float *slack,
    const struct int_dot_vector *vector, uint8_t *pass, size_t stride)
{
	__m256i sum[GROUPS][VECTORS];

#pragma GCC unroll 4
	for (size_t g = 0; g < groups; g++)
#pragma GCC unroll 4
		for (size_t v = 0; v < vectors; v++)
			sum[g][v] = _mm256_setzero_si256();
	for (size_t p = 0; p < pairs; p++) {
		__m256i a[GROUPS];

		if (ahead && p % (LINE / (2 * INT_DOT_ROWS)) == 0)
#pragma GCC unroll 4
			for (size_t g = 0; g < groups; g++)
				_mm_prefetch((const char *)rows + AHEAD +
				        (g * pairs + p) * 2 * INT_DOT_ROWS,
				    _MM_HINT_T0);
#pragma GCC unroll 4
		for (size_t g = 0; g < groups; g++)
			a[g] = _mm256_cvtepi8_epi16(
			    _mm_loadu_si128((const __m128i *)(const void *)(rows +
			        (g * pairs + p) * 2 * INT_DOT_ROWS)));
#pragma GCC unroll 4
		for (size_t v = 0; v < vectors; v++) {
			int32_t two;
			__m256i x;

			memcpy(&two, vector[v].x + 2 * p, sizeof two);
			x = _mm256_set1_epi32(two);
#pragma GCC unroll 4
			for (size_t g = 0; g < groups; g++)
				sum[g][v] = _mm256_add_epi32(sum[g][v], _mm256_madd_epi16(a[g], x));
			/* One vector after the other: otherwise the compiler runs out of registers, and
			 * keeps a sum in memory. */
			__asm__ volatile("" : "+x"(sum[0][v]));
		}
	}
#pragma GCC unroll 4
	for (size_t g = 0; g < groups; g++) {
		__m256 s = _mm256_loadu_ps(scale + INT_DOT_ROWS * g),
		       d = _mm256_loadu_ps(slack + INT_DOT_ROWS * g);

#pragma GCC unroll 4
		for (size_t v = 0; v < vectors; v++) {
			__m256 most = _mm256_mul_ps(_mm256_cvtepi32_ps(sum[g][v]),
			    _mm256_set1_ps(vector[v].factor));

			most = _mm256_add_ps(_mm256_mul_ps(most, s), d);
			pass[v * stride + g] = (uint8_t)_mm256_movemask_ps(
			    _mm256_cmp_ps(most, _mm256_set1_ps(vector[v].limit), _CMP_NLT_UQ));
		}
	}
}

/* All groups for 1 to VECTORS vectors: `many` groups at a time, and the rest one by one. */
AVX2 __attribute__((always_inline)) static inline void filter_some(bool ahead, size_t many,
    size_t vectors, size_t ngroups, size_t pairs, const int8_t *rows, const float *scale,
    const float *slack, const struct int_dot_vector *vector, uint8_t *pass)
{
	size_t g = 0, group = pairs * 2 * INT_DOT_ROWS;

	for (; g + many <= ngroups; g += many)
		filter_tile(ahead, many, vectors, pairs, rows + g * group, scale + INT_DOT_ROWS * g,
		    slack + INT_DOT_ROWS * g, vector, pass + g, ngroups);
	for (; g < ngroups; g++)
		filter_tile(ahead, 1, vectors, pairs, rows + g * group, scale + INT_DOT_ROWS * g,
		    slack + INT_DOT_ROWS * g, vector, pass + g, ngroups);
}

/* With constant sizes the loops are unrolled. 8 sums, their rows and a vector fit into 16 registers. Only
 * the first vectors wait for memory. */
#define SOME(vectors, groups) \
	case vectors: \
		if (first) \
			filter_some(true, groups, vectors, ngroups, pairs, rows, scale, slack, \
			    vector, pass); \
		else \
			filter_some(false, groups, vectors, ngroups, pairs, rows, scale, slack, \
			    vector, pass); \
		break;

AVX2 static void filter_avx2(size_t ngroups, size_t pairs, const int8_t *rows, const float *scale,
    const float *slack, size_t nvectors, const struct int_dot_vector *vector, uint8_t *pass)
{
	bool first = true;

	while (nvectors > 0) {
		size_t n = nvectors < VECTORS ? nvectors : VECTORS;

		switch (n) {
			SOME(4, 2)
			SOME(3, 2)
			SOME(2, 2)
			SOME(1, 2)
		}
		first = false;
		nvectors -= n;
		vector += n;
		pass += n * ngroups;
	}
}
#undef SOME

static filter_fn *choose_filter(void)
{
	return __builtin_cpu_supports("avx2") ? filter_avx2 : filter_plain;
}

#else

static filter_fn *choose_filter(void)
{
	return filter_plain;
}

#endif

void int_dot_filter(size_t ngroups, size_t pairs, const int8_t *rows, const float *scale,
    const float *slack, size_t nvectors, const struct int_dot_vector *vector, uint8_t *pass)
{
	choose_filter()(ngroups, pairs, rows, scale, slack, nvectors, vector, pass);
}
