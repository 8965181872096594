/* SPDX-License-Identifier: ISC */
/* Types of stored values: what they can hold is exact, what they cannot is rounded to nearest or at
 * random. Random rounding has the value as its mean, and depends on the key alone. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "math/stored_rows.h"
#include "tap.h"

enum { TRIES = 20000 };

static const enum element_type narrow[] = { ELEMENT_bf16, ELEMENT_f16 };

/* The value of 16 bits, by the definition of the type. */
static double defined(enum element_type type, uint16_t h)
{
	int bits = type == ELEMENT_f16 ? 10 : 7, bias = type == ELEMENT_f16 ? 15 : 127;
	int exponent = (h & 0x7fff) >> bits;
	double m = h & ((1 << bits) - 1), x;

	if (exponent == 2 * bias + 1)
		x = m > 0 ? NAN : INFINITY;
	else
		x = ldexp(exponent ? m + (1 << bits) : m, (exponent ? exponent : 1) - bias - bits);
	return h & 0x8000 ? -x : x;
}

static void names(void)
{
	enum element_type type;

	ok(element_find("f32", &type) && type == ELEMENT_f32 && element_find("bf16", &type) &&
	        type == ELEMENT_bf16 && element_find("f16", &type) && type == ELEMENT_f16 &&
	        !element_find("f8", &type),
	    "types have names");
	ok(element_bytes(ELEMENT_f32) == 4 && element_bytes(ELEMENT_bf16) == 2 &&
	        element_bytes(ELEMENT_f16) == 2 && strcmp(element_name(ELEMENT_f16), "f16") == 0,
	    "and sizes");
}

/* All 65,536 values. */
static void holds(enum element_type type)
{
	static uint16_t all[65536], back[65536];
	static float wide[65536];
	unsigned wrong = 0, lost = 0, moved = 0;

	for (unsigned i = 0; i < 65536; i++)
		all[i] = (uint16_t)i;
	element_widen(type, 65536, all, wide);
	for (unsigned i = 0; i < 65536; i++) {
		double want = defined(type, (uint16_t)i);

		wrong += isnan(want)
		    ? !isnan(wide[i])
		    : (double)wide[i] != want || !signbit(wide[i]) != !signbit(want);
	}
	ok(wrong == 0, "%s: %u of 65536 values are read wrongly", element_name(type), wrong);
	element_narrow(type, 65536, wide, back);
	for (unsigned i = 0; i < 65536; i++)
		lost += !isnan(wide[i]) && back[i] != all[i];
	for (uint64_t key = 0; key < 20; key++) {
		element_round(type, 65536, rng_mix(key), wide, back);
		for (unsigned i = 0; i < 65536; i++)
			moved += !isnan(wide[i]) && back[i] != all[i];
	}
	ok(lost == 0 && moved == 0, "%s: what it can hold stays as it is (%u, %u do not)",
	    element_name(type), lost, moved);
}

/* A finite number of any size that the type has neighbours for. */
static float any_number(enum element_type type, struct rng *rng)
{
	int e = type == ELEMENT_f16 ? (int)rng_below(rng, 40) - 25 : (int)rng_below(rng, 240) - 120;
	float x = (float)ldexp(0.5 + rng_unit(rng) / 2, e);

	return rng_next(rng) & 1 ? x : -x;
}

/* The neighbours of x among the values of the type; equal if it is one. */
static void neighbours(enum element_type type, float x, float *below, float *above)
{
	uint16_t h;
	float near;

	element_narrow(type, 1, &x, &h);
	element_widen(type, 1, &h, &near);
	*below = *above = near;
	if (near == x)
		return;
	/* Bits of a sign ascend with the magnitude. */
	h = (uint16_t)(fabsf(near) < fabsf(x) ? h + 1 : h - 1);
	element_widen(type, 1, &h, near < x ? above : below);
}

static void rounds(enum element_type type)
{
	unsigned outside = 0, far = 0, biased = 0, tried = 0;
	struct rng rng;

	rng_init(&rng, 7);
	for (unsigned k = 0; k < 400; k++) {
		float x = any_number(type, &rng), below, above, got;
		double sum = 0, share, sigma;
		uint16_t h;

		neighbours(type, x, &below, &above);
		element_narrow(type, 1, &x, &h);
		element_widen(type, 1, &h, &got);
		far += (double)fabsf(got - x) > fmin((double)x - below, (double)above - x);
		if (above <= below || isinf(above) || isinf(below))
			continue;
		share = ((double)x - below) / ((double)above - below);
		for (unsigned i = 0; i < TRIES; i++) {
			element_round(type, 1, rng_next(&rng), &x, &h);
			element_widen(type, 1, &h, &got);
			outside += got != below && got != above;
			sum += got == above;
		}
		sigma = sqrt(share * (1 - share) / TRIES);
		biased += fabs(sum / TRIES - share) > 5 * sigma + 1e-6;
		tried++;
	}
	ok(far == 0, "%s: rounding to nearest takes the nearer neighbour", element_name(type));
	ok(tried > 300 && outside == 0 && biased == 0,
	    "%s: rounding at random takes one of two neighbours, each as often as it should (%u of %u do not)",
	    element_name(type), biased, tried);
}

