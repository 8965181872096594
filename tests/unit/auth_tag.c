/* SPDX-License-Identifier: ISC */
#include <sodium.h>

#include "auth/tag.h"
#include "core/mem.h"
#include "core/rng.h"
#include "tap.h"

/* The tag against libsodium's: sizes around every border, and numbers that carry as far
 * as numbers can. */
static struct tag_maker *maker;

static void expect(uint8_t tag[static 16], const uint8_t *p, size_t n,
    const uint8_t nonce[static 12], const uint8_t key[static 32])
{
	uint8_t none = 0;

	crypto_aead_chacha20poly1305_ietf_encrypt_detached(&none, tag, NULL, &none, 0, p, n, NULL,
	    nonce, key);
}

static bool equal(const uint8_t *p, size_t n, const uint8_t *nonce, const uint8_t *key)
{
	uint8_t got[16], want[16];

	expect(want, p, n, nonce, key);
	return tag_make(&maker, key, nonce, p, n, got) && memcmp(got, want, 16) == 0;
}

int main(void)
{
	uint8_t key[32], nonce[12];
	struct rng rng;
	int wrong = 0;

	if (sodium_init() < 0)
		return 1;
	rng_init(&rng, 7);
	for (size_t n = 0; n < 3000; n++) {
		/* Its end lies against a guard page. */
		uint8_t *p = sodium_malloc(n);

		randombytes_buf(p, n);
		randombytes_buf(key, sizeof key);
		randombytes_buf(nonce, sizeof nonce);
		wrong += !equal(p, n, nonce, key);
		sodium_free(p);
	}
	ok(wrong == 0, "each size from 0 to 2999 has libsodium's tag (%d have not)", wrong);

	wrong = 0;
	for (int round = 0; round < 4000; round++) {
		size_t n = 1024 + (size_t)(rng_next(&rng) % 4096);
		uint8_t *p = mem_try_array(1, n);

		if (!p)
			return 1;
		randombytes_buf(key, sizeof key);
		randombytes_buf(nonce, sizeof nonce);
		/* Runs of ones and of zeroes: the longest carries. */
		for (size_t i = 0; i < n;) {
			size_t run = 1 + (size_t)(rng_next(&rng) % 70);
			uint8_t fill = rng_next(&rng) & 1 ? 0xff : 0;

			for (; run && i < n; run--)
				p[i++] = fill;
		}
		wrong += !equal(p, n, nonce, key);
		free(p);
	}
	ok(wrong == 0, "4000 texts of runs of ones and zeroes have libsodium's tag (%d have not)",
	    wrong);

	wrong = 0;
	for (size_t n = 65536; n <= 1 << 20; n += 65536 + 13) {
		uint8_t *p = mem_try_array(1, n), tag[16], other[16];

		if (!p)
			return 1;
		memset(p, 0xff, n);
		randombytes_buf(key, sizeof key);
		randombytes_buf(nonce, sizeof nonce);
		wrong += !equal(p, n, nonce, key);
		wrong += !tag_make(&maker, key, nonce, p, n, tag);
		p[rng_next(&rng) % n] ^= 1;
		wrong += !tag_make(&maker, key, nonce, p, n, other);
		wrong += memcmp(tag, other, 16) == 0;
		free(p);
	}
	ok(wrong == 0, "large texts of ones, too; and one bit more or less is another tag");
	tag_maker_free(maker);
	return tap_done();
}
