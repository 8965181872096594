#ifndef AUTH_TAG_H
#define AUTH_TAG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The tag of a clear payload: that of ChaCha20-Poly1305 (RFC 8439, section 2.8) over n
 * bytes of associated data and an empty message.  libsodium computes it, and OpenSSL's
 * libcrypto from TAG_LARGE bytes on, whose Poly1305 uses what the processor has and is
 * several times as fast; the bits are the same. */
#define TAG_BYTES 16
#define TAG_LARGE 512u

/* libcrypto's working memory, made at the first large payload; NULL: not yet.  One
 * thread at a time. */
struct tag_maker;
void tag_maker_free(struct tag_maker *m);
/* False: libcrypto does not do it. */
bool tag_make(struct tag_maker **m, const uint8_t key[static 32], const uint8_t nonce[static 12], const uint8_t *data,
              size_t n, uint8_t tag[static TAG_BYTES]);

#endif
