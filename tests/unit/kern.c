/* SPDX-License-Identifier: ISC */
/* lib/kern against plain loops, bit for bit, at every length and alignment. */
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "math/copy.h"
#include "math/gemv.h"
#include "math/vec.h"
#include "tap.h"

enum { MAXN = 131, SHIFTS = 17 };

static uint64_t state = 88172645463325252u;

static uint32_t bits(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 16);
}

/* Floats of all sizes, denormals and zeroes of both signs among them. */
static float any_float(void)
{
	uint32_t u = bits();
	float f;

	if ((u & 15) == 0)
		u &= 0x807fffff;
	else if ((u & 15) == 1)
		u &= 0x80000000;
	else
		u = (u & 0x807fffff) | (uint32_t)(97 + bits() % 60) << 23;
	memcpy(&f, &u, sizeof f);
	return f;
}

static void fill(size_t n, float *x)
{
	for (size_t i = 0; i < n; i++)
		x[i] = any_float();
}

/* volatile keeps the compiler from doing to the reference what it does to the
 * kernel: each operation is one scalar instruction. */
static float ref_mul(float a, float b)
{
	volatile float p = a * b;

	return p;
}

static float ref_add(float a, float b)
{
	volatile float s = a + b;

	return s;
}

static double ref_dot(size_t n, const float *x, const float *y)
{
	double lane[VEC_LANES] = { 0 };

	for (size_t i = 0; i < n; i++) {
		volatile double s = lane[i % VEC_LANES] + (double)x[i] * (double)y[i];

		lane[i % VEC_LANES] = s;
	}
	for (size_t half = VEC_LANES / 2; half > 0; half /= 2)
		for (size_t j = 0; j < half; j++)
			lane[j] += lane[j + half];
	return lane[0];
}

enum op { AXPY, AXPY_FIRST, ADD, SCALE, COPY_SCALED, ADD_SCALED, JOIN, XPAY, MASK };

static float ref_one(enum op op, float a, float x, float y)
{
	switch (op) {
	case AXPY:
		return ref_add(y, ref_mul(a, x));
	case AXPY_FIRST:
		return ref_add(0, ref_mul(a, x));
	case ADD:
		return ref_add(y, x);
	case SCALE:
		return ref_mul(y, a);
	case COPY_SCALED:
		return ref_mul(a, x);
	case ADD_SCALED:
		return ref_mul(ref_add(y, x), a);
	case JOIN:
		return ref_mul(ref_add(y, ref_mul(a, x)), a);
	case XPAY:
		return ref_add(ref_mul(a, y), x);
	case MASK:
		return x == 0 ? 0 : y;
	}
	return NAN;
}

static void join(size_t n, float a, const float *x, float *y)
{
	float *before = malloc((n + 1) * sizeof *before);

	memcpy(before, y, n * sizeof *y);
	vec_join(n, a, x, before, a, y);
	free(before);
}

static void run(enum op op, size_t n, float a, const float *x, float *y)
{
	switch (op) {
	case AXPY:
		vec_axpy(n, a, x, y);
		break;
	case AXPY_FIRST:
		vec_axpy_first(n, a, x, y);
		break;
	case ADD:
		vec_add(n, x, y);
		break;
	case SCALE:
		vec_scale(n, a, y);
		break;
	case COPY_SCALED:
		vec_copy_scaled(n, a, x, y);
		break;
	case ADD_SCALED:
		vec_add_scaled(n, x, a, y);
		break;
	case JOIN:
		join(n, a, x, y);
		break;
	case XPAY:
		vec_xpay(n, x, a, y);
		break;
	case MASK:
		vec_mask(n, x, y);
		break;
	}
}

/* Equal bits, and nothing written before or behind.  Blocks of the exact size
 * let ASan see reads beyond the end. */
static bool elementwise_agrees(enum op op, size_t n, size_t shift)
{
	size_t all = n + shift;
	float *x = malloc((all + 1) * sizeof *x), *y = malloc((all + 1) * sizeof *y);
	float *want = malloc((all + 1) * sizeof *want);
	float a = any_float();
	bool same;

	fill(all, x);
	fill(all, y);
	for (size_t i = 0; i < all; i++)
		want[i] = i < shift ? y[i] : ref_one(op, a, x[i], y[i]);
	run(op, n, a, x + shift, y + shift);
	same = memcmp(y, want, all * sizeof *y) == 0;
	free(x);
	free(y);
	free(want);
	return same;
}

