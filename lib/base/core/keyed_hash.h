/* SPDX-License-Identifier: ISC */
#ifndef CORE_KEYED_HASH_H
#define CORE_KEYED_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Hashes for tables in memory whose keys come from others: ids of rows and features, names, places.
 * The hash must be secret, because whoever knows where a key lies could send many keys of one slot,
 * and a table of them takes quadratic time. The secret is drawn once for each process, so no order
 * that others see may depend on it.
 *
 * The first product, with its secret factor, is near-universal: two given keys meet with a
 * probability of about one in the number of slots. The second, with a secret between the two,
 * breaks up patterns such as arithmetic progressions, on which linear probing could still be slow.
 * SipHash would be stronger but takes ten times as long; this costs as much as rng_mix. */
struct keyed_hash_secret {
	uint64_t before, factor, between, last;
};
extern struct keyed_hash_secret keyed_hash_secret;

/* Draws the secret, once. Each table calls it when it is made. Any thread. */
void keyed_hash_begin(void);

/* Folds the 128-bit product to 64 bits. */
static inline uint64_t keyed_hash_fold(uint64_t a, uint64_t b)
{
	unsigned __int128 product = (unsigned __int128)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* The hash of a number, after keyed_hash_begin. All 64 bits are well mixed. */
static inline uint64_t keyed_hash(uint64_t x)
{
	return keyed_hash_fold(keyed_hash_fold(x ^ keyed_hash_secret.before,
	                           keyed_hash_secret.factor) ^
	        keyed_hash_secret.between,
	    keyed_hash_secret.last);
}

/* The hash of n bytes, after keyed_hash_begin. */
uint64_t keyed_hash_bytes(const void *p, size_t n);

#endif
