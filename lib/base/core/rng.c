/* SPDX-License-Identifier: ISC */
#include "core/rng.h"

#include <math.h>

void rng_init(struct rng *r, uint64_t seed)
{
	for (int i = 0; i < 4; i++) {
		r->s[i] = rng_mix(seed);
		seed += UINT64_C(0x9e3779b97f4a7c15);
	}
}

static uint64_t rotate_left(uint64_t x, int k)
{
	return x << k | x >> (64 - k);
}

uint64_t rng_next(struct rng *r)
{
	uint64_t *s = r->s, out = rotate_left(s[1] * 5, 7) * 9, t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotate_left(s[3], 45);
	return out;
}

uint64_t rng_below(struct rng *r, uint64_t n)
{
	/* Rejecting draws below 2^64 mod n removes the bias towards the first values. */
	uint64_t x, skip = -n % n;

	do
		x = rng_next(r);
	while (x < skip);
	return x % n;
}

double rng_unit(struct rng *r)
{
	return (double)(rng_next(r) >> 11) * 0x1p-53;
}

double rng_normal(struct rng *r)
{
	/* Box and Muller 1958; 1 - u keeps the logarithm finite. */
	double u = 1 - rng_unit(r), v = rng_unit(r);

	return sqrt(-2 * log(u)) * cos(2 * 3.14159265358979323846 * v);
}

void rng_permutation(struct rng *r, uint32_t *out, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t j = rng_below(r, i + 1);

		out[i] = out[j];
		out[j] = (uint32_t)i;
	}
}