/* Each place has bits of its own: many small steps add up in all columns. */
static void adds_up(enum element_type type)
{
	enum { N = 64, STEPS = 4000 };
	float w[N], step = 1e-4f;
	uint16_t h[N];
	double least = INFINITY, most = 0, nearest = 1;

	for (unsigned i = 0; i < N; i++)
		w[i] = 1;
	for (uint64_t k = 0; k < STEPS; k++) {
		float x = (float)nearest + step;
		uint16_t near;

		for (unsigned i = 0; i < N; i++)
			w[i] += step;
		element_round(type, N, rng_mix(k), w, h);
		element_widen(type, N, h, w);
		element_narrow(type, 1, &x, &near);
		element_widen(type, 1, &near, &x);
		nearest = (double)x;
	}
	for (unsigned i = 0; i < N; i++) {
		least = fmin(least, (double)w[i]);
		most = fmax(most, (double)w[i]);
	}
	ok(least > 1.2 && most < 1.6 && nearest == 1,
	    "%s: %d steps of 1e-4 from 1 end between %.3f and %.3f; rounded to nearest at %.3f",
	    element_name(type), STEPS, least, most, nearest);
}

static void keyed(enum element_type type)
{
	enum { N = 1000 };
	static float x[N], back[N];
	static uint16_t a[N], b[N], c[N], shifted[N + 1];
	unsigned same = 0;
	struct rng rng;

	rng_init(&rng, 9);
	for (unsigned i = 0; i < N; i++)
		x[i] = (float)rng_normal(&rng);
	element_round(type, N, 12345, x, a);
	element_round(type, N, 12345, x, b);
	element_round(type, N, 12346, x, c);
	for (unsigned i = 0; i < N; i++)
		same += a[i] == c[i];
	ok(memcmp(a, b, sizeof a) == 0, "%s: equal keys give equal bits", element_name(type));
	ok(same > N / 4 && same < N * 3 / 4, "%s: another key gives others (%u of %d are equal)",
	    element_name(type), same, N);
	element_round(type, N, 12345, x, (uint8_t *)shifted + 1);
	element_widen(type, N, (uint8_t *)shifted + 1, back);
	element_widen(type, N, a, x);
	ok(memcmp(x, back, sizeof x) == 0, "%s: at any alignment", element_name(type));
}

static void extremes(enum element_type type)
{
	float x[] = { FLT_MAX, -FLT_MAX, INFINITY, -INFINITY, NAN, 0, -0.0f }, y[7], z[7],
	      largest = type == ELEMENT_f16 ? 65504 : 0x1.fep127f;
	uint16_t h[7];
	bool good = true;

	element_narrow(type, 7, x, h);
	element_widen(type, 7, h, y);
	for (uint64_t key = 0; key < 50; key++) {
		element_round(type, 7, rng_mix(key), x, h);
		element_widen(type, 7, h, z);
		good &= memcmp(y, z, sizeof y) == 0;
	}
	ok(good && y[0] == largest && y[1] == -largest && y[2] == INFINITY && y[3] == -INFINITY &&
	        isinf(y[4]) && y[5] == 0 && !signbit(y[5]) && y[6] == 0 && signbit(y[6]),
	    "%s: too large values become the largest one, others that are not finite an infinity",
	    element_name(type));
}

static void fits(void)
{
	float x[150], y[150];
	uint16_t h[150];

	for (unsigned i = 0; i < 150; i++)
		x[i] = y[i] = (float)i * 0.137f;
	element_fit(ELEMENT_f32, 150, x);
	ok(memcmp(x, y, sizeof x) == 0, "f32 fits as it is");
	for (unsigned k = 0; k < 2; k++) {
		element_narrow(narrow[k], 150, y, h);
		memcpy(x, y, sizeof x);
		element_fit(narrow[k], 150, x);
		element_widen(narrow[k], 150, h, y);
		ok(memcmp(x, y, sizeof x) == 0, "%s: values are rounded in place",
		    element_name(narrow[k]));
	}
}

/* Rows of bytes: no value is farther from its own than half of the scale. */
static void rows_of_bytes(void)
{
	enum { COLS = 37 };
	float row[3 * COLS] = { 0 }, back[3 * COLS], scale[3];
	int8_t byte[3 * COLS];
	struct stored_rows rows = { .at = (uint8_t *)byte, .scale = (uint8_t *)scale };
	bool good = true;

	for (unsigned k = 0; k < COLS; k++) {
		row[COLS + k] = (float)k * 0.137f - 2;
		row[2 * COLS + k] = (k % 2 ? 1 : -1) * (float)k * FLT_TRUE_MIN;
	}
	for (unsigned i = 0; i < 3; i++) {
		scale[i] = stored_row_scale(COLS, row + i * COLS);
		stored_row_narrow(COLS, row + i * COLS, scale[i], byte + i * COLS);
	}
	stored_rows_get(&rows, COLS, 0, 3, back);
	ok(scale[0] == 0 && memcmp(row, back, COLS * sizeof *row) == 0, "a row of zeros stays one");
	for (unsigned k = COLS; k < 2 * COLS; k++)
		good &= fabsf(back[k] - row[k]) <= scale[1] * 0.50001f;
	ok(good && back[2 * COLS - 1] == 127 * scale[1], "a row of bytes is near its values");
	for (unsigned k = 2 * COLS; k < 3 * COLS; k++)
		good &= fabsf(back[k]) <= 127 * scale[2];
	ok(good, "and a row below the normal numbers keeps in their range");
	stored_rows_get(&rows, COLS, 1, 1, back);
	ok(back[COLS - 1] == 127 * scale[1], "one row is read by its number");
	row[5] = NAN;
	ok(isnan(stored_row_scale(COLS, row)), "the scale shows a value that is not finite");
}

int main(void)
{
	names();
	for (unsigned i = 0; i < 2; i++) {
		holds(narrow[i]);
		rounds(narrow[i]);
		adds_up(narrow[i]);
		keyed(narrow[i]);
		extremes(narrow[i]);
	}
	fits();
	rows_of_bytes();
	return tap_done();
}
