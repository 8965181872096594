#ifndef KERN_HASH_H
#define KERN_HASH_H

#include <stddef.h>
#include <stdint.h>

/* rng_mix() (base/rng.h) of n row ids, u64 little-endian at any address.  No allocation, no
 * errors, any thread. */
void hash_ids(size_t n, const uint8_t *ids, uint64_t *restrict hash);

#endif
