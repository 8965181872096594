/* SPDX-License-Identifier: ISC */
#ifndef AUTH_TAG_H
#define AUTH_TAG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Computes the tag of a clear payload: the tag of ChaCha20-Poly1305 (RFC 8439, section 2.8) over n
 * bytes of associated data and an empty message. libsodium computes it for short payloads; from
 * TAG_LARGE bytes on OpenSSL's libcrypto does, which is several times as fast. The bytes are the
 * same. */
#define TAG_BYTES 16
#define TAG_LARGE 512u

/* The state of libcrypto, made at the first large payload; NULL before. One thread at a time. */
struct tag_maker;
void tag_maker_free(struct tag_maker *m);
/* False: libcrypto cannot do it. */
bool tag_make(struct tag_maker **m, const uint8_t key[static 32], const uint8_t nonce[static 12],
    const uint8_t *data, size_t n, uint8_t tag[static TAG_BYTES]);

#endif
