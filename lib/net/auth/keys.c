/* SPDX-License-Identifier: ISC */
#include "auth/keys.h"

#include <sodium.h>
#include <string.h>
#include <unistd.h>

#include "auth/authfile.h"
#include "core/file.h"

/* more than any valid file has, so that the message can name the fault */
#define LINE_MAX_BYTES 128

_Static_assert(KEY_BYTES == crypto_scalarmult_BYTES, "keys are X25519 points");
_Static_assert(KEY_BYTES == crypto_scalarmult_SCALARBYTES, "keys are X25519 scalars");

enum err_code key_init(struct err *e)
{
	if (sodium_init() < 0)
		return err_set(e, ERR_FAILED, "libsodium cannot start: no source of random bytes");
	return ERR_OK;
}

void key_pair_from_secret(struct key_pair *k, const uint8_t sk[static KEY_BYTES])
{
	memmove(k->sk, sk, KEY_BYTES);
	/* Multiplying the base point succeeds for every scalar. */
	if (crypto_scalarmult_base(k->pk, k->sk) != 0)
		abort();
}

void key_pair_generate(struct key_pair *k)
{
	uint8_t sk[KEY_BYTES];

	randombytes_buf(sk, sizeof(sk));
	key_pair_from_secret(k, sk);
	sodium_memzero(sk, sizeof(sk));
}

void key_pair_wipe(struct key_pair *k)
{
	sodium_memzero(k, sizeof(*k));
}

void key_to_text(const uint8_t k[static KEY_BYTES], char out[static 48])
{
	sodium_bin2base64(out, 48, k, KEY_BYTES, sodium_base64_VARIANT_ORIGINAL);
}

bool key_from_text(const char *s, uint8_t k[static KEY_BYTES])
{
	uint8_t bin[KEY_BYTES];
	char again[48];
	size_t n = 0;
	bool good = strnlen(s, KEY_TEXT_LEN + 1) == KEY_TEXT_LEN &&
	    sodium_base642bin(bin, sizeof(bin), s, KEY_TEXT_LEN, NULL, &n, NULL,
	        sodium_base64_VARIANT_ORIGINAL) == 0 &&
	    n == KEY_BYTES;

	/* libsodium 1.0.18 takes some bytes above 0x7f for letters where char is signed. It
	 * writes only the canonical form, so compare with that. */
	if (good) {
		key_to_text(bin, again);
		good = sodium_memcmp(again, s, KEY_TEXT_LEN) == 0;
		sodium_memzero(again, sizeof(again));
	}
	if (good)
		memcpy(k, bin, KEY_BYTES);
	sodium_memzero(bin, sizeof(bin));
	return good;
}

/* text holds the n bytes of the file and a NUL. */
static enum err_code parse_secret(const char *path, const char *word, char *text, size_t n,
    uint8_t out[static KEY_BYTES], struct err *e)
{
	size_t wlen = strlen(word);

	if (n == 0)
		return err_set(e, ERR_AUTH, "%s is empty; it must hold one line \"%s BASE64\"",
		    path, word);
	if (memchr(text, '\r', n) != NULL)
		return err_set(e, ERR_AUTH,
		    "%s has a carriage return; its one line \"%s BASE64\" "
		    "must end in a bare newline (try: sed -i 's/\\r$//' %s)",
		    path, word, path);
	if (n != wlen + 1 + KEY_TEXT_LEN + 1 || memcmp(text, word, wlen) != 0 ||
	    text[wlen] != ' ' || text[n - 1] != '\n')
		goto malformed;
	text[n - 1] = '\0';
	if (!key_from_text(text + wlen + 1, out))
		goto malformed;
	return ERR_OK;
malformed:
	/* The message shows no byte of the file, which may be a secret. */
	return err_set(e, ERR_AUTH,
	    "%s: must be one line \"%s BASE64\" with %d characters of base64", path, word,
	    KEY_TEXT_LEN);
}

static enum err_code load_secret(const char *path, const char *word, uint8_t out[static KEY_BYTES],
    struct err *e)
{
	char text[LINE_MAX_BYTES + 1];
	size_t n;
	enum err_code rc;
	int fd;

	rc = authfile_open(path, 0077, LINE_MAX_BYTES, &fd, &n, e);
	if (rc != ERR_OK)
		return rc;
	rc = file_read_all(fd, text, n, e);
	close(fd);
	if (rc == ERR_OK) {
		text[n] = '\0';
		rc = parse_secret(path, word, text, n, out, e);
	} else {
		err_prefix(e, "%s", path);
	}
	sodium_memzero(text, sizeof(text));
	return rc;
}

static enum err_code create_secret(const char *path, const char *word,
    const uint8_t secret[static KEY_BYTES], struct err *e)
{
	char b64[48], text[LINE_MAX_BYTES];
	enum err_code rc;
	int n;

	key_to_text(secret, b64);
	n = snprintf(text, sizeof(text), "%s %s\n", word, b64);
	rc = authfile_create(path, text, (size_t)n, e);
	sodium_memzero(b64, sizeof(b64));
	sodium_memzero(text, sizeof(text));
	return rc;
}

enum err_code key_pair_load(const char *path, struct key_pair *k, struct err *e)
{
	uint8_t sk[KEY_BYTES];
	enum err_code rc = load_secret(path, SECRET_WORD, sk, e);

	if (rc == ERR_OK)
		key_pair_from_secret(k, sk);
	sodium_memzero(sk, sizeof(sk));
	return rc;
}

enum err_code key_pair_create(const char *path, struct key_pair *k, struct err *e)
{
	struct key_pair fresh;
	enum err_code rc;

	key_pair_generate(&fresh);
	rc = create_secret(path, SECRET_WORD, fresh.sk, e);
	if (rc == ERR_OK)
		*k = fresh;
	key_pair_wipe(&fresh);
	return rc;
}

enum err_code psk_load(const char *path, uint8_t psk[static KEY_BYTES], struct err *e)
{
	return load_secret(path, PSK_WORD, psk, e);
}

enum err_code psk_create(const char *path, uint8_t psk[static KEY_BYTES], struct err *e)
{
	uint8_t fresh[KEY_BYTES];
	enum err_code rc;

	randombytes_buf(fresh, sizeof(fresh));
	rc = create_secret(path, PSK_WORD, fresh, e);
	if (rc == ERR_OK)
		memcpy(psk, fresh, KEY_BYTES);
	sodium_memzero(fresh, sizeof(fresh));
	return rc;
}
