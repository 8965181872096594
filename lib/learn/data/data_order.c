/* SPDX-License-Identifier: ISC */
#include "data/data_order.h"

#include "core/rng.h"

void data_order(uint64_t seed, uint64_t epoch, uint32_t n, uint32_t *out)
{
	struct rng r;

	/* Mixed twice, so that (seed, epoch + 1) is not (seed + 1, epoch). */
	rng_init(&r, rng_mix(rng_mix(seed) ^ epoch));
	rng_permutation(&r, out, n);
}
