/* SPDX-License-Identifier: ISC */
#ifndef AUTH_SESSION_H
#define AUTH_SESSION_H

#include <sodium.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "auth/sealer.h"
#include "auth/tag.h"
#include "core/err.h"

/* Record protection after the handshake.
 *
 * Each direction has a chain key, a record key and a counter. The record key
 * is crypto_kdf(chain, 1); after every 2^16 records both sides, without a
 * message, replace chain by crypto_kdf(chain, 2) and take the next record key.
 * Every tag spends one nonce, 4 zero bytes and the counter as 8 little-endian
 * bytes; the counter starts at 0 and runs on through re-keying, so no (key,
 * nonce) pair repeats. The receiver takes the next counter alone: a replayed,
 * dropped, swapped or reflected record fails.
 *
 * A header is the AEAD's associated data with an empty message. A payload is
 * the message of a sealed suite, and the associated data of a clear one. That
 * a payload belongs to its header needs no other tie: it has the next counter,
 * and the verified header says whether a payload follows. */
enum suite {
#define SUITE(id, name, number, sealed, help) SUITE_##id = number,
#include "auth/suite.def"
#undef SUITE
};

const char *suite_name(enum suite s); /* "?" when unknown */
bool suite_parse(const char *name, enum suite *out);
/* Does the suite encrypt payloads? The others only authenticate them. */
bool suite_is_sealed(enum suite s);
/* The suite is known and this processor supports it. Call key_init first. */
bool suite_available(enum suite s);
/* Parse a suite's name: "auto" (clear between processes of one host, sealed to others), or one
 * for both. ERR_CONFIG: not available here. */
enum err_code suites_choose(const char *name, enum suite *local, enum suite *remote, struct err *e);
/* Bit n for every suite number n that is available here. */
uint8_t suite_mask(void);

#define SESSION_MUST_CHECK    __attribute__((warn_unused_result))
#define SESSION_HEADER_BYTES  64
#define SESSION_TAG_BYTES     16
#define SESSION_EPOCH_RECORDS UINT32_C(65536)
#define SESSION_COUNTER_END   (UINT64_C(1) << 48)

struct session_dir {
	crypto_aead_aes256gcm_state aes; /* key schedule, for SUITE_AES256GCM */
	uint8_t chain[32], key[32];
	uint64_t counter;
	uint32_t records;        /* since the last change of keys */
	struct tag_maker *maker; /* tags of clear payloads; NULL before the first */
	struct sealer *sealer;   /* large sealed payloads; NULL before the first */
	bool dead;               /* a tag was wrong: nothing more is accepted */
};

/* Plain, to be embedded (16-byte aligned, as malloc and mem_alloc give it). The two directions
 * share nothing: one thread may seal while another opens, but each direction is used by one
 * thread at a time. Never copy a session or carry it across fork, which would repeat nonces. */
struct session {
	struct session_dir tx, rx;
	enum suite suite;
	bool sealed; /* payloads are encrypted, so that opening and sealing change them */
};

/* tx, rx: the two keys of noise_split, from this side. ERR_UNSUPPORTED when
 * the suite is not available here. */
enum err_code session_init(struct session *s, enum suite suite, const uint8_t tx[static 32],
    const uint8_t rx[static 32], struct err *e);
/* Overwrites all keys and frees tag makers and sealers. The session may not be used any more. */
void session_wipe(struct session *s);

/* False, with nothing written to tag, when the counter has reached its end. */
bool session_seal_header(struct session *s, const uint8_t hdr[static SESSION_HEADER_BYTES],
    uint8_t tag[static SESSION_TAG_BYTES]) SESSION_MUST_CHECK;
/* Sealed suites write n bytes of cipher text to out, which may be in. Clear suites only read in;
 * out must then be NULL or in, and is not written. */
bool session_seal_payload(struct session *s, const uint8_t *in, size_t n, uint8_t *out,
    uint8_t tag[static SESSION_TAG_BYTES]) SESSION_MUST_CHECK;

/* False when the tag is wrong (or the counter at its end): close the connection. All later calls
 * fail, too. A sealed payload is opened in place; on failure the data must not be used. */
bool session_open_header(struct session *s, const uint8_t hdr[static SESSION_HEADER_BYTES],
    const uint8_t tag[static SESSION_TAG_BYTES]) SESSION_MUST_CHECK;
/* n is the length that the verified header states. */
bool session_open_payload(struct session *s, uint8_t *data, size_t n,
    const uint8_t tag[static SESSION_TAG_BYTES]) SESSION_MUST_CHECK;

/* Call after each complete record (header, and payload if it has one), on both sides, so that
 * both change keys at the same place. */
void session_next_tx(struct session *s);
/* Counts one received record, and replaces the keys after SESSION_EPOCH_RECORDS of them. */
void session_next_rx(struct session *s);

/* True when there is no room for another whole record (two nonces) below counter 2^48, in either
 * direction: close the connection at the end of a message. */
bool session_exhausted(const struct session *s);

#endif
