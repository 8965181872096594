/* SPDX-License-Identifier: ISC */
#include <sodium.h>

#include "auth/handshake.h"
#include "core/endian.h"
#include "tap.h"

/* Takes the place of libsodium's function in this program: counts every X25519
 * product, whoever asks for it. */
static unsigned products;
int crypto_scalarmult(unsigned char *q, const unsigned char *n, const unsigned char *p)
{
	products++;
	return crypto_scalarmult_curve25519(q, n, p);
}

static const enum suite suites[] = { SUITE_CHACHA20POLY1305, SUITE_AES256GCM, SUITE_POLY1305 };
static const struct hs_client_info client_info = {
	.cluster = "0123456789abcde",
	.incarnation = UINT64_C(0xfedcba9876543210),
	.rank = 0x89abcdef,
	.role = 1,
};
static const struct hs_server_info server_info = {
	.incarnation = UINT64_C(0x8899aabbccddeeff),
	.epoch = 7,
	.generation = 3,
	.max_record = 1u << 20,
	.lifetime_seconds = 3600,
	.credit = UINT64_C(1) << 40,
	.shares = true,
};

/* The small-order points of Curve25519 and their non-canonical forms
 * (https://cr.yp.to/ecdh.html, "validate"). */
static const char *const low_order[] = {
	"0000000000000000000000000000000000000000000000000000000000000000",
	"0100000000000000000000000000000000000000000000000000000000000000",
	"e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
	"5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
	"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
};
#define NLOW (sizeof(low_order) / sizeof(low_order[0]))

struct world {
	struct key_pair ck, sk;
	uint8_t psk[32];
	struct hs_identity id;
	struct hs_server hs;
	struct hs_client hc;
	struct session cs, ss;
	struct hs_peer peer;
	struct hs_server_info got;
	uint8_t *hello, *msg1, *msg2; /* guarded, of exact size */
	struct err e;
};

static struct world *world_new(void)
{
	struct world *w = calloc(1, sizeof(*w));

	if (w == NULL)
		abort();
	key_pair_generate(&w->ck);
	key_pair_generate(&w->sk);
	randombytes_buf(w->psk, 32);
	handshake_identity_init(&w->id, &w->sk, w->psk);
	w->hello = sodium_malloc(HS_HELLO_BYTES);
	w->msg1 = sodium_malloc(HS_MSG1_BYTES);
	w->msg2 = sodium_malloc(HS_MSG2_BYTES);
	return w;
}

static void world_free(struct world *w)
{
	sodium_free(w->hello);
	sodium_free(w->msg1);
	sodium_free(w->msg2);
	free(w);
}

static void flip(uint8_t *p, int bit)
{
	p[bit / 8] ^= (uint8_t)(1u << bit % 8);
}

/* Where a bit is turned. */
enum place { NOWHERE, HELLO_CLIENT, HELLO_SERVER, MSG1, MSG2 };

static enum err_code hello_and_write1(struct world *w, enum suite suite)
{
	uint8_t offered;
	uint64_t epoch;
	enum err_code rc = handshake_client_read_hello(&w->hc, w->hello, &offered, &epoch, &w->e);

	if (rc != ERR_OK)
		return rc;
	return handshake_client_write1(&w->hc, &w->ck, w->sk.pk, w->psk, suite, &client_info,
	    w->msg1, &w->e);
}

static enum err_code run(struct world *w, enum suite suite, enum place place, int bit,
    unsigned *server_products)
{
	enum err_code rc;

	handshake_server_hello(&w->hs, 0x0e, 42, w->hello);
	if (place == HELLO_CLIENT)
		flip(w->hello, bit);
	if (place == HELLO_SERVER)
		flip(w->hs.hello, bit);
	*server_products = 0;
	rc = hello_and_write1(w, suite);
	if (rc != ERR_OK)
		return rc;
	if (place == MSG1)
		flip(w->msg1, bit);
	products = 0;
	rc = handshake_server_read1(&w->hs, &w->id, 1, w->msg1, &w->peer, &w->e);
	*server_products = products;
	if (rc != ERR_OK)
		return rc;
	rc = handshake_server_write2(&w->hs, HS_OK, &server_info, w->msg2, &w->ss, &w->e);
	if (rc != ERR_OK)
		return rc;
	if (place == MSG2)
		flip(w->msg2, bit);
	return handshake_client_read2(&w->hc, w->msg2, &w->got, &w->cs, &w->e);
}

