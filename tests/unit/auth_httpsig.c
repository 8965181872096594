/* SPDX-License-Identifier: ISC */
#include <sodium.h>

#include "auth/httpsig.h"
#include "tap.h"

#define NOW INT64_C(1767225600)

static struct key_pair client, server;
static uint8_t psk[32], key[32];

static const struct httpsig_msg get = {
	.method = "POST",
	.path = "/v1/stop",
	.query = "a=1&b=%2F",
	.host = "10.0.0.1:7000",
	.body = "{\"now\":true}",
	.body_len = 12,
};

struct signed_request {
	struct httpsig_head h;
	char value[HTTPSIG_TEXT];
};

static struct signed_request sign_at(const struct httpsig_msg *m, struct replay *r, int64_t now)
{
	struct signed_request s;

	if (httpsig_sign_request(key, m, client.pk, replay_boot(r), now, &s.h, s.value, NULL) !=
	    ERR_OK)
		abort();
	return s;
}

static enum err_code check(const struct httpsig_msg *m, const char *value, struct replay *r,
    int64_t now, struct err *e)
{
	struct httpsig_head h;
	enum err_code rc = httpsig_parse_request(value, &h, e);

	if (rc != ERR_OK)
		return rc;
	if (memcmp(h.pk, client.pk, 32) != 0)
		return ERR_FORBIDDEN; /* as a server does with a key not in its ring */
	return httpsig_verify_request(key, m, &h, r, now, e);
}

static void keys(void)
{
	uint8_t other[32];
	struct key_pair third;

	ok(httpsig_key(key, &client, server.pk, true, psk), "the client's key");
	ok(httpsig_key(other, &server, client.pk, false, psk) && memcmp(key, other, 32) == 0,
	    "is the server's too");
	ok(httpsig_key(other, &client, server.pk, false, psk) && memcmp(key, other, 32) != 0,
	    "roles exchanged: another key");
	key_pair_generate(&third);
	ok(httpsig_key(other, &third, server.pk, true, psk) && memcmp(key, other, 32) != 0,
	    "another client: another key");
	ok(httpsig_key(other, &client, server.pk, true, client.pk) && memcmp(key, other, 32) != 0,
	    "another psk: another key");
	ok(!httpsig_key(other, &client, (uint8_t[32]){ 0 }, true, psk),
	    "a low-order key is refused");
}

/* The signature of the lines before the path alone. */
static void sign_cut_off(struct signed_request *s)
{
	static const char text[] = "PS1\nrequest\nPOST\n";

	crypto_auth_hmacsha512256(s->h.sig, (const uint8_t *)text, sizeof(text) - 1, key);
}

