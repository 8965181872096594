/* SPDX-License-Identifier: ISC */
#ifndef AUTH_HANDSHAKE_H
#define AUTH_HANDSHAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "auth/keys.h"
#include "auth/noise.h"
#include "auth/session.h"
#include "core/err.h"

/* The handshake of a data connection: three messages of fixed size, numbers
 * little-endian.
 *
 *   hello 32   server   "PSS1", version u8, suites u8 (bit n: suite n), 0 u16,
 *                       epoch hint u64, challenge[16]
 *   msg1 176   client   "PSC1", version u8, suite u8, 0 u16, e[32],
 *                       sealed static key[48], sealed client info[72], mac1[16]
 *   msg2 96    server   "PSS2", version u8, status u8, 0 u16, e[32],
 *                       sealed server info[56]
 *
 * mac1 = BLAKE2b-128 over hello || msg1[0..159] under the key
 *        BLAKE2b-256("ps-mac1" || psk || server public key).
 * The challenge makes it fresh, so a stranger or a replay costs the server one
 * hash and never an X25519 product.
 *
 * e, the sealed keys and infos are the messages of Noise (noise.h) with the
 * prologue hello || msg1[0..7]. Before the second message both sides mix
 * msg2[0..7] into the handshake hash, which is the associated data of the
 * sealed server info. So every clear byte of all three is authenticated; an
 * edited suite list or status makes the handshake fail. */
#define HS_HELLO_BYTES   32
#define HS_MSG1_BYTES    176
#define HS_MSG2_BYTES    96
#define HS_CLUSTER_BYTES 16

enum hs_status {
#define HS_STATUS(id, number, error, cause, text) HS_##id = number,
#include "auth/hs_status.def"
#undef HS_STATUS
};
/* The sentence of hs_status.def for messages. */
const char *handshake_status_text(enum hs_status s);

/* The client's description of itself. `role` is the role that it asks for; the role that counts is
 * the role of its key in the keyring. */
struct hs_client_info {
	uint8_t cluster[HS_CLUSTER_BYTES];
	uint64_t incarnation;
	uint32_t rank;
	uint8_t role;
};

struct hs_server_info {
	uint64_t incarnation;
	/* epoch: of the layout; in an all-reduce, of the ring */
	uint32_t epoch, generation, max_record, lifetime_seconds;
	uint64_t credit;
	bool shares; /* offers shared memory to clients on a Unix socket */
};

/* A key and a cluster secret that a server accepts. It has two during a rotation; mac1 shows which
 * one a client uses. */
struct hs_identity {
	struct key_pair key;
	uint8_t psk[KEY_BYTES];
	uint8_t mac1_key[32];
};
/* Derives mac1_key. Wipe the identity when it is dropped. */
void handshake_identity_init(struct hs_identity *id, const struct key_pair *key,
    const uint8_t psk[static KEY_BYTES]);
void handshake_identity_wipe(struct hs_identity *id);

/* The server's side of one handshake: hello, read1, look the peer up, write2. Objects are plain
 * and hold no pointers; wipe them when they are dropped. One thread at a time. noise.dh_count
 * counts X25519 products, so that a test can check that there were none. */
struct hs_server {
	uint8_t hello[HS_HELLO_BYTES];
	enum suite suite;
	struct noise noise;
};
struct hs_peer {
	uint8_t pk[KEY_BYTES];
	enum suite suite;
	size_t identity; /* index of the identity that the client used */
	struct hs_client_info info;
};
/* Draw a challenge and write the hello. suites: bit n for each suite number n that is accepted. */
void handshake_server_hello(struct hs_server *hs, uint8_t suites, uint64_t epoch_hint,
    uint8_t hello[static HS_HELLO_BYTES]);
/* ERR_PROTO: not this protocol, or not this version. ERR_AUTH: mac1 or a seal
 * is wrong, or a point of low order. On failure close without an answer. */
enum err_code handshake_server_read1(struct hs_server *hs, const struct hs_identity *ids,
    size_t nids, const uint8_t msg1[static HS_MSG1_BYTES], struct hs_peer *peer, struct err *e);
/* With HS_OK, s becomes the session. It counts as live only when the client's first record has
 * been opened, because a holder of the server's stolen key could have made msg1 alone. With any
 * other status the client learns the reason, info may be NULL, and s is not touched (may be
 * NULL): send msg2, then close. */
enum err_code handshake_server_write2(struct hs_server *hs, enum hs_status status,
    const struct hs_server_info *info, uint8_t msg2[static HS_MSG2_BYTES], struct session *s,
    struct err *e);
void handshake_server_wipe(struct hs_server *hs);

/* The client's side of one handshake: handshake_client_read_hello, then the
 * functions that write message 1 and read message 2. */
struct hs_client {
	uint8_t hello[HS_HELLO_BYTES];
	enum suite suite;
	struct noise noise;
};
/* Gives the offers of the hello, which are not authenticated before read2. */
enum err_code handshake_client_read_hello(struct hs_client *hc,
    const uint8_t hello[static HS_HELLO_BYTES], uint8_t *suites, uint64_t *epoch_hint,
    struct err *e);
/* ERR_CONFIG: the server does not offer the suite; ERR_UNSUPPORTED: this machine lacks it;
 * ERR_AUTH: server_pk is not a usable public key. */
enum err_code handshake_client_write1(struct hs_client *hc, const struct key_pair *self,
    const uint8_t server_pk[static KEY_BYTES], const uint8_t psk[static KEY_BYTES],
    enum suite suite, const struct hs_client_info *info, uint8_t msg1[static HS_MSG1_BYTES],
    struct err *e);
/* ERR_AUTH: msg2 was not written by the holder of server_pk and psk. A refusal by the server
 * gives the error of its status (hs_status.def). */
enum err_code handshake_client_read2(struct hs_client *hc, const uint8_t msg2[static HS_MSG2_BYTES],
    struct hs_server_info *info, struct session *s, struct err *e);
void handshake_client_wipe(struct hs_client *hc);

#endif