static void test_elementwise(void)
{
	static const char *const names[] = {
		"vec_axpy",
		"vec_axpy_first",
		"vec_add",
		"vec_scale",
		"vec_copy_scaled",
		"vec_add_scaled",
		"vec_join",
		"vec_xpay",
		"vec_mask",
	};

	for (int op = AXPY; op <= MASK; op++) {
		int bad = 0;

		for (size_t n = 0; n < MAXN; n++)
			for (size_t shift = 0; shift < SHIFTS; shift++)
				bad += !elementwise_agrees((enum op)op, n, shift);
		bad += !elementwise_agrees((enum op)op, 65536 + 3, 1);
		ok(bad == 0, "%s has the bits of a plain loop at every length", names[op]);
	}
}

static void test_sums(void)
{
	int bad_dot = 0, bad_sumsq = 0, bad_norm = 0, far = 0;

	for (size_t n = 0; n < MAXN; n++)
		for (size_t shift = 0; shift < SHIFTS; shift++) {
			float *x = malloc((n + shift + 1) * sizeof *x);
			float *y = malloc((n + shift + 1) * sizeof *y);
			long double naive = 0, size = 0;

			fill(n + shift, x);
			fill(n + shift, y);
			for (size_t i = shift; i < n + shift; i++) {
				naive += (long double)x[i] * y[i];
				size += fabsl((long double)x[i] * y[i]);
			}
			double dot = vec_dot(n, x + shift, y + shift);
			double sumsq = vec_sumsq(n, x + shift);

			bad_dot += dot != ref_dot(n, x + shift, y + shift);
			bad_sumsq += sumsq != ref_dot(n, x + shift, x + shift);
			bad_norm += vec_norm2(n, x + shift) != sqrt(sumsq);
			far += fabsl((long double)dot - naive) > 1e-14L * size;
			free(x);
			free(y);
		}
	ok(bad_dot == 0, "vec_dot has the bits of %d plain lanes", VEC_LANES);
	ok(bad_sumsq == 0, "vec_sumsq has the bits of %d plain lanes", VEC_LANES);
	ok(bad_norm == 0, "vec_norm2 is the root of vec_sumsq");
	ok(far == 0, "vec_dot is near the sum in one lane of long double");

	float big[64];

	for (size_t i = 0; i < 64; i++)
		big[i] = FLT_MAX;
	ok(isfinite(vec_sumsq(64, big)) && vec_norm2(64, big) == 8.0 * (double)FLT_MAX,
	    "squares of the largest floats do not overflow");
}

static void test_finite(void)
{
	static const struct {
		const char *name;
		uint32_t u;
		bool finite;
	} cases[] = {
		{ "+inf", 0x7f800000, false },
		{ "-inf", 0xff800000, false },
		{ "quiet NaN", 0x7fc00000, false },
		{ "negative NaN", 0xffc00001, false },
		{ "signalling NaN", 0x7f800001, false },
		{ "full NaN", 0xffffffff, false },
		{ "FLT_MAX", 0x7f7fffff, true },
		{ "-FLT_MAX", 0xff7fffff, true },
		{ "smallest denormal", 0x00000001, true },
		{ "-largest denormal", 0x807fffff, true },
		{ "zero", 0x00000000, true },
		{ "-zero", 0x80000000, true },
	};

	for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
		int bad = 0;

		for (size_t n = 0; n < MAXN; n++)
			for (size_t at = 0; at < n; at++) {
				float *x = malloc(n * sizeof *x);

				fill(n, x);
				memcpy(x + at, &cases[c].u, sizeof *x);
				bad += vec_all_finite(n, x) != cases[c].finite;
				free(x);
			}
		ok(bad == 0, "vec_all_finite: %s is %s in every place", cases[c].name,
		    cases[c].finite ? "finite" : "seen");
	}

	float *x = calloc(10000, sizeof *x);
	int bad = 0;

	ok(vec_all_finite(0, x) && vec_all_finite(10000, x), "nothing and zeroes are finite");
	for (size_t i = 0; i < 10000; i += 7) {
		x[i] = NAN;
		bad += vec_all_finite(10000, x) || !vec_all_finite(i, x) ||
		    !vec_all_finite(10000 - i - 1, x + i + 1);
		x[i] = 0;
	}
	ok(bad == 0, "a NaN is seen in every block of a long vector, and only there");
	x[9000] = -0x1.fffffep83f;
	ok(vec_all_bounded(10000, x), "a magnitude below 2^84 is in bounds");
	x[9000] = -0x1p84f;
	ok(!vec_all_bounded(10000, x) && vec_all_finite(10000, x), "2^84 is not, though finite");
	x[9000] = INFINITY;
	ok(!vec_all_bounded(10000, x), "nor is an infinity");
	free(x);
}

