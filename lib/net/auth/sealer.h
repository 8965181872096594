/* SPDX-License-Identifier: ISC */
#ifndef AUTH_SEALER_H
#define AUTH_SEALER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "auth/tag.h"

/* Encrypts large payloads with OpenSSL's libcrypto, whose ciphers use the processor's special
 * instructions and are up to three times as fast as libsodium's. The bytes are the same:
 * AES-256-GCM (NIST SP 800-38D) and ChaCha20-Poly1305 (RFC 8439), with nonces of 12 bytes and no
 * associated data. */
#define SEALER_LARGE 1024u

/* The state for one direction and one key, made at the first large payload; NULL before. It
 * either seals or opens, never both. One thread at a time. */
struct sealer;
void sealer_free(struct sealer *s); /* wipes the key */
/* Encrypt n bytes from in to out, which may be the same, and compute their tag. cipher:
 * libcrypto's name of it. False: libcrypto cannot do it. */
bool sealer_seal(struct sealer **s, const char *cipher, const uint8_t key[static 32],
    const uint8_t nonce[static 12], const uint8_t *in, size_t n, uint8_t *out,
    uint8_t tag[static TAG_BYTES]);
/* Check the tag and decrypt in place. False: the tag is wrong, and the data must not be used. */
bool sealer_open(struct sealer **s, const char *cipher, const uint8_t key[static 32],
    const uint8_t nonce[static 12], uint8_t *data, size_t n, const uint8_t tag[static TAG_BYTES]);

#endif
