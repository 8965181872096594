/* SPDX-License-Identifier: ISC */
#include "math/hash.h"

#include <string.h>

#include "core/rng.h"
#include "math/clones.h"

KERN_CLONES void hash_ids(size_t n, const uint8_t *ids, uint64_t *restrict hash)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t id;

		memcpy(&id, ids + i * sizeof id, sizeof id);
		hash[i] = rng_mix(id);
	}
}