static void requests(void)
{
	struct replay *r = replay_new(100);
	struct err e;
	struct signed_request s = sign_at(&get, r, NOW), t = sign_at(&get, r, NOW);
	struct httpsig_msg m;

	ok(strncmp(s.value, "PS1 key=", 8) == 0 && strlen(s.value) < HTTPSIG_TEXT, "%s", s.value);
	ok(memcmp(s.h.nonce, t.h.nonce, 16) != 0, "nonces differ");
#define CHANGED(field, to) \
	m = get; \
	m.field = to; \
	ok(check(&m, s.value, r, NOW, &e) == ERR_AUTH, "another " #field " fails")
	CHANGED(method, "GET");
	CHANGED(path, "/v1/stop/");
	CHANGED(query, "");
	CHANGED(query, NULL);
	CHANGED(host, "10.0.0.2:7000");
	CHANGED(body, "{\"now\":tru3}");
	CHANGED(body_len, 11);
	CHANGED(status, 200);
	m = get;
	m.path = "/v1/stop\na=1&b=%2F";
	ok(check(&m, s.value, r, NOW, &e) == ERR_AUTH, "a newline in the path fails");
	ok(httpsig_sign_request(key, &m, client.pk, replay_boot(r), NOW, &t.h, t.value, &e) ==
	        ERR_PROTO,
	    "and is not signed: %s", e.msg);
	t = s;
	sign_cut_off(&t);
	ok(httpsig_verify_request(key, &m, &t.h, r, NOW, &e) == ERR_AUTH,
	    "nor is a signature good that ends before it");
	ok(check(&get, s.value, r, NOW, &e) == ERR_OK, "after all these the request still passes");
	ok(check(&get, s.value, r, NOW, &e) == ERR_AUTH && strstr(e.msg, "nonce") != NULL,
	    "once: %s", e.msg);

	m = get;
	m.query = NULL;
	m.body = NULL;
	m.body_len = 0;
	s = sign_at(&m, r, NOW);
	m.query = "";
	m.body = "";
	ok(check(&m, s.value, r, NOW, &e) == ERR_OK, "no query and no body");
	key[0] ^= 1;
	s = sign_at(&get, r, NOW);
	key[0] ^= 1;
	ok(check(&get, s.value, r, NOW, &e) == ERR_AUTH, "another key: %s", e.msg);
	replay_free(r);
}

static void every_character(void)
{
	struct replay *r = replay_new(100);
	struct signed_request s = sign_at(&get, r, NOW);
	size_t n = strlen(s.value);
	char *bad = sodium_malloc(n + 2);
	int passed = 0;

	for (size_t i = 0; i < n; i++) {
		for (int c = 1; c < 256; c++) {
			memcpy(bad, s.value, n + 1);
			if ((char)c == s.value[i])
				continue;
			bad[i] = (char)c;
			passed += check(&get, bad, r, NOW, NULL) == ERR_OK;
		}
		memcpy(bad, s.value, n + 1);
		bad[i] = '\0';
		passed += check(&get, bad, r, NOW, NULL) == ERR_OK;
		memmove(bad + i + 1, s.value + i, n + 1 - i);
		bad[i] = s.value[i];
		passed += check(&get, bad, r, NOW, NULL) == ERR_OK;
		bad[i] = ' ';
		passed += check(&get, bad, r, NOW, NULL) == ERR_OK;
	}
	ok(passed == 0, "no header with one character changed, doubled, cut or added passes");
	ok(check(&get, s.value, r, NOW, NULL) == ERR_OK, "the right one does");
	sodium_free(bad);
	replay_free(r);
}

static void strict(void)
{
	struct httpsig_head h;
	const char *tail = "nonce=00112233445566778899aabbccddeeff, "
	                   "boot=000102030405060708090a0b0c0d0e0f, "
	                   "sig=000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
	static const char *const times[] = { "", "-1", "+1", "01", "1.0", "0x1", "253402300800",
		"99999999999999999999", " 1", "1 " };
	char value[512];
	int refused = 0;

	snprintf(value, sizeof(value), "ts=1, %s", tail);
	ok(httpsig_parse_answer(value, &h, NULL) == ERR_OK && h.ts == 1 && h.nonce[1] == 0x11 &&
	        h.boot[15] == 15 && h.sig[31] == 31,
	    "an answer's header");
	snprintf(value, sizeof(value), "ts=253402300799, %s", tail);
	ok(httpsig_parse_answer(value, &h, NULL) == ERR_OK && h.ts == HTTPSIG_TS_MAX,
	    "the last time");
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		snprintf(value, sizeof(value), "ts=%s, %s", times[i], tail);
		refused += httpsig_parse_answer(value, &h, NULL) == ERR_AUTH;
	}
	ok(refused == sizeof(times) / sizeof(times[0]), "other ways to write a time are refused");
	snprintf(value, sizeof(value), "ts=1, %s", tail);
	value[20] = 'A';
	ok(httpsig_parse_answer(value, &h, NULL) == ERR_AUTH, "upper-case hex is refused");
	ok(httpsig_parse_request("Bearer xyz", &h, NULL) == ERR_AUTH &&
	        httpsig_parse_request("", &h, NULL) == ERR_AUTH,
	    "other schemes are refused");
}

static void answers(void)
{
	struct replay *r = replay_new(100);
	struct err e;
	struct signed_request s = sign_at(&get, r, NOW), other = sign_at(&get, r, NOW);
	struct httpsig_msg a = get, m;
	struct httpsig_head h;
	char value[HTTPSIG_TEXT], bad[HTTPSIG_TEXT];

	a.body = "{}";
	a.body_len = 2;
	a.status = 200;
	ok(httpsig_sign_answer(key, &a, &s.h, replay_boot(r), NOW + 500, value, &e) == ERR_OK, "%s",
	    value);
	ok(httpsig_verify_answer(key, &a, &s.h, value, &h, &e) == ERR_OK && h.ts == NOW + 500 &&
	        memcmp(h.boot, replay_boot(r), 16) == 0,
	    "verifies, with the server's time and boot id");
	m = a;
	m.status = 403;
	ok(httpsig_verify_answer(key, &m, &s.h, value, &h, &e) == ERR_AUTH, "another status fails");
	m = a;
	m.body = "[]";
	ok(httpsig_verify_answer(key, &m, &s.h, value, &h, &e) == ERR_AUTH, "another body fails");
	m = a;
	m.path = "/v1/other";
	ok(httpsig_verify_answer(key, &m, &s.h, value, &h, &e) == ERR_AUTH, "another path fails");
	ok(httpsig_verify_answer(key, &a, &other.h, value, &h, &e) == ERR_AUTH &&
	        strstr(e.msg, "another request") != NULL,
	    "%s", e.msg);

	/* A request's signature is none for an answer. */
	m = get;
	snprintf(bad, sizeof(bad), "%s", s.value + strlen("PS1 key=") + KEY_TEXT_LEN + 2);
	ok(httpsig_verify_answer(key, &m, &s.h, bad, &h, &e) == ERR_AUTH &&
	        strstr(e.msg, "does not verify") != NULL,
	    "a reflected signature fails");
	replay_free(r);
}

