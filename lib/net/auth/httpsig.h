/* SPDX-License-Identifier: ISC */
#ifndef AUTH_HTTPSIG_H
#define AUTH_HTTPSIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "auth/keys.h"
#include "auth/replay.h"
#include "core/err.h"

/* Signed requests and answers of the HTTP control plane, off the Unix socket.
 *
 *   Authorization: PS1 key=<base64>, ts=<unix>, nonce=<hex>, boot=<hex>, sig=<hex>
 *   PS1-Signature: ts=<unix>, nonce=<hex>, boot=<hex>, sig=<hex>
 *
 * sig is HMAC-SHA512-256 over these lines, each ended by a newline, under a key of both parties'
 * X25519 keys and the cluster's secret (httpsig_key):
 *
 *   PS1 | request or answer | method | path | query | Host | hex of BLAKE2b-256
 *   of the body | ts | nonce | boot | status (0 in a request)
 *
 * An answer repeats method, path, query and Host of the request and has the request's nonce, which
 * is what makes it fresh; its ts only informs. A client that does not know the server's boot id yet
 * sends zeros; the server's signed refusal (ERR_STALE) then has it. */
#define HTTPSIG_TEXT   288                   /* room for the value of either header */
#define HTTPSIG_TS_MAX INT64_C(253402300799) /* end of the year 9999 */

struct httpsig_msg {
	const char *method, *path;
	const char *query; /* as sent, without "?"; NULL or "" for none */
	const char *host;  /* as sent in Host */
	const void *body;
	size_t body_len;
	int status; /* of an answer; 0 in a request */
};

struct httpsig_head {
	uint8_t pk[KEY_BYTES]; /* requests: the client's key, as it claims */
	int64_t ts;
	uint8_t nonce[REPLAY_NONCE_BYTES], boot[REPLAY_BOOT_BYTES], sig[32];
};

/* The key shared by two parties, the same on both sides. It is constant while their keys and the
 * psk are, so it may be cached. False: peer_pk is a point of low order. */
bool httpsig_key(uint8_t key[static 32], const struct key_pair *self,
    const uint8_t peer_pk[static KEY_BYTES], bool self_is_client,
    const uint8_t psk[static KEY_BYTES]);

/* Strict: only the form above, canonical numbers and lower-case hex. ERR_AUTH. */
enum err_code httpsig_parse_request(const char *value, struct httpsig_head *h, struct err *e);
enum err_code httpsig_parse_answer(const char *value, struct httpsig_head *h, struct err *e);

/* Client: draw a nonce and sign at time `now` (wall seconds) for the server's boot id. Fills in
 * h, to be kept for the answer, and the header's value. ERR_PROTO when a string of m has a
 * control byte. */
enum err_code httpsig_sign_request(const uint8_t key[static 32], const struct httpsig_msg *m,
    const uint8_t self_pk[static KEY_BYTES], const uint8_t boot[static REPLAY_BOOT_BYTES],
    int64_t now, struct httpsig_head *h, char value[static HTTPSIG_TEXT], struct err *e);
/* Server: check a request; h is parsed, and key is the one for h->pk. ERR_AUTH when the
 * signature is wrong; otherwise errors of replay_check. Success uses up the nonce. */
enum err_code httpsig_verify_request(const uint8_t key[static 32], const struct httpsig_msg *m,
    const struct httpsig_head *h, struct replay *replay, int64_t now, struct err *e);
/* Server: sign an answer; m is the request with the answer's body and status. */
enum err_code httpsig_sign_answer(const uint8_t key[static 32], const struct httpsig_msg *m,
    const struct httpsig_head *request, const uint8_t boot[static REPLAY_BOOT_BYTES], int64_t now,
    char value[static HTTPSIG_TEXT], struct err *e);
/* Client: check the answer to the request whose head is `request`. Fills in *answer with the
 * server's time and boot id. ERR_AUTH. */
enum err_code httpsig_verify_answer(const uint8_t key[static 32], const struct httpsig_msg *m,
    const struct httpsig_head *request, const char *value, struct httpsig_head *answer,
    struct err *e);

#endif
