/* SPDX-License-Identifier: ISC */
/* Searches of the nearest rows (nearest/nearest.h) by batches of 1 and 16 queries, beside two bounds that
 * are measured in the same run, all in processor time: a plain read of the bytes that a search
 * reads, and the products and sums of 16-bit integers that it needs, on registers alone. One thread.
 *
 * usage: nearest [ROWS [WIDTH [K [REPEATS]]]]     (1000000 64 10 7) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "math/int_dot.h"
#include "math/vec.h"
#include "nearest/nearest.h"

#define BATCH 16u

static uint64_t state = 88172645463325252u;

static float normal(void)
{
	float sum = 0;

	for (int i = 0; i < 4; i++) {
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		sum += (float)(state >> 40) / (float)(1 << 24) - 0.5f;
	}
	return sum;
}

static int by_size(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Seconds, the median of n. */
static double median(double *t, size_t n)
{
	qsort(t, n, sizeof *t, by_size);
	return t[n / 2];
}

static volatile uint64_t sink;

/* Reads n bytes, a multiple of 128, once. */
#if defined(__x86_64__)
#include <immintrin.h>

__attribute__((target("avx2"))) static void read_bytes(const uint8_t *p, size_t n)
{
	__m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;

	for (size_t i = 0; i + 128 <= n; i += 128) {
		const __m256i *x = (const void *)(p + i);

		a = _mm256_xor_si256(a, _mm256_loadu_si256(x));
		b = _mm256_xor_si256(b, _mm256_loadu_si256(x + 1));
		c = _mm256_xor_si256(c, _mm256_loadu_si256(x + 2));
		d = _mm256_xor_si256(d, _mm256_loadu_si256(x + 3));
	}
	a = _mm256_xor_si256(_mm256_xor_si256(a, b), _mm256_xor_si256(c, d));
	sink = sink + (uint64_t)_mm256_extract_epi64(a, 0) + (uint64_t)_mm256_extract_epi64(a, 1);
}

/* n times 8 products of 16 pairs of 16-bit integers and sums of their results: 8 * 16 * n multiply-adds. */
__attribute__((target("avx2"))) static void multiply_add(size_t n)
{
	__m256i s[8], x = _mm256_set1_epi16((int16_t)(sink & 3)), y = _mm256_set1_epi16(3);

	for (int i = 0; i < 8; i++)
		s[i] = _mm256_setzero_si256();
	for (size_t k = 0; k < n; k++) {
		__asm__ volatile("" : "+x"(x), "+x"(y));
#pragma GCC unroll 8
		for (int i = 0; i < 8; i++) {
			__m256i product = _mm256_madd_epi16(x, y);

			/* One product for each sum: none is computed once for all. */
			__asm__ volatile("" : "+x"(product));
			s[i] = _mm256_add_epi32(s[i], product);
		}
	}
	for (int i = 1; i < 8; i++)
		s[0] = _mm256_add_epi32(s[0], s[i]);
	sink = sink + (uint64_t)_mm256_extract_epi32(s[0], 0);
}
#define HAS_BOUNDS __builtin_cpu_supports("avx2")
#else
#define HAS_BOUNDS false
static void read_bytes(const uint8_t *p, size_t n)
{
	(void)p;
	(void)n;
}
static void multiply_add(size_t n)
{
	(void)n;
}
#endif

