/* SPDX-License-Identifier: ISC */
/* The public vectors of Noise_IKpsk2_25519_ChaChaPoly_SHA256, from the file
 * tests/vectors/cacophony.txt of https://github.com/mcginty/snow (made by the
 * cacophony library): both handshake messages, the handshake hash, and four
 * transport messages, which alternate, the initiator's first. */
#include <sodium.h>

#include "auth/noise.h"
#include "core/endian.h"
#include "tap.h"

#define PROLOGUE       "4a6f686e2047616c74"
#define PSK            "54686973206973206d7920417573747269616e20706572737065637469766521"
#define INIT_STATIC    "e61ef9919cde45dd5f82166404bd08e38bceb5dfdfded0a34c8df7ed542214d1"
#define INIT_EPHEMERAL "893e28b9dc6ca8d611ab664754b8ceb7bac5117349a4439a6b0569da977c464a"
#define RESP_PUBLIC    "31e0303fd6418d2f8c0e78b91f22e8caed0fbe48656dcf4767e4834f701b8f62"
#define RESP_STATIC    "4a3acbfdb163dec651dfa3194dece676d437029c62a408b4c5ea9114246e4893"
#define RESP_EPHEMERAL "bbdb4cdbd309f1a1f2e1456967fe288cadd6f712d65dc7b7793d5e63da6b375b"
#define HASH           "8310f86394dc0dabb40beb8210031556db4403ab1202db7034c526232147a700"

static const struct {
	const char *payload, *ciphertext;
} messages[] = {
	{ "4c756477696720766f6e204d69736573",
	    "ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c79442ec9b09893d0f510791784c1"
	    "0cbc959f25b1766e0def6e301d14fbca1c7790ac829b8b3674f5f649a5f0e98479662cbfbf2b2c47cd4b09fc"
	    "d266cd29d7cb675f1808849707847840f6d178ec4d3733aa" },
	{ "4d757272617920526f746862617264",
	    "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f1448088439a1b3cebf680b2c74217fcb5"
	    "eba4ff58a9468cd90c4aca6194f57479b379a7" },
	{ "462e20412e20486179656b", "a8fde7a0accec190cd306c5950d4fd8e04a205ec288aa747d8b347" },
	{ "4361726c204d656e676572", "59caddd9984a3bbe24c4fb31a2bd455b7eba3fa0980674b1a3a5f9" },
	{ "4a65616e2d426170746973746520536179",
	    "3b9bfebd210c22ba0cff9de79b4007d7a552fffbf92616881faa8a883e25b80258" },
	{ "457567656e2042f6686d20766f6e2042617765726b",
	    "f37512df1043d564d7c46ac85c53d3b6a9a05724bc297e7142808f217561651217fe85b782" },
};

/* Into guarded memory of exactly the right size. */
static uint8_t *unhex(const char *hex, size_t *n)
{
	uint8_t *p;

	*n = strlen(hex) / 2;
	p = sodium_malloc(*n);
	if (p == NULL || sodium_hex2bin(p, *n, hex, strlen(hex), NULL, NULL, NULL) != 0)
		abort();
	return p;
}

static void unhex32(const char *hex, uint8_t out[static 32])
{
	if (sodium_hex2bin(out, 32, hex, 64, NULL, NULL, NULL) != 0)
		abort();
}

static struct key_pair pair_of(const char *hex)
{
	uint8_t sk[32];
	struct key_pair k;

	unhex32(hex, sk);
	key_pair_from_secret(&k, sk);
	return k;
}

static void start(struct noise *i, struct noise *r)
{
	struct key_pair is = pair_of(INIT_STATIC), rs = pair_of(RESP_STATIC);
	uint8_t psk[32], e[32], rpk[32];
	size_t n;
	uint8_t *prologue = unhex(PROLOGUE, &n);

	unhex32(PSK, psk);
	unhex32(RESP_PUBLIC, rpk);
	noise_init(i, true, &is, rpk, psk, prologue, n);
	noise_init(r, false, &rs, NULL, psk, prologue, n);
	unhex32(INIT_EPHEMERAL, e);
	noise_set_ephemeral(i, e);
	unhex32(RESP_EPHEMERAL, e);
	noise_set_ephemeral(r, e);
	sodium_free(prologue);
}

