/* SPDX-License-Identifier: ISC */
#include <sodium.h>

#include "auth/keys.h"
#include "auth/sealer.h"
#include "core/mem.h"
#include "core/rng.h"
#include "tap.h"

/* What libcrypto seals against what libsodium does: sizes around every border, in place and
 * out of it, many nonces under one key; and nothing opens that has been changed. */
static struct sealer *seals, *opens;
static uint8_t key[32], nonce[12];
static struct rng rng;

static void expect(bool aes, const uint8_t *in, size_t n, uint8_t *out, uint8_t tag[static 16])
{
	if (aes)
		crypto_aead_aes256gcm_encrypt_detached(out, tag, NULL, in, n, NULL, 0, NULL, nonce,
		    key);
	else
		crypto_aead_chacha20poly1305_ietf_encrypt_detached(out, tag, NULL, in, n, NULL, 0,
		    NULL, nonce, key);
}

static const char *cipher(bool aes)
{
	return aes ? "AES-256-GCM" : "ChaCha20-Poly1305";
}

static void another_key(void)
{
	sealer_free(seals);
	sealer_free(opens);
	seals = opens = NULL;
	randombytes_buf(key, sizeof key);
}

/* Each in memory that ends at a guard page. */
static bool there_and_back(bool aes, size_t n, bool in_place)
{
	uint8_t *plain = sodium_malloc(n), *want = sodium_malloc(n), *got = sodium_malloc(n),
	        tag[16], other[16];
	bool good;

	randombytes_buf(plain, n);
	randombytes_buf(nonce, sizeof nonce);
	expect(aes, plain, n, want, tag);
	memcpy(got, plain, n);
	good = sealer_seal(&seals, cipher(aes), key, nonce, in_place ? got : plain, n, got,
	           other) &&
	    memcmp(tag, other, 16) == 0 && memcmp(got, want, n) == 0 &&
	    sealer_open(&opens, cipher(aes), key, nonce, got, n, tag) && memcmp(got, plain, n) == 0;
	/* One bit of what is sealed, of the tag, and of the nonce. */
	want[rng_below(&rng, n)] ^= 4;
	good &= !sealer_open(&opens, cipher(aes), key, nonce, want, n, tag);
	expect(aes, plain, n, want, tag);
	tag[rng_below(&rng, 16)] ^= 1;
	good &= !sealer_open(&opens, cipher(aes), key, nonce, want, n, tag);
	expect(aes, plain, n, want, tag);
	nonce[rng_below(&rng, 12)] ^= 128;
	good &= !sealer_open(&opens, cipher(aes), key, nonce, want, n, tag);
	sodium_free(plain);
	sodium_free(want);
	sodium_free(got);
	return good;
}

static void suite(bool aes)
{
	unsigned wrong = 0;

	another_key();
	for (size_t n = 1; n < 2000; n++) {
		if (n % 100 == 0)
			another_key();
		wrong += !there_and_back(aes, n, n % 2);
	}
	ok(wrong == 0,
	    "%s: sizes 1 to 1999 are sealed as by libsodium, open, and not with a bit changed (%u are not)",
	    cipher(aes), wrong);
	wrong = 0;
	for (size_t n = 65536 - 7; n <= 1 << 20; n = n * 2 + 13)
		wrong += !there_and_back(aes, n, true) + !there_and_back(aes, n, false);
	ok(wrong == 0, "%s: and large ones", cipher(aes));
}

int main(void)
{
	if (key_init(NULL))
		return 1;
	rng_init(&rng, 11);
	suite(false);
	if (crypto_aead_aes256gcm_is_available())
		suite(true);
	else
		ok(true, "this processor has no AES-NI");
	another_key();
	return tap_done();
}
