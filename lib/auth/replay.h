#ifndef AUTH_REPLAY_H
#define AUTH_REPLAY_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* What a server remembers against replayed requests: the nonces of the last two
 * minutes, and a boot id that every signed request must name, so that requests
 * from before a restart are void.  NOT thread-safe.
 *
 * Times are wall-clock seconds, given by the caller.  When the clock has gone
 * back to a time whose nonces are forgotten already, the boot id changes, as at
 * a restart: the client then asks again with the new one. */
#define REPLAY_WINDOW 60        /* a request may be this many seconds off, either way */
#define REPLAY_NONCE_BYTES 16
#define REPLAY_BOOT_BYTES 16

struct replay;

/* Room for `capacity` (1 .. 2^24) nonces, 32 bytes or so each, all allocated
 * here.  It is also the number of requests answered in 121 s. */
struct replay *replay_new(size_t capacity);
void replay_free(struct replay *r);

/* The present boot id. */
const uint8_t *replay_boot(const struct replay *r);

/* Take note of a request whose signature has verified, by key pk, made at ts:
 * ERR_OK once for each (pk, nonce); ERR_AUTH for a replay, or when ts is out of
 * the window (the message tells by how much the clocks differ); ERR_STALE when
 * boot is not the present one; ERR_LIMIT when the room is used up. */
enum err_code replay_check(struct replay *r, const uint8_t pk[static 32],
                           const uint8_t nonce[static REPLAY_NONCE_BYTES],
                           const uint8_t boot[static REPLAY_BOOT_BYTES], int64_t ts, int64_t now,
                           struct err *e);

#endif