static void handshake_message(int number, struct noise *from, struct noise *to)
{
	size_t n, cn, extra = number == 1 ? NOISE_MSG1_EXTRA : NOISE_MSG2_EXTRA;
	uint8_t *payload = unhex(messages[number - 1].payload, &n);
	uint8_t *want = unhex(messages[number - 1].ciphertext, &cn);
	uint8_t *msg = sodium_malloc(n + extra), *back = sodium_malloc(n);

	ok(cn == n + extra, "message %d has %zu bytes more than its payload", number, extra);
	if (number == 1)
		ok(noise_write1(from, payload, n, msg), "message 1 written");
	else
		ok(noise_write2(from, payload, n, msg), "message 2 written");
	ok(memcmp(msg, want, cn) == 0, "message %d equals the vector", number);
	if (number == 1)
		ok(noise_read1(to, want, back, n), "message 1 read");
	else
		ok(noise_read2(to, want, back, n), "message 2 read");
	ok(memcmp(back, payload, n) == 0, "payload %d comes back", number);
	sodium_free(payload);
	sodium_free(want);
	sodium_free(msg);
	sodium_free(back);
}

static void transport_messages(const uint8_t *key_i, const uint8_t *key_r)
{
	for (size_t k = 2; k < sizeof(messages) / sizeof(messages[0]); k++) {
		size_t n, cn;
		uint8_t *payload = unhex(messages[k].payload, &n);
		uint8_t *want = unhex(messages[k].ciphertext, &cn);
		uint8_t *out = sodium_malloc(n + 16), nonce[12] = { 0 };

		put_le64(nonce + 4, (k - 2) / 2);
		crypto_aead_chacha20poly1305_ietf_encrypt(out, NULL, payload, n, NULL, 0, NULL,
		    nonce, k % 2 == 0 ? key_i : key_r);
		ok(cn == n + 16 && memcmp(out, want, cn) == 0, "transport message %zu", k + 1);
		sodium_free(payload);
		sodium_free(want);
		sodium_free(out);
	}
}

static void vectors(void)
{
	struct noise i, r;
	uint8_t itx[32], irx[32], rtx[32], rrx[32], h[32], ih[32], rh[32], rpk[32];
	struct key_pair rs = pair_of(RESP_STATIC), is = pair_of(INIT_STATIC);

	unhex32(RESP_PUBLIC, rpk);
	unhex32(HASH, h);
	ok(memcmp(rs.pk, rpk, 32) == 0, "public key of the responder's secret");
	start(&i, &r);
	handshake_message(1, &i, &r);
	ok(memcmp(r.rs, is.pk, 32) == 0, "the responder learns the initiator's key");
	handshake_message(2, &r, &i);
	ok(i.dh_count == 4 && r.dh_count == 4, "four products on each side");
	noise_split(&i, itx, irx, ih);
	noise_split(&r, rtx, rrx, rh);
	ok(memcmp(ih, h, 32) == 0 && memcmp(rh, h, 32) == 0, "handshake hash");
	ok(memcmp(itx, rrx, 32) == 0 && memcmp(irx, rtx, 32) == 0, "split agrees crosswise");
	ok(memcmp(itx, irx, 32) != 0, "directions have different keys");
	i.dh_count = r.dh_count = 0;
	ok(sodium_is_zero((uint8_t *)&i, sizeof(i)) && sodium_is_zero((uint8_t *)&r, sizeof(r)),
	    "nothing secret is left after the split");
	transport_messages(itx, rtx);
}

static void misuse(void)
{
	struct noise i, r;
	uint8_t msg[NOISE_MSG1_EXTRA], e1[32], e2[32];

	start(&i, &r);
	ok(!noise_write2(&r, NULL, 0, msg), "writing before reading fails");
	ok(r.state == NOISE_DEAD && r.dh_count == 0, "and ends the handshake");
	start(&i, &r);
	ok(!noise_read1(&i, msg, NULL, 0), "an initiator does not read message 1");

	start(&i, &r);
	noise_write1(&i, NULL, 0, msg);
	noise_mix_hash(&r, "x", 1);
	ok(!noise_read1(&r, msg, NULL, 0), "another transcript fails");
	ok(sodium_is_zero(r.s.sk, 32) && sodium_is_zero(r.psk, 32), "and wipes the secrets");

	start(&i, &r);
	i.has_e = false;
	noise_write1(&i, NULL, 0, msg);
	memcpy(e1, msg, 32);
	start(&i, &r);
	i.has_e = false;
	noise_write1(&i, NULL, 0, msg);
	memcpy(e2, msg, 32);
	ok(memcmp(e1, e2, 32) != 0, "ephemerals are drawn afresh");
	ok(noise_read1(&r, msg, NULL, 0), "with an empty payload too");
}

int main(void)
{
	if (key_init(NULL) != ERR_OK)
		return 1;
	vectors();
	misuse();
	return tap_done();
}