static bool exchange(struct session *a, struct session *b)
{
	uint8_t hdr[64] = "header", tag[16];

	return session_seal_header(a, hdr, tag) && session_open_header(b, hdr, tag);
}

static void good(struct world *w, enum suite suite)
{
	unsigned n;

	ok(run(w, suite, NOWHERE, 0, &n) == ERR_OK, "%s: handshake", suite_name(suite));
	ok(n == 2, "the server spends two products on message 1");
	ok(memcmp(w->peer.pk, w->ck.pk, 32) == 0, "the server learns the client's key");
	ok(w->peer.suite == suite && w->cs.suite == suite && w->ss.suite == suite, "and the suite");
	ok(memcmp(w->peer.info.cluster, client_info.cluster, 16) == 0 &&
	        w->peer.info.incarnation == client_info.incarnation &&
	        w->peer.info.rank == client_info.rank && w->peer.info.role == client_info.role,
	    "client info arrives");
	ok(w->got.incarnation == server_info.incarnation && w->got.epoch == 7 &&
	        w->got.generation == 3 && w->got.max_record == server_info.max_record &&
	        w->got.lifetime_seconds == 3600 && w->got.credit == server_info.credit &&
	        w->got.shares,
	    "server info arrives");
	ok(exchange(&w->cs, &w->ss) && exchange(&w->ss, &w->cs), "records pass both ways");
	ok(sodium_is_zero(w->hs.noise.s.sk, 32) && sodium_is_zero(w->hc.noise.s.sk, 32),
	    "no secret is left in the handshake objects");
}

static void every_bit(struct world *w, enum suite suite)
{
	static const struct {
		enum place place;
		int bytes;
		const char *what;
	} part[] = {
		{ HELLO_CLIENT, HS_HELLO_BYTES, "hello, as the client sees it" },
		{ HELLO_SERVER, HS_HELLO_BYTES, "hello, as the server sees it" },
		{ MSG1, HS_MSG1_BYTES, "message 1" },
		{ MSG2, HS_MSG2_BYTES, "message 2" },
	};

	for (size_t p = 0; p < sizeof(part) / sizeof(part[0]); p++) {
		int passed = 0, costly = 0, codes = 0;

		for (int bit = 0; bit < part[p].bytes * 8; bit++) {
			unsigned n;
			enum err_code rc = run(w, suite, part[p].place, bit, &n);

			passed += rc == ERR_OK;
			costly += part[p].place != MSG2 && n != 0;
			codes += rc != ERR_AUTH && rc != ERR_PROTO && rc != ERR_CONFIG;
		}
		ok(passed == 0, "%s: none of %d flipped bits of %s passes", suite_name(suite),
		    part[p].bytes * 8, part[p].what);
		ok(costly == 0, "none of them before message 2 costs the server an X25519 product");
		ok(codes == 0, "all fail with a fitting code");
	}
}

static void strangers(struct world *w)
{
	unsigned n;
	uint8_t psk[32];
	struct key_pair other;
	struct hs_identity two[2];

	key_pair_generate(&other);
	randombytes_buf(psk, sizeof(psk));

	handshake_identity_init(&w->id, &w->sk, psk);
	ok(run(w, SUITE_POLY1305, NOWHERE, 0, &n) == ERR_AUTH && n == 0,
	    "another psk: refused, no product");
	ok(w->hs.noise.dh_count == 0, "the object's own count agrees");
	handshake_identity_init(&w->id, &other, w->psk);
	ok(run(w, SUITE_POLY1305, NOWHERE, 0, &n) == ERR_AUTH && n == 0,
	    "another server key: refused, no product");
	handshake_identity_init(&w->id, &w->sk, w->psk);

	handshake_identity_init(&two[0], &w->sk, psk);
	handshake_identity_init(&two[1], &w->sk, w->psk);
	handshake_server_hello(&w->hs, 0x0e, 0, w->hello);
	ok(hello_and_write1(w, SUITE_POLY1305) == ERR_OK &&
	        handshake_server_read1(&w->hs, two, 2, w->msg1, &w->peer, &w->e) == ERR_OK &&
	        w->peer.identity == 1,
	    "in a rotation the identity is found by mac1");
	ok(handshake_server_write2(&w->hs, HS_OK, &server_info, w->msg2, &w->ss, &w->e) == ERR_OK &&
	        handshake_client_read2(&w->hc, w->msg2, &w->got, &w->cs, &w->e) == ERR_OK,
	    "and used");

	/* The same bytes, against the next challenge. */
	handshake_server_hello(&w->hs, 0x0e, 0, w->hello);
	products = 0;
	ok(handshake_server_read1(&w->hs, &w->id, 1, w->msg1, &w->peer, &w->e) == ERR_AUTH &&
	        products == 0,
	    "a replayed message 1 is refused, no product");
	ok(hello_and_write1(w, SUITE_POLY1305) == ERR_OK, "a fresh message 1");
	ok(handshake_client_read2(&w->hc, w->msg2, &w->got, &w->cs, &w->e) == ERR_AUTH,
	    "a replayed message 2 is refused");
	ok(handshake_client_read2(&w->hc, w->msg2, &w->got, &w->cs, &w->e) == ERR_AUTH, "for good");
}

