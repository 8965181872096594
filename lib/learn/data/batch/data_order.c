/* SPDX-License-Identifier: ISC */
#include "data/batch/data_order.h"

#include "core/rng.h"

/* An order must be known at each position without those before it, or each worker would compute all
 * of it. So it is a keyed bijection of the numbers below a power of two, which is applied again until
 * the result is less than n (cycle walking, Black and Rogaway 2002). A round of the bijection consists
 * of two steps that can be undone: a multiplication by an odd number modulo the power, which carries
 * low bits to the high ones, and an exclusive or with the upper half, which carries them back. Six
 * rounds cannot be told from a random permutation by the composition of batches, by the pairs of
 * neighbours, or by the position of an example over many epochs (tests/unit/data_parts.c). */
#define ROUNDS 6
/* A domain of fewer bits has too few bijections of this form. */
#define LEAST_BITS 10

void data_order(uint64_t seed, uint64_t epoch, uint32_t n, uint32_t begin, uint32_t end,
    uint32_t *out)
{
	uint32_t flip[ROUNDS], factor[ROUNDS], mask;
	unsigned bits = LEAST_BITS, half;
	struct rng r;

	/* Mixed twice, so that (seed, epoch + 1) is not (seed + 1, epoch). */
	rng_init(&r, rng_mix(rng_mix(seed) ^ epoch));
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t key = rng_next(&r);

		flip[i] = (uint32_t)key;
		factor[i] = (uint32_t)(key >> 32) | 1;
	}
	while (bits < 32 && n > UINT32_C(1) << bits)
		bits++;
	mask = UINT32_MAX >> (32 - bits);
	half = (bits + 1) / 2;
	for (uint32_t at = begin; at < end; at++) {
		uint32_t x = at;

		do {
			for (int i = 0; i < ROUNDS; i++) {
				x = (x ^ flip[i]) * factor[i] & mask;
				x ^= x >> half;
			}
		} while (x >= n);
		*out++ = x;
	}
}
