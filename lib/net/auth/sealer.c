/* SPDX-License-Identifier: ISC */
#include "auth/sealer.h"

#include <limits.h>
#include <openssl/evp.h>
#include <string.h>

#include "core/mem.h"

struct sealer {
	EVP_CIPHER *cipher;
	EVP_CIPHER_CTX *ctx;
	bool keyed;
};

void sealer_free(struct sealer *s)
{
	if (!s)
		return;
	EVP_CIPHER_CTX_free(s->ctx);
	EVP_CIPHER_free(s->cipher);
	free(s);
}

static struct sealer *sealer_new(const char *cipher, bool seals)
{
	struct sealer *s = mem_alloc(sizeof *s);

	s->cipher = EVP_CIPHER_fetch(NULL, cipher, NULL);
	s->ctx = EVP_CIPHER_CTX_new();
	if (s->cipher && s->ctx && EVP_CipherInit_ex2(s->ctx, s->cipher, NULL, NULL, seals, NULL))
		return s;
	sealer_free(s);
	return NULL;
}

/* Set the key only once, so that libcrypto keeps its key schedule. */
static bool begin_sealer(struct sealer **s, const char *cipher, const uint8_t *key,
    const uint8_t *nonce, size_t n, bool seals)
{
	if (n > INT_MAX)
		return false;
	if (!*s)
		*s = sealer_new(cipher, seals);
	if (!*s ||
	    !EVP_CipherInit_ex2((*s)->ctx, NULL, (*s)->keyed ? NULL : key, nonce, seals, NULL))
		return false;
	(*s)->keyed = true;
	return true;
}

bool sealer_seal(struct sealer **s, const char *cipher, const uint8_t key[static 32],
    const uint8_t nonce[static 12], const uint8_t *in, size_t n, uint8_t *out,
    uint8_t tag[static TAG_BYTES])
{
	uint8_t none;
	int len;

	return begin_sealer(s, cipher, key, nonce, n, true) &&
	    EVP_EncryptUpdate((*s)->ctx, out, &len, in, (int)n) &&
	    EVP_EncryptFinal_ex((*s)->ctx, &none, &len) &&
	    EVP_CIPHER_CTX_ctrl((*s)->ctx, EVP_CTRL_AEAD_GET_TAG, TAG_BYTES, tag);
}

bool sealer_open(struct sealer **s, const char *cipher, const uint8_t key[static 32],
    const uint8_t nonce[static 12], uint8_t *data, size_t n, const uint8_t tag[static TAG_BYTES])
{
	uint8_t none, want[TAG_BYTES];
	int len;

	memcpy(want, tag, TAG_BYTES);
	return begin_sealer(s, cipher, key, nonce, n, false) &&
	    EVP_DecryptUpdate((*s)->ctx, data, &len, data, (int)n) &&
	    EVP_CIPHER_CTX_ctrl((*s)->ctx, EVP_CTRL_AEAD_SET_TAG, TAG_BYTES, want) &&
	    EVP_DecryptFinal_ex((*s)->ctx, &none, &len);
}
