/* SPDX-License-Identifier: ISC */
#ifndef CORE_RNG_H
#define CORE_RNG_H

#include <stddef.h>
#include <stdint.h>

/* A seeded random number generator (xoshiro256**, Blackman and Vigna 2018, seeded by splitmix64).
 * Equal seeds give equal sequences on every machine. Not for keys and nonces: use libsodium's
 * randombytes. One thread for each struct rng. */
struct rng {
	uint64_t s[4];
};

/* Begins the sequence of a seed; rng_next gives the next 64 bits. */
void rng_init(struct rng *r, uint64_t seed);
uint64_t rng_next(struct rng *r);
uint64_t rng_below(struct rng *r, uint64_t n); /* unbiased, n > 0 */
double rng_unit(struct rng *r);                /* [0, 1) */
double rng_normal(struct rng *r);              /* mean 0, variance 1 */
/* A random permutation of 0..n-1 (Fisher-Yates) in out. */
void rng_permutation(struct rng *r, uint32_t *out, size_t n);

/* One splitmix64 step as a stateless hash, for initial values that must not depend on order. */
static inline uint64_t rng_mix(uint64_t x)
{
	x += UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

#endif
