/* SPDX-License-Identifier: ISC */
#include "auth/noise.h"

#include <assert.h>
#include <sodium.h>
#include <string.h>

#include "core/endian.h"

#define TAG 16

static const char protocol_name[] = "Noise_IKpsk2_25519_ChaChaPoly_SHA256";

void noise_wipe(struct noise *x)
{
	unsigned count = x->dh_count;

	sodium_memzero(x, sizeof(*x));
	x->dh_count = count;
}

static bool fail_and_wipe(struct noise *x)
{
	noise_wipe(x);
	return false;
}

/* RFC 5869 with the info string left out, as section 4.3 of the specification
 * defines it: 2 or 3 outputs (o3 may be NULL); outputs may alias ck. */
static void hkdf_sha256(const uint8_t ck[static 32], const void *ikm, size_t n, uint8_t *o1,
    uint8_t *o2, uint8_t *o3)
{
	uint8_t temp[32], out[3][32];
	crypto_auth_hmacsha256_state st;

	crypto_auth_hmacsha256_init(&st, ck, 32);
	crypto_auth_hmacsha256_update(&st, ikm, n);
	crypto_auth_hmacsha256_final(&st, temp);
	for (uint8_t i = 0; i < 3; i++) {
		crypto_auth_hmacsha256_init(&st, temp, 32);
		if (i > 0)
			crypto_auth_hmacsha256_update(&st, out[i - 1], 32);
		crypto_auth_hmacsha256_update(&st, &(uint8_t){ (uint8_t)(i + 1) }, 1);
		crypto_auth_hmacsha256_final(&st, out[i]);
	}
	memcpy(o1, out[0], 32);
	memcpy(o2, out[1], 32);
	if (o3 != NULL)
		memcpy(o3, out[2], 32);
	sodium_memzero(temp, sizeof(temp));
	sodium_memzero(out, sizeof(out));
	sodium_memzero(&st, sizeof(st));
}

void noise_mix_hash(struct noise *x, const void *p, size_t n)
{
	crypto_hash_sha256_state st;

	crypto_hash_sha256_init(&st);
	crypto_hash_sha256_update(&st, x->h, 32);
	if (n > 0)
		crypto_hash_sha256_update(&st, p, n);
	crypto_hash_sha256_final(&st, x->h);
}

static void mix_key(struct noise *x, const void *ikm, size_t n)
{
	hkdf_sha256(x->ck, ikm, n, x->ck, x->k, NULL);
	x->n = 0;
}

static void mix_key_and_hash(struct noise *x, const uint8_t psk[static 32])
{
	uint8_t temp[32];

	hkdf_sha256(x->ck, psk, 32, x->ck, temp, x->k);
	noise_mix_hash(x, temp, sizeof(temp));
	x->n = 0;
	sodium_memzero(temp, sizeof(temp));
}

/* False for a point of low order, whose product says nothing about the peer. */
static bool mix_dh(struct noise *x, const uint8_t sk[static 32], const uint8_t pk[static 32])
{
	uint8_t dh[32];
	bool good;

	x->dh_count++;
	good = crypto_scalarmult(dh, sk, pk) == 0;
	if (good)
		mix_key(x, dh, sizeof(dh));
	sodium_memzero(dh, sizeof(dh));
	return good;
}

static void next_nonce(struct noise *x, uint8_t nonce[static 12])
{
	put_le32(nonce, 0);
	put_le64(nonce + 4, x->n++);
}

static bool encrypt_and_hash(struct noise *x, const uint8_t *in, size_t n, uint8_t *out)
{
	uint8_t nonce[12];

	next_nonce(x, nonce);
	if (crypto_aead_chacha20poly1305_ietf_encrypt(out, NULL, in, n, x->h, 32, NULL, nonce,
	        x->k) != 0)
		return false;
	noise_mix_hash(x, out, n + TAG);
	return true;
}

/* n: bytes of the plain text. */
static bool decrypt_and_hash(struct noise *x, const uint8_t *in, size_t n, uint8_t *out)
{
	uint8_t nonce[12];

	next_nonce(x, nonce);
	if (crypto_aead_chacha20poly1305_ietf_decrypt(out, NULL, NULL, in, n + TAG, x->h, 32, nonce,
	        x->k) != 0)
		return false;
	noise_mix_hash(x, in, n + TAG);
	return true;
}

/* In a psk pattern an ephemeral key is mixed into the key as well as into the hash. */
static void mix_ephemeral(struct noise *x, const uint8_t pk[static 32])
{
	noise_mix_hash(x, pk, 32);
	mix_key(x, pk, 32);
}

