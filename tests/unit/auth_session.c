/* SPDX-License-Identifier: ISC */
#include <sodium.h>

#include "auth/keys.h"
#include "auth/session.h"
#include "core/endian.h"
#include "core/rng.h"
#include "tap.h"

static const enum suite suites[] = { SUITE_CHACHA20POLY1305, SUITE_AES256GCM, SUITE_POLY1305 };
static uint8_t k1[32], k2[32];

/* One record: guarded memory of exact size. */
struct record {
	uint8_t *hdr, *htag, *data, *ptag;
	size_t n;
};

static struct record record_new(size_t n)
{
	struct record r = { sodium_malloc(64), sodium_malloc(16), sodium_malloc(n),
		sodium_malloc(16), n };

	randombytes_buf(r.hdr, 64);
	randombytes_buf(r.data, n);
	return r;
}

static void record_free(struct record *r)
{
	sodium_free(r->hdr);
	sodium_free(r->htag);
	sodium_free(r->data);
	sodium_free(r->ptag);
}

static void pair(struct session *a, struct session *b, enum suite suite)
{
	if (session_init(a, suite, k1, k2, NULL) != ERR_OK ||
	    session_init(b, suite, k2, k1, NULL) != ERR_OK)
		abort();
}

static void part(struct session *a, struct session *b)
{
	session_wipe(a);
	session_wipe(b);
}

/* As it was. */
static void again(struct session *s, const struct session *fresh)
{
	session_wipe(s);
	*s = *fresh;
}

static bool seal(struct session *s, struct record *r)
{
	bool good = session_seal_header(s, r->hdr, r->htag) &&
	    session_seal_payload(s, r->data, r->n, r->data, r->ptag);

	session_next_tx(s);
	return good;
}

static bool unseal(struct session *s, struct record *r)
{
	bool good = session_open_header(s, r->hdr, r->htag) &&
	    session_open_payload(s, r->data, r->n, r->ptag);

	session_next_rx(s);
	return good;
}

static void sizes(enum suite suite)
{
	static const size_t n[] = { 0, 1, 15, 16, 17, 63, 64, 65, 262143, 262144 };
	struct session a, b;

	pair(&a, &b, suite);
	for (size_t i = 0; i < sizeof(n) / sizeof(n[0]); i++) {
		struct record r = record_new(n[i]);
		uint8_t *plain = sodium_malloc(n[i]), *out = sodium_malloc(n[i]);
		bool changed;

		memcpy(plain, r.data, n[i]);
		ok(seal(&a, &r), "%s: %zu bytes sealed", suite_name(suite), n[i]);
		changed = memcmp(plain, r.data, n[i]) != 0;
		ok(n[i] < 15 || changed == a.sealed, "the payload is %s",
		    a.sealed ? "hidden" : "left clear");
		ok(unseal(&b, &r) && memcmp(plain, r.data, n[i]) == 0, "and opened");

		/* Out of place; a clear suite writes nothing. */
		memset(out, 0, n[i]);
		ok(session_seal_payload(&a, plain, n[i], a.sealed ? out : NULL, r.ptag) &&
		        memcmp(plain, r.data, n[i]) == 0,
		    "out of place the source stays");
		ok(session_open_payload(&b, a.sealed ? out : plain, n[i], r.ptag) &&
		        (!a.sealed || memcmp(out, r.data, n[i]) == 0),
		    "and opens too");
		sodium_free(plain);
		sodium_free(out);
		record_free(&r);
	}
	ok(session_open_payload(&b, NULL, 0, k1) == false, "a wrong tag over nothing fails");
	part(&a, &b);
}