static void test_any_address(void)
{
	uint8_t room[4 * MAXN + 4];
	int bad = 0;

	for (size_t n = 1; n < MAXN; n++)
		for (size_t shift = 0; shift < 4; shift++) {
			float large = -0x1p84f, x[MAXN];

			fill(n, x);
			memcpy(room + shift, x, 4 * n);
			bad += !vec_all_bounded(n, room + shift);
			memcpy(room + shift + 4 * (bits() % n), &large, 4);
			bad += vec_all_bounded(n, room + shift);
		}
	ok(bad == 0, "vec_all_bounded looks at floats at any address");
}

static void test_max(void)
{
	static const float bad[] = { NAN, -NAN, INFINITY, -INFINITY };
	int wrong = 0, missed = 0;

	for (size_t n = 0; n < MAXN; n++) {
		float *x = malloc((n + 1) * sizeof *x), want = 0;

		fill(n, x);
		for (size_t i = 0; i < n; i++)
			want = fmaxf(want, fabsf(x[i]));
		wrong += vec_max_abs(n, x) != want;
		for (size_t i = 0; i < n; i++) {
			float was = x[i];

			x[i] = bad[i % 4];
			missed += !isnan(vec_max_abs(n, x));
			x[i] = was;
		}
		free(x);
	}
	ok(wrong == 0, "vec_max_abs is the largest magnitude");
	ok(missed == 0, "vec_max_abs is NaN where one is not finite");
}

/* A row of a product, as gemv.h defines it. */
static float ref_row(size_t n, const float *x, const float *y)
{
	float lane[GEMV_LANES] = { 0 };
	size_t whole = n / GEMV_LANES * GEMV_LANES;

	for (size_t i = 0; i < n / 8 * 8; i++) {
		float *to = &lane[i < whole ? i % GEMV_LANES : i % 8];

		*to = ref_add(*to, ref_mul(x[i], y[i]));
	}
	for (size_t half = GEMV_LANES / 2; half > 0; half /= 2)
		for (size_t j = 0; j < half; j++)
			lane[j] = ref_add(lane[j], lane[j + half]);
	for (size_t i = n / 8 * 8; i < n; i++)
		lane[0] = ref_add(lane[0], ref_mul(x[i], y[i]));
	return lane[0];
}

/* All sizes up to 9 rows: the scores of a row are the same in every batch. */
static void test_gemv(void)
{
	enum { ROWS = 9 };
	float a[ROWS * MAXN], x[MAXN], z[ROWS], y[ROWS], want[ROWS], sum[MAXN], column[MAXN];
	size_t bad = 0, bad_sums = 0;

	fill(ROWS * MAXN, a);
	fill(MAXN, x);
	fill(ROWS, z);
	for (size_t m = 0; m <= ROWS; m++)
		for (size_t n = 0; n <= MAXN; n++) {
			for (size_t i = 0; i < m; i++) {
				y[i] = z[i];
				want[i] = ref_add(z[i], ref_row(n, a + i * n, x));
			}
			gemv_add(m, n, a, x, y);
			bad += memcmp(y, want, m * sizeof *y) != 0;
			for (size_t j = 0; j < n; j++) {
				sum[j] = NAN;
				column[j] = 0;
				for (size_t i = 0; i < m; i++)
					column[j] = ref_add(column[j], ref_mul(z[i], a[i * n + j]));
			}
			gemv_transposed(m, n, a, z, sum);
			bad_sums += memcmp(sum, column, n * sizeof *sum) != 0;
		}
	ok(bad == 0, "gemv_add: each row by itself, in equal bits (%zu wrong)", bad);
	ok(bad_sums == 0, "gemv_transposed: the rows in order, over NaN (%zu wrong)", bad_sums);
}

/* copy_past_caches at every length and alignment: the floats that it names and no others. */
static void test_copy(void)
{
	float from[MAXN + SHIFTS], to[MAXN + 2 * SHIFTS], want[MAXN + 2 * SHIFTS];
	size_t bad = 0;

	fill(MAXN + SHIFTS, from);
	for (size_t shift = 0; shift < SHIFTS; shift++) {
		for (size_t n = 0; n <= MAXN; n++) {
			fill(MAXN + 2 * SHIFTS, to);
			memcpy(want, to, sizeof want);
			memcpy(want + shift, from + SHIFTS - 1 - shift, n * sizeof *want);
			copy_past_caches(to + shift, from + SHIFTS - 1 - shift, n);
			bad += memcmp(to, want, sizeof want) != 0;
		}
	}
	ok(bad == 0, "copy_past_caches: the same bits, and nothing beside them (%zu wrong)", bad);
}

int main(void)
{
	test_copy();
	test_gemv();
	test_elementwise();
	test_sums();
	test_finite();
	test_any_address();
	test_max();
	return tap_done();
}
