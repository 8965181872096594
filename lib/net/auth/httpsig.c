/* SPDX-License-Identifier: ISC */
#include "auth/httpsig.h"

#include <inttypes.h>
#include <sodium.h>
#include <string.h>

#include "core/num.h"

#define HEX_ID      (2 * REPLAY_NONCE_BYTES)
#define HEX_SIG     64
#define KEY_CONTEXT "pskit-http-sig1"

_Static_assert(REPLAY_NONCE_BYTES == REPLAY_BOOT_BYTES, "both are HEX_ID digits");
_Static_assert(crypto_auth_hmacsha512256_BYTES == 32, "size of sig");
_Static_assert(sizeof("PS1 key=, ts=253402300799, nonce=, boot=, sig=") + KEY_TEXT_LEN +
            2 * HEX_ID + HEX_SIG <=
        HTTPSIG_TEXT,
    "room for a header");

bool httpsig_key(uint8_t key[static 32], const struct key_pair *self,
    const uint8_t peer_pk[static KEY_BYTES], bool self_is_client,
    const uint8_t psk[static KEY_BYTES])
{
	crypto_generichash_state st;
	uint8_t dh[32];

	if (crypto_scalarmult(dh, self->sk, peer_pk) != 0)
		return false;
	crypto_generichash_init(&st, psk, KEY_BYTES, 32);
	crypto_generichash_update(&st, (const uint8_t *)KEY_CONTEXT, sizeof(KEY_CONTEXT) - 1);
	crypto_generichash_update(&st, dh, sizeof(dh));
	crypto_generichash_update(&st, self_is_client ? self->pk : peer_pk, KEY_BYTES);
	crypto_generichash_update(&st, self_is_client ? peer_pk : self->pk, KEY_BYTES);
	crypto_generichash_final(&st, key, 32);
	sodium_memzero(dh, sizeof(dh));
	sodium_memzero(&st, sizeof(st));
	return true;
}

/* Skip `word` at the front of *p; false when it is not there. */
static bool skip_word(const char **p, const char *word)
{
	size_t n = strlen(word);

	if (strncmp(*p, word, n) != 0)
		return false;
	*p += n;
	return true;
}

/* Read n bytes from 2n lower-case digits. */
static bool read_hex(const char **p, uint8_t *out, size_t n)
{
	size_t got;

	if (strspn(*p, "0123456789abcdef") < 2 * n ||
	    sodium_hex2bin(out, n, *p, 2 * n, NULL, &got, NULL) != 0 || got != n)
		return false;
	*p += 2 * n;
	return true;
}

static bool read_key_text(const char **p, uint8_t pk[static KEY_BYTES])
{
	char text[KEY_TEXT_LEN + 1];

	if (strnlen(*p, KEY_TEXT_LEN) < KEY_TEXT_LEN)
		return false;
	memcpy(text, *p, KEY_TEXT_LEN);
	text[KEY_TEXT_LEN] = '\0';
	*p += KEY_TEXT_LEN;
	return key_from_text(text, pk);
}

/* Decimal without a sign or leading zeros, so that each time is written in one way only. */
static bool read_time(const char **p, int64_t *ts)
{
	char text[16];
	size_t n = strspn(*p, "0123456789");

	if (n == 0 || n >= sizeof(text) || (n > 1 && **p == '0'))
		return false;
	memcpy(text, *p, n);
	text[n] = '\0';
	*p += n;
	return num_int(text, 0, HTTPSIG_TS_MAX, ts);
}

static bool read_tail(const char **p, struct httpsig_head *h)
{
	return skip_word(p, "ts=") && read_time(p, &h->ts) && skip_word(p, ", nonce=") &&
	    read_hex(p, h->nonce, sizeof(h->nonce)) && skip_word(p, ", boot=") &&
	    read_hex(p, h->boot, sizeof(h->boot)) && skip_word(p, ", sig=") &&
	    read_hex(p, h->sig, sizeof(h->sig)) && **p == '\0';
}

enum err_code httpsig_parse_request(const char *value, struct httpsig_head *h, struct err *e)
{
	if (!skip_word(&value, "PS1 key=") || !read_key_text(&value, h->pk) ||
	    !skip_word(&value, ", ") || !read_tail(&value, h))
		return err_set(e, ERR_AUTH,
		    "the Authorization header must be: PS1 key=BASE64, "
		    "ts=SECONDS, nonce=HEX, boot=HEX, sig=HEX");
	return ERR_OK;
}

enum err_code httpsig_parse_answer(const char *value, struct httpsig_head *h, struct err *e)
{
	memset(h->pk, 0, sizeof(h->pk));
	if (!read_tail(&value, h))
		return err_set(e, ERR_AUTH,
		    "the PS1-Signature header must be: ts=SECONDS, "
		    "nonce=HEX, boot=HEX, sig=HEX");
	return ERR_OK;
}

static void print_tail(char *out, size_t size, const struct httpsig_head *h)
{
	char nonce[HEX_ID + 1], boot[HEX_ID + 1], sig[HEX_SIG + 1];

	sodium_bin2hex(nonce, sizeof(nonce), h->nonce, sizeof(h->nonce));
	sodium_bin2hex(boot, sizeof(boot), h->boot, sizeof(h->boot));
	sodium_bin2hex(sig, sizeof(sig), h->sig, sizeof(h->sig));
	snprintf(out, size, "ts=%" PRId64 ", nonce=%s, boot=%s, sig=%s", h->ts, nonce, boot, sig);
}

