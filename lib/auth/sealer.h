#ifndef AUTH_SEALER_H
#define AUTH_SEALER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "auth/tag.h"

/* Large payloads of sealed suites by OpenSSL's libcrypto, whose ciphers use what the
 * processor has and are up to three times as fast as libsodium's; the bits are the same:
 * AES-256-GCM (NIST SP 800-38D) and ChaCha20-Poly1305 (RFC 8439), with nonces of 12 bytes
 * and no associated data. */
#define SEALER_LARGE 1024u

/* One direction's working memory for one key, made at the first large payload under it;
 * NULL: not yet.  It seals or it opens, never both.  One thread at a time. */
struct sealer;
void sealer_free(struct sealer *s);     /* wipes the key */
/* cipher: as libcrypto names it.  n bytes of in to out, which may be in, and their tag.
 * False: libcrypto does not do it. */
bool sealer_seal(struct sealer **s, const char *cipher, const uint8_t key[static 32], const uint8_t nonce[static 12],
    const uint8_t *in, size_t n, uint8_t *out, uint8_t tag[static TAG_BYTES]);
/* In place.  False: that is not their tag; then the data must not be used. */
bool sealer_open(struct sealer **s, const char *cipher, const uint8_t key[static 32], const uint8_t nonce[static 12],
    uint8_t *data, size_t n, const uint8_t tag[static TAG_BYTES]);

#endif