static void flips(enum suite suite)
{
	struct session a, b, fresh;
	struct rng rng;
	struct record r = record_new(1000);
	uint8_t *copy = sodium_malloc(1000);
	uint8_t *piece[4] = { r.hdr, r.htag, r.data, r.ptag };
	size_t len[4] = { 64, 16, 1000, 16 };
	int passed = 0, revived = 0;

	rng_init(&rng, 7);
	pair(&a, &b, suite);
	fresh = b;
	if (!seal(&a, &r))
		abort();
	memcpy(copy, r.data, 1000);
	for (int i = 0; i < 10000; i++) {
		size_t p = rng_below(&rng, 4), bit = rng_below(&rng, 8 * len[p]);

		again(&b, &fresh);
		piece[p][bit / 8] ^= (uint8_t)(1u << bit % 8);
		passed += unseal(&b, &r);
		memcpy(r.data, copy, 1000);
		if (p != 2)
			piece[p][bit / 8] ^= (uint8_t)(1u << bit % 8);
		b.rx.counter = 0; /* where it would have opened */
		revived += unseal(&b, &r);
	}
	ok(passed == 0, "%s: none of 10000 flipped bits passes", suite_name(suite));
	ok(revived == 0, "after a wrong tag nothing opens any more");
	again(&b, &fresh);
	ok(unseal(&b, &r), "the record as it was sealed opens");
	sodium_free(copy);
	record_free(&r);
	part(&a, &b);
}

static void order(enum suite suite)
{
	struct session a, b, fresh;
	struct record one = record_new(100), two = record_new(100), copy = record_new(100);

	pair(&a, &b, suite);
	fresh = b;
	if (!seal(&a, &one) || !seal(&a, &two))
		abort();
	memcpy(copy.hdr, one.hdr, 64);
	memcpy(copy.htag, one.htag, 16);
	memcpy(copy.data, one.data, 100);
	memcpy(copy.ptag, one.ptag, 16);
	ok(unseal(&b, &one) && !unseal(&b, &copy), "%s: a replayed record fails",
	    suite_name(suite));
	again(&b, &fresh);
	ok(!unseal(&b, &two), "a record after a dropped (or swapped) one fails");
	again(&b, &fresh);
	ok(session_open_header(&b, copy.hdr, copy.htag) &&
	        !session_open_header(&b, two.hdr, two.htag),
	    "a header in a payload's place fails");
	again(&b, &fresh);
	ok(session_open_header(&b, copy.hdr, copy.htag) &&
	        !session_open_payload(&b, copy.data, 99, copy.ptag),
	    "a shorter payload fails");
	part(&a, &b);
	pair(&a, &b, suite);
	if (!seal(&a, &one))
		abort();
	ok(!unseal(&a, &one), "a reflected record fails");
	part(&a, &b);
	pair(&a, &b, suite);
	session_wipe(&a);
	ok(!session_seal_header(&a, one.hdr, one.htag) && !unseal(&a, &one),
	    "a wiped session seals and opens nothing");
	record_free(&one);
	record_free(&two);
	record_free(&copy);
	part(&a, &b);
}

static void expect_keys(const struct session_dir *d, const uint8_t chain0[static 32], int epoch)
{
	uint8_t chain[32], key[32], next[32];

	memcpy(chain, chain0, 32);
	for (int i = 0; i < epoch; i++) {
		crypto_kdf_derive_from_key(next, 32, 2, "psrecord", chain);
		memcpy(chain, next, 32);
	}
	crypto_kdf_derive_from_key(key, 32, 1, "psrecord", chain);
	ok(memcmp(key, d->key, 32) == 0, "key of epoch %d as documented", epoch);
}

static void rekey(enum suite suite)
{
	struct session a, b;
	struct record r = record_new(64);
	int failed = 0;

	pair(&a, &b, suite);
	expect_keys(&a.tx, k1, 0);
	expect_keys(&a.rx, k2, 0);
	for (uint32_t i = 0; i < SESSION_EPOCH_RECORDS - 1; i++)
		session_next_tx(&a);
	expect_keys(&a.tx, k1, 0);
	session_next_tx(&a);
	expect_keys(&a.tx, k1, 1);
	expect_keys(&a.rx, k2, 0);

	part(&a, &b);
	pair(&a, &b, suite);
	for (int epoch = 1; epoch <= 3; epoch++) {
		a.tx.records = b.rx.records = SESSION_EPOCH_RECORDS - 2;
		for (int i = 0; i < 4; i++)
			failed += !seal(&a, &r) || !unseal(&b, &r);
		expect_keys(&a.tx, k1, epoch);
		expect_keys(&b.rx, k1, epoch);
	}
	ok(failed == 0, "%s: records pass across three changes of key", suite_name(suite));
	ok(a.tx.counter == 24 && b.rx.counter == 24, "the counter runs on");
	a.tx.records = SESSION_EPOCH_RECORDS - 1;
	session_next_tx(&a);
	ok(seal(&a, &r) && !unseal(&b, &r), "with the change on one side alone they fail");
	record_free(&r);
	part(&a, &b);
}

