/* SPDX-License-Identifier: ISC */
#ifndef AUTH_REPLAY_H
#define AUTH_REPLAY_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

/* The HTTP server's protection against replayed requests (session.h has the protection of records):
 * it remembers the nonces of the last two minutes, and a boot id that every signed request must
 * name, so that requests from before a restart are void. NOT thread-safe.
 *
 * Times are wall-clock seconds, given by the caller. When the clock goes back to a time whose
 * nonces are already forgotten, the boot id changes as at a restart; clients then repeat their
 * request with the new one. */
#define REPLAY_WINDOW      60 /* a request's time may differ by this many seconds */
#define REPLAY_NONCE_BYTES 16
#define REPLAY_BOOT_BYTES  16

struct replay;

/* Room for `capacity` (1 .. 2^24) nonces of about 32 bytes, allocated here. One key may use as
 * much room as it leaves free: a single key half of the capacity, which is the number of
 * requests that it may make in 121 s. */
struct replay *replay_new(size_t capacity);
/* Forgets all nonces. NULL is fine. */
void replay_free(struct replay *r);

/* The present boot id. */
const uint8_t *replay_boot(const struct replay *r);

/* Note a request of key pk, made at ts, whose signature was right. ERR_OK once for each (pk,
 * nonce); ERR_AUTH for a replay, or when ts is too far off (the message says by how much the clocks
 * differ); ERR_STALE when boot is not the present boot id; ERR_LIMIT when the key has used up its
 * room. */
enum err_code replay_check(struct replay *r, const uint8_t pk[static 32],
    const uint8_t nonce[static REPLAY_NONCE_BYTES], const uint8_t boot[static REPLAY_BOOT_BYTES],
    int64_t ts, int64_t now, struct err *e);

#endif