static void clocks(void)
{
	struct replay *r = replay_new(100);
	struct err e;
	struct signed_request s;
	uint8_t boot[16];

	s = sign_at(&get, r, NOW);
	ok(check(&get, s.value, r, NOW + 61, &e) == ERR_AUTH &&
	        strstr(e.msg, "61 s behind the server's") != NULL,
	    "%s", e.msg);
	ok(check(&get, s.value, r, NOW - 3600, &e) == ERR_AUTH &&
	        strstr(e.msg, "3600 s ahead of the server's") != NULL,
	    "%s", e.msg);
	ok(check(&get, s.value, r, NOW + 60, &e) == ERR_OK, "60 s late passes");
	s = sign_at(&get, r, NOW);
	ok(check(&get, s.value, r, NOW - 60, &e) == ERR_OK, "60 s early passes");

	randombytes_buf(boot, sizeof(boot));
	ok(httpsig_sign_request(key, &get, client.pk, boot, NOW, &s.h, s.value, &e) == ERR_OK &&
	        check(&get, s.value, r, NOW, &e) == ERR_STALE,
	    "another boot id: %s", e.msg);
	memset(boot, 0, sizeof(boot));
	ok(httpsig_sign_request(key, &get, client.pk, boot, NOW, &s.h, s.value, &e) == ERR_OK &&
	        check(&get, s.value, r, NOW, &e) == ERR_STALE,
	    "so does one not known yet");
	replay_free(r);
}

static void bounded(void)
{
	struct replay *r = replay_new(100);
	struct err e;
	struct signed_request s[51], later;
	uint8_t boot[16];
	int passed = 0, again = 0;

	for (int i = 0; i < 51; i++)
		s[i] = sign_at(&get, r, NOW + i % 2);
	for (int i = 0; i < 50; i++)
		passed += check(&get, s[i].value, r, NOW, &e) == ERR_OK;
	ok(passed == 50, "as many as there is room for");
	ok(check(&get, s[50].value, r, NOW, &e) == ERR_LIMIT, "%s", e.msg);
	for (int i = 0; i < 50; i++)
		again += check(&get, s[i].value, r, NOW + 60, &e) == ERR_AUTH;
	ok(again == 50, "all are remembered to the window's end");
	ok(check(&get, s[50].value, r, NOW + 60, &e) == ERR_LIMIT, "and still fill the room");
	later = sign_at(&get, r, NOW + 61);
	ok(check(&get, later.value, r, NOW + 61, &e) == ERR_OK, "then the oldest make room");
	ok(check(&get, s[1].value, r, NOW + 61, &e) == ERR_AUTH && strstr(e.msg, "nonce") != NULL,
	    "and only they");

	/* The clock goes back to where nonces have been forgotten. */
	memcpy(boot, replay_boot(r), 16);
	ok(check(&get, s[0].value, r, NOW, &e) == ERR_STALE,
	    "a replay after the clock went back: %s", e.msg);
	ok(memcmp(boot, replay_boot(r), 16) != 0, "the boot id is another one");
	ok(check(&get, later.value, r, NOW + 61, &e) == ERR_STALE, "what went before is void");
	later = sign_at(&get, r, NOW);
	ok(check(&get, later.value, r, NOW, &e) == ERR_OK, "and the next request passes");
	replay_free(r);
	replay_free(NULL);

	r = replay_new(1);
	later = sign_at(&get, r, NOW);
	ok(check(&get, later.value, r, NOW, &e) == ERR_OK &&
	        check(&get, later.value, r, NOW, &e) == ERR_AUTH,
	    "room for one");
	replay_free(r);
}

/* A nonce of its own for each i. */
static enum err_code use_nonce(struct replay *r, uint8_t peer, uint32_t i, int64_t now)
{
	uint8_t pk[32] = { peer }, nonce[16] = { (uint8_t)i, (uint8_t)(i >> 8), peer };
	struct err e;

	return replay_check(r, pk, nonce, replay_boot(r), now, now, &e);
}

static uint32_t use_up(struct replay *r, uint8_t peer, int64_t now)
{
	uint32_t n = 0;

	while (use_nonce(r, peer, n, now) == ERR_OK)
		n++;
	return n;
}

/* A peer from `peer` on that does not share its room with one that has used it up: keys are assigned to
 * shares at random. It has used one nonce then. */
static uint8_t peer_with_room(struct replay *r, uint8_t peer)
{
	while (peer < 20 && use_nonce(r, peer, 5000, NOW) != ERR_OK)
		peer++;
	return peer;
}

static void shared(void)
{
	struct replay *r = replay_new(1200);
	uint32_t first = use_up(r, 1, NOW);
	uint8_t peer = peer_with_room(r, 2);
	uint32_t second = 1 + use_up(r, peer, NOW);

	ok(first == 600 && second == 300, "a key uses up half of what is left: %u, %u", first,
	    second);
	ok(peer_with_room(r, (uint8_t)(peer + 1)) < 20, "another key has room");
	ok(use_nonce(r, 1, 5000, NOW) == ERR_LIMIT, "the first one has none");
	ok(use_nonce(r, 1, 5000, NOW + 61) == ERR_OK,
	    "when its nonces are forgotten it has its share again");
	replay_free(r);
}

int main(void)
{
	if (key_init(NULL) != ERR_OK)
		return 1;
	key_pair_generate(&client);
	key_pair_generate(&server);
	randombytes_buf(psk, sizeof(psk));
	keys();
	requests();
	every_character();
	strict();
	answers();
	clocks();
	bounded();
	shared();
	return tap_done();
}