/* Hash a line with its newline. False for a string with control bytes, which could pass for two
 * lines. */
static bool hash_line(crypto_auth_hmacsha512256_state *st, const char *s)
{
	for (const char *p = s; *p != '\0'; p++)
		if ((uint8_t)*p < 0x20 || *p == 0x7f)
			return false;
	crypto_auth_hmacsha512256_update(st, (const uint8_t *)s, strlen(s));
	crypto_auth_hmacsha512256_update(st, (const uint8_t *)"\n", 1);
	return true;
}

static bool hash_hex(crypto_auth_hmacsha512256_state *st, const uint8_t *p, size_t n)
{
	char hex[2 * 32 + 1];

	sodium_bin2hex(hex, sizeof(hex), p, n);
	return hash_line(st, hex);
}

static bool hash_number(crypto_auth_hmacsha512256_state *st, int64_t v)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRId64, v);
	return hash_line(st, text);
}

/* Compute the signature of m with h's time, nonce and boot id; false when a string of m has a
 * control byte. */
static bool compute_signature(uint8_t sig[static 32], const uint8_t key[static 32],
    const char *direction, const struct httpsig_msg *m, const struct httpsig_head *h)
{
	crypto_auth_hmacsha512256_state st;
	uint8_t hash[32];
	bool good;

	crypto_generichash(hash, sizeof(hash), m->body_len > 0 ? m->body : "", m->body_len, NULL,
	    0);
	crypto_auth_hmacsha512256_init(&st, key, 32);
	good = hash_line(&st, "PS1") && hash_line(&st, direction) && hash_line(&st, m->method) &&
	    hash_line(&st, m->path) && hash_line(&st, m->query != NULL ? m->query : "") &&
	    hash_line(&st, m->host) && hash_hex(&st, hash, sizeof(hash)) &&
	    hash_number(&st, h->ts) && hash_hex(&st, h->nonce, sizeof(h->nonce)) &&
	    hash_hex(&st, h->boot, sizeof(h->boot)) && hash_number(&st, m->status);
	crypto_auth_hmacsha512256_final(&st, sig);
	sodium_memzero(&st, sizeof(st));
	return good;
}

static enum err_code report_control_byte(struct err *e)
{
	return err_set(e, ERR_PROTO,
	    "method, path, query or Host has a control byte, and cannot "
	    "be signed");
}

static bool signature_is_right(const uint8_t key[static 32], const char *direction,
    const struct httpsig_msg *m, const struct httpsig_head *h)
{
	uint8_t sig[32];
	bool good = compute_signature(sig, key, direction, m, h);

	return sodium_memcmp(sig, h->sig, sizeof(sig)) == 0 && good;
}

enum err_code httpsig_sign_request(const uint8_t key[static 32], const struct httpsig_msg *m,
    const uint8_t self_pk[static KEY_BYTES], const uint8_t boot[static REPLAY_BOOT_BYTES],
    int64_t now, struct httpsig_head *h, char value[static HTTPSIG_TEXT], struct err *e)
{
	char pk[48];
	int n;

	memcpy(h->pk, self_pk, KEY_BYTES);
	memcpy(h->boot, boot, REPLAY_BOOT_BYTES);
	h->ts = now;
	randombytes_buf(h->nonce, sizeof(h->nonce));
	if (!compute_signature(h->sig, key, "request", m, h))
		return report_control_byte(e);
	key_to_text(h->pk, pk);
	n = snprintf(value, HTTPSIG_TEXT, "PS1 key=%s, ", pk);
	print_tail(value + n, HTTPSIG_TEXT - (size_t)n, h);
	return ERR_OK;
}

enum err_code httpsig_verify_request(const uint8_t key[static 32], const struct httpsig_msg *m,
    const struct httpsig_head *h, struct replay *replay, int64_t now, struct err *e)
{
	if (!signature_is_right(key, "request", m, h))
		return err_set(e, ERR_AUTH,
		    "the request's signature is wrong: another key, "
		    "cluster secret or Host name, or the request was altered");
	return replay_check(replay, h->pk, h->nonce, h->boot, h->ts, now, e);
}

enum err_code httpsig_sign_answer(const uint8_t key[static 32], const struct httpsig_msg *m,
    const struct httpsig_head *request, const uint8_t boot[static REPLAY_BOOT_BYTES], int64_t now,
    char value[static HTTPSIG_TEXT], struct err *e)
{
	struct httpsig_head h = { .ts = now };

	memcpy(h.nonce, request->nonce, sizeof(h.nonce));
	memcpy(h.boot, boot, sizeof(h.boot));
	if (!compute_signature(h.sig, key, "answer", m, &h))
		return report_control_byte(e);
	print_tail(value, HTTPSIG_TEXT, &h);
	return ERR_OK;
}

enum err_code httpsig_verify_answer(const uint8_t key[static 32], const struct httpsig_msg *m,
    const struct httpsig_head *request, const char *value, struct httpsig_head *answer,
    struct err *e)
{
	enum err_code rc = httpsig_parse_answer(value, answer, e);

	if (rc != ERR_OK)
		return rc;
	if (sodium_memcmp(answer->nonce, request->nonce, sizeof(answer->nonce)) != 0)
		return err_set(e, ERR_AUTH, "the server's answer belongs to another request");
	if (!signature_is_right(key, "answer", m, answer))
		return err_set(e, ERR_AUTH,
		    "the server's answer does not verify: it does not hold "
		    "the expected key and cluster secret, or the answer was altered");
	return ERR_OK;
}
