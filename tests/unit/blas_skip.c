/* SPDX-License-Identifier: ISC */
/* Products without packing: every kind of vector, with and without zeroes, against one
 * fused multiply-add after the other, in equal bits; and who is to do without. */
#include <math.h>
#include <stdlib.h>

#include "tap.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include "math/blas_skip.c"

static uint64_t state = 88172645463325252u;

static float *values(size_t n, unsigned zeroes)
{
	float *x = malloc((n + 1) * sizeof *x);

	for (size_t i = 0; i < n; i++) {
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		x[i] = state >> 40 & 15 ? (float)(state >> 40) / (float)(1 << 24) - 0.5f : 0.0f;
		/* In runs, as in images. */
		if ((i / 11) % 10 < zeroes)
			x[i] = i % 2 ? 0.0f : -0.0f;
	}
	return x;
}

/* What the header says. */
static void plainly(bool ta, size_t m, size_t n, size_t k, const float *a, const float *b, bool add,
    float *c)
{
	for (size_t i = 0; i < m; i++)
		for (size_t j = 0; j < n; j++) {
			float all = c[i * n + j];

			for (size_t from = 0, more; from < k; from += more) {
				float sum = 0;

				more = next_part(k - from);
				for (size_t p = from; p < from + more; p++)
					sum = fmaf(ta ? a[p * m + i] : a[i * k + p], b[p * n + j],
					    sum);
				all = add || from ? all + sum : sum;
			}
			c[i * n + j] = all;
		}
}

static bool same(size_t n, const float *x, const float *y)
{
	for (size_t i = 0; i < n; i++)
		if (x[i] != y[i])
			return false;
	return true;
}

static const struct size {
	size_t m, n, k;
} sizes[] = { { 64, 256, 784 }, { 784, 256, 64 }, { 1, 64, 321 }, { 6, 65, 640 }, { 5, 71, 641 },
	{ 13, 333, 100 }, { 8, 16, 1 }, { 9, 1, 7 } };

static void compare(part_fn *part, const char *kind)
{
	for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
		for (unsigned how = 0; how < 8; how++) {
			bool ta = how & 1, add = how & 2;
			size_t m = sizes[s].m, n = sizes[s].n, k = sizes[s].k, more;
			float *a = values(m * k, how & 4 ? 6 : 0), *b = values(k * n, 0),
			      *c = values(m * n, 0);
			float *d = malloc(m * n * sizeof *d);
			const struct product x = { .a = a,
				.b = b,
				.c = d,
				.m = m,
				.n = n,
				.row = ta ? 1 : k,
				.term = ta ? m : 1 };

			memcpy(d, c, m * n * sizeof *d);
			plainly(ta, m, n, k, a, b, add, c);
			for (size_t from = 0; from < k; from += more) {
				more = next_part(k - from);
				part(&x, from, from + more, add || from);
			}
			ok(same(m * n, c, d), "%s: (%zu, %zu) by (%zu, %zu)%s%s%s", kind, m, k, k,
			    n, ta ? ", the first transposed" : "", add ? ", added" : "",
			    how & 4 ? ", of mostly zeroes" : "");
			free(a);
			free(b);
			free(c);
			free(d);
		}
}

static void what_is_passed_on(void)
{
	float *a = values(784 * 64, 0), *c = values(64 * 64, 0), one = NAN;

	ok(!blas_skip(false, 64, 10, 784, a, a, false, c), "few columns are left to OpenBLAS");
	ok(!blas_skip(false, 64, 64, 64, a, a, false, c), "a small product is left to OpenBLAS");
	/* Where the first factor is not 0 nothing is hidden. */
	a[0] = INFINITY;
	if (blas_skip(false, 64, 64, 784, a, a, false, c))
		one = c[1];
	ok(!isfinite(one), "what is not finite is passed on");
	free(a);
	free(c);
}

int main(void)
{
	if (__builtin_cpu_supports("avx512f"))
		compare(avx512_part, "AVX-512");
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
		compare(avx2_part, "AVX2");
	what_is_passed_on();
	return tap_done();
}
#else
int main(void)
{
	return skip_all("the products are made for x86-64");
}
#endif