/* mac1 as the format describes it, computed apart from the code under test. */
static void remac(struct world *w)
{
	uint8_t in[7 + 64] = "ps-mac1", key[32], text[HS_HELLO_BYTES + 160];

	memcpy(in + 7, w->psk, 32);
	memcpy(in + 39, w->sk.pk, 32);
	crypto_generichash(key, 32, in, sizeof(in), NULL, 0);
	memcpy(text, w->hello, HS_HELLO_BYTES);
	memcpy(text + HS_HELLO_BYTES, w->msg1, 160);
	crypto_generichash(w->msg1 + 160, 16, text, sizeof(text), key, 32);
}

static void point(size_t i, uint8_t out[static 32])
{
	if (sodium_hex2bin(out, 32, low_order[i], 64, NULL, NULL, NULL) != 0)
		abort();
}

/* What only somebody who knows the psk can send. */
static void low_order_points(struct world *w)
{
	int ephemeral = 0, fixed = 0, answer = 0, server = 0;
	struct key_pair honest = w->ck, server_pair = w->sk;

	for (size_t i = 0; i < NLOW; i++) {
		unsigned n;

		handshake_server_hello(&w->hs, 0x0e, 0, w->hello);
		hello_and_write1(w, SUITE_POLY1305);
		point(i, w->msg1 + 8);
		remac(w);
		products = 0;
		ephemeral += handshake_server_read1(&w->hs, &w->id, 1, w->msg1, &w->peer, &w->e) ==
		        ERR_AUTH &&
		    products == 1;

		point(i, w->ck.pk);
		fixed += run(w, SUITE_POLY1305, NOWHERE, 0, &n) == ERR_AUTH && n == 2;
		w->ck = honest;

		handshake_server_hello(&w->hs, 0x0e, 0, w->hello);
		hello_and_write1(w, SUITE_POLY1305);
		handshake_server_read1(&w->hs, &w->id, 1, w->msg1, &w->peer, &w->e);
		handshake_server_write2(&w->hs, HS_OK, &server_info, w->msg2, &w->ss, &w->e);
		point(i, w->msg2 + 8);
		products = 0;
		answer += handshake_client_read2(&w->hc, w->msg2, &w->got, &w->cs, &w->e) ==
		        ERR_AUTH &&
		    products == 1;

		point(i, w->sk.pk);
		handshake_server_hello(&w->hs, 0x0e, 0, w->hello);
		server += hello_and_write1(w, SUITE_POLY1305) == ERR_AUTH;
		w->sk = server_pair;
	}
	ok(ephemeral == NLOW, "low-order client ephemerals are refused at the first product");
	ok(fixed == NLOW, "low-order client keys are refused at the second");
	ok(answer == NLOW, "low-order server ephemerals are refused");
	ok(server == NLOW, "low-order server keys are refused");
}

/* A message 1 whose Noise part is right, made by hand: the layout is as the
 * header says, and the reserved bytes of the info are looked at. */
static enum err_code by_hand(struct world *w, int at, uint8_t suite)
{
	struct noise x;
	uint8_t prologue[HS_HELLO_BYTES + 8], info[56] = { 0 };

	handshake_server_hello(&w->hs, 0x0a, 0, w->hello);
	memcpy(w->msg1, "PSC1\1\0\0\0", 8);
	w->msg1[5] = suite;
	memcpy(prologue, w->hello, HS_HELLO_BYTES);
	memcpy(prologue + HS_HELLO_BYTES, w->msg1, 8);
	if (at > 0)
		info[at] = 1;
	noise_init(&x, true, &w->ck, w->sk.pk, w->psk, prologue, sizeof(prologue));
	if (!noise_write1(&x, info, sizeof(info), w->msg1 + 8))
		abort();
	remac(w);
	return handshake_server_read1(&w->hs, &w->id, 1, w->msg1, &w->peer, &w->e);
}

