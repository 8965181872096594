/* SPDX-License-Identifier: ISC */
/* The functions of libcrypto that pskit calls, for ps-ctl and ps-stat: most of their calls encrypt
 * nothing large, and the 18,000 relocations of libcrypto took half of the time of a short one. The
 * server and the workers link libcrypto, because a server without a free descriptor could not load
 * it later. */
#include <openssl/evp.h>

#include "core/lazy_load.h"

#define CRYPTO_CALL(type, name, params, args) \
	LAZY_CALL("libcrypto.so.3", "libssl3", type, EVP_##name, params, args)

CRYPTO_CALL(EVP_CIPHER *, CIPHER_fetch,
    (OSSL_LIB_CTX * ctx, const char *algorithm, const char *properties),
    (ctx, algorithm, properties))
CRYPTO_CALL(void, CIPHER_free, (EVP_CIPHER * cipher), (cipher))
CRYPTO_CALL(EVP_CIPHER_CTX *, CIPHER_CTX_new, (void), ())
CRYPTO_CALL(void, CIPHER_CTX_free, (EVP_CIPHER_CTX * ctx), (ctx))
CRYPTO_CALL(int, CIPHER_CTX_ctrl, (EVP_CIPHER_CTX * ctx, int type, int arg, void *p),
    (ctx, type, arg, p))

CRYPTO_CALL(int, CipherInit_ex2,
    (EVP_CIPHER_CTX * ctx, const EVP_CIPHER *cipher, const unsigned char *key,
        const unsigned char *iv, int enc, const OSSL_PARAM params[]),
    (ctx, cipher, key, iv, enc, params))
CRYPTO_CALL(int, EncryptInit_ex2,
    (EVP_CIPHER_CTX * ctx, const EVP_CIPHER *cipher, const unsigned char *key,
        const unsigned char *iv, const OSSL_PARAM params[]),
    (ctx, cipher, key, iv, params))
CRYPTO_CALL(int, EncryptUpdate,
    (EVP_CIPHER_CTX * ctx, unsigned char *out, int *outl, const unsigned char *in, int inl),
    (ctx, out, outl, in, inl))
CRYPTO_CALL(int, EncryptFinal_ex, (EVP_CIPHER_CTX * ctx, unsigned char *out, int *outl),
    (ctx, out, outl))
CRYPTO_CALL(int, DecryptUpdate,
    (EVP_CIPHER_CTX * ctx, unsigned char *out, int *outl, const unsigned char *in, int inl),
    (ctx, out, outl, in, inl))
CRYPTO_CALL(int, DecryptFinal_ex, (EVP_CIPHER_CTX * ctx, unsigned char *out, int *outl),
    (ctx, out, outl))
