/* SPDX-License-Identifier: ISC */
#include "core/keyed_hash.h"

#include <pthread.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/rng.h"

struct keyed_hash_secret keyed_hash_secret;
static pthread_once_t secret_once = PTHREAD_ONCE_INIT;

/* The factors are odd, so that multiplying by them loses no bits. */
static void draw_secret(void)
{
	struct keyed_hash_secret *s = &keyed_hash_secret;

	if (getrandom(s, sizeof *s, 0) != sizeof *s) {
		uint64_t some = rng_mix((uint64_t)clock_now()) ^ (uint64_t)getpid() << 40;

		*s = (struct keyed_hash_secret){ rng_mix(some), rng_mix(some + 1),
			rng_mix(some + 2), rng_mix(some + 3) };
	}
	s->factor |= 1;
	s->last |= 1;
}

void keyed_hash_begin(void)
{
	pthread_once(&secret_once, draw_secret);
}

/* The length comes first, so that zeroes at the end count. */
uint64_t keyed_hash_bytes(const void *p, size_t n)
{
	const uint8_t *at = p;
	uint64_t h = keyed_hash(n), word;

	for (; n >= 8; at += 8, n -= 8) {
		memcpy(&word, at, 8);
		h = keyed_hash_fold(h ^ word, keyed_hash_secret.factor) ^ keyed_hash_secret.between;
	}
	word = 0;
	memcpy(&word, at, n);
	return keyed_hash(h ^ word);
}
