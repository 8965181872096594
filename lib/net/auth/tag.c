/* SPDX-License-Identifier: ISC */
#include "auth/tag.h"

#include <limits.h>
#include <openssl/evp.h>
#include <sodium.h>

#include "core/mem.h"

struct tag_maker {
	EVP_CIPHER *cipher;
	EVP_CIPHER_CTX *ctx;
};

void tag_maker_free(struct tag_maker *m)
{
	if (!m)
		return;
	EVP_CIPHER_CTX_free(m->ctx); /* wipes the key */
	EVP_CIPHER_free(m->cipher);
	free(m);
}

static struct tag_maker *maker_new(void)
{
	struct tag_maker *m = mem_alloc(sizeof *m);

	m->cipher = EVP_CIPHER_fetch(NULL, "ChaCha20-Poly1305", NULL);
	m->ctx = EVP_CIPHER_CTX_new();
	if (m->cipher && m->ctx && EVP_EncryptInit_ex2(m->ctx, m->cipher, NULL, NULL, NULL))
		return m;
	tag_maker_free(m);
	return NULL;
}

bool tag_make(struct tag_maker **m, const uint8_t key[static 32], const uint8_t nonce[static 12],
    const uint8_t *data, size_t n, uint8_t tag[static TAG_BYTES])
{
	uint8_t none = 0;
	int len;

	if (n < TAG_LARGE || n > INT_MAX)
		return crypto_aead_chacha20poly1305_ietf_encrypt_detached(&none, tag, NULL, &none,
		           0, data, n, NULL, nonce, key) == 0;
	if (!*m)
		*m = maker_new();
	return *m && EVP_EncryptInit_ex2((*m)->ctx, NULL, key, nonce, NULL) &&
	    EVP_EncryptUpdate((*m)->ctx, NULL, &len, data, (int)n) &&
	    EVP_EncryptFinal_ex((*m)->ctx, &none, &len) &&
	    EVP_CIPHER_CTX_ctrl((*m)->ctx, EVP_CTRL_AEAD_GET_TAG, TAG_BYTES, tag);
}