static void send_ephemeral(struct noise *x, uint8_t *msg)
{
	if (!x->has_e)
		key_pair_generate(&x->e);
	memcpy(msg, x->e.pk, 32);
	mix_ephemeral(x, x->e.pk);
}

void noise_init(struct noise *x, bool initiator, const struct key_pair *s, const uint8_t *rs,
    const uint8_t psk[static 32], const void *prologue, size_t prologue_len)
{
	assert(initiator == (rs != NULL));
	memset(x, 0, sizeof(*x));
	x->initiator = initiator;
	x->s = *s;
	memcpy(x->psk, psk, 32);
	/* The name is longer than a hash, so h starts as its hash. */
	crypto_hash_sha256(x->h, (const uint8_t *)protocol_name, sizeof(protocol_name) - 1);
	memcpy(x->ck, x->h, 32);
	noise_mix_hash(x, prologue, prologue_len);
	if (initiator)
		memcpy(x->rs, rs, 32);
	noise_mix_hash(x, initiator ? rs : s->pk, 32);
	x->state = NOISE_WANT1;
}

void noise_set_ephemeral(struct noise *x, const uint8_t sk[static 32])
{
	key_pair_from_secret(&x->e, sk);
	x->has_e = true;
}

bool noise_write1(struct noise *x, const uint8_t *payload, size_t n, uint8_t *msg)
{
	if (!x->initiator || x->state != NOISE_WANT1)
		return fail_and_wipe(x);
	send_ephemeral(x, msg);
	if (!mix_dh(x, x->e.sk, x->rs) || !encrypt_and_hash(x, x->s.pk, 32, msg + 32) ||
	    !mix_dh(x, x->s.sk, x->rs) || !encrypt_and_hash(x, payload, n, msg + 80))
		return fail_and_wipe(x);
	x->state = NOISE_WANT2;
	return true;
}

bool noise_read1(struct noise *x, const uint8_t *msg, uint8_t *payload, size_t n)
{
	if (x->initiator || x->state != NOISE_WANT1)
		return fail_and_wipe(x);
	memcpy(x->re, msg, 32);
	mix_ephemeral(x, x->re);
	if (!mix_dh(x, x->s.sk, x->re) || !decrypt_and_hash(x, msg + 32, 32, x->rs) ||
	    !mix_dh(x, x->s.sk, x->rs) || !decrypt_and_hash(x, msg + 80, n, payload))
		return fail_and_wipe(x);
	x->state = NOISE_WANT2;
	return true;
}

bool noise_write2(struct noise *x, const uint8_t *payload, size_t n, uint8_t *msg)
{
	if (x->initiator || x->state != NOISE_WANT2)
		return fail_and_wipe(x);
	send_ephemeral(x, msg);
	if (!mix_dh(x, x->e.sk, x->re) || !mix_dh(x, x->e.sk, x->rs))
		return fail_and_wipe(x);
	mix_key_and_hash(x, x->psk);
	if (!encrypt_and_hash(x, payload, n, msg + 32))
		return fail_and_wipe(x);
	x->state = NOISE_SPLIT;
	return true;
}

bool noise_read2(struct noise *x, const uint8_t *msg, uint8_t *payload, size_t n)
{
	if (!x->initiator || x->state != NOISE_WANT2)
		return fail_and_wipe(x);
	memcpy(x->re, msg, 32);
	mix_ephemeral(x, x->re);
	if (!mix_dh(x, x->e.sk, x->re) || !mix_dh(x, x->s.sk, x->re))
		return fail_and_wipe(x);
	mix_key_and_hash(x, x->psk);
	if (!decrypt_and_hash(x, msg + 32, n, payload))
		return fail_and_wipe(x);
	x->state = NOISE_SPLIT;
	return true;
}

void noise_split(struct noise *x, uint8_t tx[static 32], uint8_t rx[static 32], uint8_t *hash)
{
	uint8_t k1[32], k2[32];

	assert(x->state == NOISE_SPLIT);
	hkdf_sha256(x->ck, "", 0, k1, k2, NULL);
	memcpy(tx, x->initiator ? k1 : k2, 32);
	memcpy(rx, x->initiator ? k2 : k1, 32);
	if (hash != NULL)
		memcpy(hash, x->h, 32);
	sodium_memzero(k1, sizeof(k1));
	sodium_memzero(k2, sizeof(k2));
	noise_wipe(x);
}