/* The last nonces, and what a nonce looks like, against libsodium itself. */
static void edge(enum suite suite)
{
	struct session a, b;
	struct record r = record_new(32);
	uint8_t nonce[12] = { 0 }, tag[16];

	pair(&a, &b, suite);
	a.tx.counter = b.rx.counter = SESSION_COUNTER_END - 4;
	ok(!session_exhausted(&a) && seal(&a, &r) && unseal(&b, &r), "%s: near the end",
	    suite_name(suite));
	put_le64(nonce + 4, SESSION_COUNTER_END - 2);
	if (suite == SUITE_AES256GCM)
		crypto_aead_aes256gcm_encrypt_detached(tag, tag, NULL, tag, 0, r.hdr, 64, NULL,
		    nonce, a.tx.key);
	else
		crypto_aead_chacha20poly1305_ietf_encrypt_detached(tag, tag, NULL, tag, 0, r.hdr,
		    64, NULL, nonce, a.tx.key);
	ok(!session_exhausted(&a) && seal(&a, &r), "the last record");
	ok(memcmp(tag, r.htag, 16) == 0, "nonce is 4 zero bytes and the counter");
	ok(unseal(&b, &r), "opens");
	ok(session_exhausted(&a) && session_exhausted(&b) && a.rx.counter < 4,
	    "then the session is exhausted, at both ends, for one direction");
	ok(!session_seal_header(&a, r.hdr, r.htag) &&
	        !session_seal_payload(&a, r.data, r.n, r.data, r.ptag),
	    "and seals nothing more");
	ok(!session_open_header(&b, r.hdr, r.htag), "nor opens");
	part(&a, &b);
	pair(&a, &b, suite);
	a.rx.counter = b.tx.counter = SESSION_COUNTER_END - 1;
	ok(session_exhausted(&a) && session_exhausted(&b), "one nonce is not room for a record");
	record_free(&r);
	part(&a, &b);
}

static void names(void)
{
	enum suite s;

	ok(suite_parse("aes256gcm", &s) && s == SUITE_AES256GCM && !suite_parse("AES", &s) &&
	        !suite_parse("", &s),
	    "suite_parse");
	ok(strcmp(suite_name(SUITE_POLY1305), "poly1305") == 0 &&
	        strcmp(suite_name((enum suite)9), "?") == 0,
	    "suite_name");
	ok(suite_is_sealed(SUITE_CHACHA20POLY1305) && !suite_is_sealed(SUITE_POLY1305) &&
	        !suite_is_sealed((enum suite)0),
	    "suite_is_sealed");
	ok(!suite_available((enum suite)0) && !suite_available((enum suite)4), "unknown suites");
	ok((suite_mask() & 0xf1) == 0 && (suite_mask() & 0x0a) == 0x0a, "mask %#x", suite_mask());
	ok(session_init(&(struct session){ 0 }, (enum suite)4, k1, k2, NULL) == ERR_UNSUPPORTED,
	    "a session of an unknown suite");
}

int main(void)
{
	if (key_init(NULL) != ERR_OK)
		return 1;
	randombytes_buf(k1, 32);
	randombytes_buf(k2, 32);
	names();
	for (size_t i = 0; i < sizeof(suites) / sizeof(suites[0]); i++) {
		if (!suite_available(suites[i])) {
			printf("# %s is not available here\n", suite_name(suites[i]));
			continue;
		}
		sizes(suites[i]);
		flips(suites[i]);
		order(suites[i]);
		rekey(suites[i]);
		edge(suites[i]);
	}
	return tap_done();
}
