/* SPDX-License-Identifier: ISC */
/* Random numbers: the published sequences, and fair draws from them. */
#include <math.h>

#include "core/rng.h"
#include "tap.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* The values of Vigna's splitmix64.c for seed 1234567, of Blackman's and Vigna's
 * xoshiro256starstar.c for state 1 2 3 4, and of both together for seed 0. */
static void test_rng_reference(void)
{
	static const uint64_t split[] = {
		UINT64_C(6457827717110365317),
		UINT64_C(3203168211198807973),
		UINT64_C(9817491932198370423),
		UINT64_C(4593380528125082431),
		UINT64_C(16408922859458223821),
	};
	static const uint64_t xoshiro[] = {
		11520,
		0,
		1509978240,
		UINT64_C(1215971899390074240),
		UINT64_C(1216172134540287360),
		UINT64_C(607988272756665600),
		UINT64_C(16172922978634559625),
		UINT64_C(8476171486693032832),
		UINT64_C(10595114339597558777),
		UINT64_C(2904607092377533576),
	};
	static const uint64_t both[] = {
		UINT64_C(0x99ec5f36cb75f2b4),
		UINT64_C(0xbf6e1f784956452a),
		UINT64_C(0x1a5f849d4933e6e0),
		UINT64_C(0x6aa594f1262d2d2c),
	};
	struct rng r = { { 1, 2, 3, 4 } };
	int bad = 0;

	for (size_t i = 0; i < COUNT(split); i++)
		bad += rng_mix(1234567 + i * UINT64_C(0x9e3779b97f4a7c15)) != split[i];
	ok(!bad, "rng_mix is splitmix64");
	for (size_t i = 0; i < COUNT(xoshiro); i++)
		bad += rng_next(&r) != xoshiro[i];
	ok(!bad, "rng_next is xoshiro256**");
	rng_init(&r, 0);
	ok(r.s[0] == UINT64_C(0xe220a8397b1dcdaf) && r.s[1] == UINT64_C(0x6e789e6aa1b965f4) &&
	        r.s[2] == UINT64_C(0x06c45d188009454f) && r.s[3] == UINT64_C(0xf88bb8a8724c81ec),
	    "seeded by splitmix64");
	for (size_t i = 0; i < COUNT(both); i++)
		bad += rng_next(&r) != both[i];
	ok(!bad, "the sequence of seed 0");
	rng_init(&r, 1234567);
	ok(memcmp(r.s, split, sizeof r.s) == 0, "the state of seed 1234567");
}

static void test_rng_draws(void)
{
	enum { N = 200000, SIDES = 6 };
	size_t seen[SIDES] = { 0 };
	double sum = 0, squares = 0, low = 1, high = 0, unit = 0, off = 0;
	struct rng r;
	int outside = 0;

	rng_init(&r, 3);
	for (int i = 0; i < N; i++) {
		uint64_t v = rng_below(&r, SIDES);

		if (v < SIDES)
			seen[v]++;
		else
			outside++;
	}
	for (int i = 0; i < SIDES; i++)
		off += pow((double)seen[i] - N / (double)SIDES, 2) / (N / (double)SIDES);
	ok(!outside && off < 20.5, "rng_below: a fair die (chi squared %.1f, 5 degrees)", off);
	for (int i = 0; i < 1000; i++)
		outside += rng_below(&r, 1) != 0;
	ok(!outside, "rng_below 1 is 0");
	for (int i = 0; i < 1000; i++)
		outside += rng_below(&r, (UINT64_C(1) << 63) + 1) > UINT64_C(1) << 63;
	ok(!outside, "rng_below: a bound just over half of the range");
	for (int i = 0; i < N; i++) {
		double u = rng_unit(&r), z = rng_normal(&r);

		low = fmin(low, u);
		high = fmax(high, u);
		unit += u / N;
		outside += !isfinite(z);
		sum += z / N;
		squares += z * z / N;
	}
	ok(low >= 0 && low < 1e-3 && high < 1 && high > 0.999 && fabs(unit - 0.5) < 0.005,
	    "rng_unit fills [0, 1): %g to %g, mean %g", low, high, unit);
	ok(!outside && fabs(sum) < 0.012 && fabs(squares - 1) < 0.02,
	    "rng_normal: mean %.4f, variance %.4f", sum, squares);
}

static void test_permutation(void)
{
	uint32_t p[1000], q[1000], three[6] = { 0 };
	uint8_t seen[1000] = { 0 };
	struct rng r;
	int bad = 0;
	double off = 0;

	rng_init(&r, 5);
	rng_permutation(&r, p, 1000);
	for (int i = 0; i < 1000; i++)
		bad += p[i] >= 1000 || seen[p[i]]++;
	ok(!bad, "rng_permutation holds each number once");
	rng_init(&r, 5);
	rng_permutation(&r, q, 1000);
	ok(memcmp(p, q, sizeof p) == 0, "equal seeds, equal permutations");
	rng_permutation(&r, q, 1000);
	ok(memcmp(p, q, sizeof p) != 0, "the next one is another");
	rng_permutation(&r, q, 0);
	rng_permutation(&r, q, 1);
	ok(q[0] == 0, "of one and of none");
	for (int i = 0; i < 60000; i++) {
		rng_permutation(&r, q, 3);
		three[q[0] * 2 + (q[1] > q[2])]++;
	}
	for (int i = 0; i < 6; i++)
		off += pow((double)three[i] - 10000, 2) / 10000;
	ok(off < 20.5, "all six orders of three are as likely (chi squared %.1f)", off);
}

int main(void)
{
	test_rng_reference();
	test_rng_draws();
	test_permutation();
	return tap_done();
}
