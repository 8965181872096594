/* SPDX-License-Identifier: ISC */
#ifndef MATH_HASH_H
#define MATH_HASH_H

#include <stddef.h>
#include <stdint.h>

/* hash[i] = rng_mix() (core/rng.h) of row id i; ids are n u64, little-endian, at any address. No
 * allocation, no errors, any thread. */
void hash_ids(size_t n, const uint8_t *ids, uint64_t *restrict hash);

#endif