/* Processor time of this thread, so that other programs disturb less. */
static int64_t spent(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static double elapsed(int64_t since)
{
	return (double)(spent() - since) / 1e9;
}

/* Seconds of a batch of queries. */
static double search(const struct nearest *x, const float *q, size_t n, size_t width, size_t k,
    struct nearest_hit *hit, size_t *compared)
{
	struct nearest_query query[BATCH];
	struct err e;
	int64_t since;

	for (size_t i = 0; i < n; i++)
		query[i] = (struct nearest_query){ .v = q + i * width, .k = k, .hit = hit + i * k };
	since = spent();
	if (nearest_search(x, query, n, &e)) {
		fprintf(stderr, "nearest: %s\n", e.msg);
		exit(1);
	}
	*compared = query[0].compared;
	return elapsed(since);
}

/* The share of the hits of a query that a comparison of all rows by their floats finds. */
static double recall(const struct nearest *x, const float *v, const float *q, size_t rows,
    size_t width, size_t k, const struct nearest_hit *hit)
{
	size_t found = 0;
	double least = hit[k - 1].score;

	(void)x;
	for (size_t r = 0; r < rows; r++)
		if (vec_dot(width, v + r * width, q) > least)
			found++;
	/* Fewer than k rows are better than the last hit, if that is right. */
	return found < k ? 1 : (double)k / (double)(found + 1);
}

int main(int argc, char **argv)
{
	size_t rows = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000000,
	       width = argc > 2 ? strtoul(argv[2], NULL, 10) : 64,
	       k = argc > 3 ? strtoul(argv[3], NULL, 10) : 10,
	       repeats = argc > 4 ? strtoul(argv[4], NULL, 10) : 7, compared = 0;
	size_t bytes = rows * ((width + 1) / 2 * 2 + 8);
	struct nearest *x = nearest_new(width, NEAREST_DOT);
	float *v = malloc(rows * width * sizeof *v), *q = malloc(BATCH * width * sizeof *q);
	struct nearest_hit *hit = malloc(BATCH * k * sizeof *hit);
	uint8_t *plain = malloc(bytes + 128);
	double *t[4], read = 0, multiply = 0;
	size_t loops = 4u << 20;
	struct err e;
	int64_t since = spent();

	if (!v || !q || !hit || !plain || rows < k || !repeats)
		return 1;
	for (size_t i = 0; i < rows * width; i++)
		v[i] = normal();
	for (size_t i = 0; i < BATCH * width; i++)
		q[i] = normal();
	memset(plain, 1, bytes + 128);
	since = spent();
	if (nearest_reserve(x, rows, &e))
		return 1;
	for (size_t r = 0; r < rows; r++)
		if (nearest_put(x, r, v + r * width, &e))
			return 1;
	printf("%zu rows of %zu floats, k %zu; built in %.2f s; a search reads %.0f MB\n", rows,
	    width, k, elapsed(since), (double)bytes / 1e6);
	for (int i = 0; i < 4; i++)
		t[i] = malloc(repeats * sizeof **t);
	for (size_t i = 0; i < repeats; i++) {
		t[0][i] = search(x, q, 1, width, k, hit, &compared);
		since = spent();
		read_bytes(plain, bytes);
		t[1][i] = elapsed(since);
		t[2][i] = search(x, q, BATCH, width, k, hit, &compared);
		since = spent();
		multiply_add(loops);
		t[3][i] = elapsed(since);
	}
	if (HAS_BOUNDS) {
		read = median(t[1], repeats);
		multiply = median(t[3], repeats) / ((double)loops * 128) * (double)(rows * width);
		printf(
		    "bounds: a plain read %.2f ms (%.1f GB/s); multiply-adds %.2f ms a query (%.1f G/s)\n",
		    read * 1e3, (double)bytes / read / 1e9, multiply * 1e3,
		    (double)(rows * width) / multiply / 1e9);
	}
	for (size_t b = 1; b <= BATCH; b += BATCH - 1) {
		double s = median(t[b == 1 ? 0 : 2], repeats),
		       bound = read > multiply * (double)b ? read : multiply * (double)b;

		printf("batch of %2zu: %7.2f ms, %7.0f queries/s", b, s * 1e3, (double)b / s);
		if (HAS_BOUNDS)
			printf(", %3.0f %% of the lower bound (%s)", 100 * bound / s,
			    bound > read ? "multiply-adds" : "read");
		printf("\n");
	}
	printf("rows compared by their floats: %zu a query; recall %.3f\n", compared,
	    recall(x, v, q, rows, width, k, hit));
	nearest_free(x);
	return 0;
}
