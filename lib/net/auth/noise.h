/* SPDX-License-Identifier: ISC */
#ifndef AUTH_NOISE_H
#define AUTH_NOISE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "auth/keys.h"

/* Noise_IKpsk2_25519_ChaChaPoly_SHA256 (The Noise Protocol Framework, revision
 * 34, https://noiseprotocol.org/noise.html) on libsodium:
 *
 *     <- s
 *     ...
 *     -> e, es, s, ss                 NOISE_MSG1_EXTRA + payload bytes
 *     <- e, ee, se, psk               NOISE_MSG2_EXTRA + payload bytes
 *
 * One object serves one handshake of one side; it holds no pointers and is used
 * by one thread at a time. The initiator calls write1, read2, split; the
 * responder read1, write2, split. A function that returns false (another order
 * counts as a failure) has wiped the object: the handshake is over. */
#define NOISE_MSG1_EXTRA (32 + 48 + 16)
#define NOISE_MSG2_EXTRA (32 + 16)

enum noise_state { NOISE_DEAD, NOISE_WANT1, NOISE_WANT2, NOISE_SPLIT };

struct noise {
	enum noise_state state;
	bool initiator;
	bool has_e; /* e was given, not to be drawn */
	uint64_t n; /* nonce of k: 0 or 1 in this pattern */
	uint8_t h[32], ck[32], k[32];
	struct key_pair s, e;
	uint8_t rs[32], re[32], psk[32];
	unsigned dh_count; /* X25519 products asked for so far; survives wiping */
};

/* rs: the responder's public key, for the initiator; NULL for the responder. */
void noise_init(struct noise *x, bool initiator, const struct key_pair *s, const uint8_t *rs,
    const uint8_t psk[static 32], const void *prologue, size_t prologue_len);
/* Overwrites all secrets; the state is NOISE_DEAD, and dh_count stays. */
void noise_wipe(struct noise *x);

/* Use this ephemeral secret instead of a random one. For test vectors only. */
void noise_set_ephemeral(struct noise *x, const uint8_t sk[static 32]);

/* MixHash of clear bytes that travel beside the next message. Both sides call it at the same
 * point; if the bytes differ, that message fails. */
void noise_mix_hash(struct noise *x, const void *p, size_t n);

/* Lengths are those of the payload; the message is longer by NOISE_MSGx_EXTRA.
 * False: a low-order point, or (read) a tag that does not verify. */
bool noise_write1(struct noise *x, const uint8_t *payload, size_t n, uint8_t *msg);
bool noise_read1(struct noise *x, const uint8_t *msg, uint8_t *payload, size_t n);
bool noise_write2(struct noise *x, const uint8_t *payload, size_t n, uint8_t *msg);
bool noise_read2(struct noise *x, const uint8_t *msg, uint8_t *payload, size_t n);

/* Gives the keys of the two directions and, if hash is not NULL, the handshake hash (a channel
 * binding, not a secret). Wipes the object. Asserts that the second message succeeded. */
void noise_split(struct noise *x, uint8_t tx[static 32], uint8_t rx[static 32], uint8_t *hash);

#endif