static void handmade(struct world *w)
{
	int refused = 0;

	ok(by_hand(w, 0, SUITE_POLY1305) == ERR_OK, "a message 1 made by hand is read");
	ok(by_hand(w, 24, SUITE_POLY1305) == ERR_OK && w->peer.info.rank == 1, "rank at 24");
	for (int at = 29; at < 56; at++)
		refused += by_hand(w, at, SUITE_POLY1305) == ERR_PROTO;
	ok(refused == 27, "each reserved byte of the info must be zero");
	ok(by_hand(w, 0, SUITE_AES256GCM) == ERR_AUTH, "a suite that was not offered is refused");
	ok(by_hand(w, 0, 0) == ERR_AUTH && by_hand(w, 0, 7) == ERR_AUTH &&
	        by_hand(w, 0, 8) == ERR_AUTH && by_hand(w, 0, 255) == ERR_AUTH,
	    "and so are unknown ones");
}

static void statuses(struct world *w)
{
	static const struct {
		enum hs_status status;
		enum err_code code;
	} row[] = {
#define HS_STATUS(id, number, error, cause, text) { HS_##id, ERR_##error },
#include "auth/hs_status.def"
#undef HS_STATUS
		{ (enum hs_status)200, ERR_FAILED },
	};

	for (size_t i = 1; i < sizeof(row) / sizeof(row[0]); i++) {
		struct err usual;

		handshake_server_hello(&w->hs, 0x0e, 0, w->hello);
		hello_and_write1(w, SUITE_POLY1305);
		handshake_server_read1(&w->hs, &w->id, 1, w->msg1, &w->peer, &w->e);
		ok(handshake_server_write2(&w->hs, row[i].status, NULL, w->msg2, NULL, &w->e) ==
		            ERR_OK &&
		        handshake_client_read2(&w->hc, w->msg2, &w->got, &w->cs, &w->e) ==
		            row[i].code &&
		        strstr(w->e.msg, handshake_status_text(row[i].status)) != NULL,
		    "status %d: %s", (int)row[i].status, w->e.msg);
		err_set(&usual, row[i].code, "of the same code");
		ok(w->e.cause || !usual.cause, "status %d has a cause, if its code has one usually",
		    (int)row[i].status);
	}
}

static void clear_errors(struct world *w)
{
	uint8_t offered;
	uint64_t epoch;

	handshake_server_hello(&w->hs, 1u << SUITE_POLY1305, UINT64_C(0x1122334455667788),
	    w->hello);
	ok(handshake_client_read_hello(&w->hc, w->hello, &offered, &epoch, &w->e) == ERR_OK &&
	        offered == 8 && epoch == UINT64_C(0x1122334455667788),
	    "hello: suites and epoch hint");
	ok(hello_and_write1(w, SUITE_CHACHA20POLY1305) == ERR_CONFIG &&
	        strstr(w->e.msg, "chacha20poly1305") != NULL,
	    "%s", w->e.msg);
	w->hello[4] = 2;
	ok(handshake_client_read_hello(&w->hc, w->hello, &offered, &epoch, &w->e) == ERR_PROTO &&
	        strstr(w->e.msg, "version 2") != NULL,
	    "%s", w->e.msg);
	memcpy(w->hello, "HTTP/1.1 400 Bad Request\r\nDate: ", HS_HELLO_BYTES);
	ok(handshake_client_read_hello(&w->hc, w->hello, &offered, &epoch, &w->e) == ERR_PROTO,
	    "%s", w->e.msg);
	memset(w->msg1, 'G', HS_MSG1_BYTES);
	handshake_server_hello(&w->hs, 8, 0, w->hello);
	ok(handshake_server_read1(&w->hs, &w->id, 1, w->msg1, &w->peer, NULL) == ERR_PROTO,
	    "a stranger's bytes, without a struct err");
}

int main(void)
{
	struct world *w;

	if (key_init(NULL) != ERR_OK)
		return 1;
	w = world_new();
	for (size_t i = 0; i < sizeof(suites) / sizeof(suites[0]); i++) {
		if (!suite_available(suites[i])) {
			printf("# %s is not available here\n", suite_name(suites[i]));
			continue;
		}
		good(w, suites[i]);
		every_bit(w, suites[i]);
	}
	strangers(w);
	low_order_points(w);
	handmade(w);
	statuses(w);
	clear_errors(w);
	world_free(w);
	return tap_done();
}
