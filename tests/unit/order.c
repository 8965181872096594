/* SPDX-License-Identifier: ISC */
/* Medians and trimmed means of vectors against plain sorting, bit for bit. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "math/order.h"
#include "tap.h"

enum { MAXN = 40, MAXLEN = 200 };

static uint64_t state = 88172645463325252u;

static uint32_t bits(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 16);
}

/* Of all sizes below 2^84, with zeroes of both signs, denormals and many equal ones. */
static float any_float(void)
{
	uint32_t u = bits();
	float f;

	if ((u & 7) == 0)
		u &= 0x80000000;
	else if ((u & 7) == 1)
		u &= 0x807fffff;
	else if ((u & 7) < 5)
		u = (u & 0x80000000) | (uint32_t)(120 + bits() % 8) << 23;
	else
		u = (u & 0x807fffff) | (uint32_t)(1 + bits() % 210) << 23;
	memcpy(&f, &u, sizeof f);
	return f;
}

static float *memory;
static const float *x[ORDER_MAX];

static void fill(size_t n, size_t len, size_t shift)
{
	for (size_t i = 0; i < n; i++) {
		float *v = memory + i * (len + shift) + shift;

		for (size_t k = 0; k < len; k++)
			v[k] = any_float();
		x[i] = v;
	}
}

static bool same(size_t n, size_t len)
{
	float a[MAXLEN + 1], b[MAXLEN + 1];
	bool good = true;

	order_median(n, len, x, a);
	order_median_ref(n, len, x, b);
	good &= memcmp(a, b, len * sizeof *a) == 0;
	for (size_t k = 0; 2 * k < n && k < 5; k++) {
		order_trimmed(n, k, len, x, a);
		order_trimmed_ref(n, k, len, x, b);
		good &= memcmp(a, b, len * sizeof *a) == 0;
	}
	return good;
}

static void test_sizes(void)
{
	bool good = true;

	for (size_t n = 1; n <= MAXN; n++)
		for (size_t len = 0; len <= MAXLEN; len += len < 20 ? 1 : 45) {
			fill(n, len, n % 3);
			good &= same(n, len);
		}
	ok(good, "any number of vectors of any length, bit for bit as plain sorting does it");
	good = true;
	for (size_t n = 255; n <= ORDER_MAX; n = n * 4 + 1) {
		fill(n, 9, 0);
		good &= same(n, 9);
	}
	fill(ORDER_MAX, 5, 0);
	ok(good && same(ORDER_MAX, 5), "and of hundreds and thousands");
}

/* What they are, without another implementation of the same. */
static void test_meaning(void)
{
	static const float a[] = { 1, -0.0f, 5 }, b[] = { 2, -0.0f, -5 }, c[] = { 1000, -0.0f, 3 },
	                   d[] = { 4, 0, 1 };
	static const float *const four[] = { a, b, c, d };
	uint32_t zero;
	float out[3];

	order_median(3, 3, four, out);
	memcpy(&zero, &out[1], sizeof zero);
	ok(out[0] == 2 && zero == 0 && out[2] == 3, "the middle of three; a zero is +0");
	order_median(4, 3, four, out);
	ok(out[0] == 3 && out[2] == 2, "half the sum of the middle two of four");
	order_trimmed(4, 1, 3, four, out);
	ok(out[0] == 3 && out[2] == 2, "the mean of four without the least and the greatest");
	order_trimmed(4, 0, 3, four, out);
	ok(out[0] == 251.75f && out[2] == 1, "and of all");
	ok(order_middle(4, (double[]){ 4, 1, 3, 2 }) == 2 && order_middle(1, (double[]){ 7 }) == 7,
	    "the lower middle of doubles");
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void test_speed(void)
{
	enum { LEN = 65536, N = 8 };
	float *out = malloc(LEN * sizeof *out);
	double fast, plain;

	fill(N, LEN, 0);
	fast = seconds();
	order_median(N, LEN, x, out);
	fast = seconds() - fast;
	plain = seconds();
	order_median_ref(N, LEN, x, out);
	plain = seconds() - plain;
	printf("# median of 8 times 65536: %.0f us, plainly %.0f us\n", fast * 1e6, plain * 1e6);
	free(out);
}

int main(void)
{
	memory = malloc((size_t)ORDER_MAX * 203 * sizeof *memory);
	test_sizes();
	test_meaning();
	test_speed();
	free(memory);
	return tap_done();
}
