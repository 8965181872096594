#ifndef SERVER_KEYS_H
#define SERVER_KEYS_H

#include "codec/keycache.h"
#include "server/state.h"

enum keys_found { KEYS_FOUND, KEYS_MISSED, KEYS_WRONG };

/* The row ids at the beginning of a record's body that has RECORD_KEYS, at most so many
 * of them: b->n ids, borrowed until the session's next, and b->whole bytes of the body.
 * KEYS_MISSED: they are only named, and not kept here; the sender has been told to
 * send them whole. */
enum keys_found peer_keys(struct peer *p, const struct record *r, const uint8_t *body, size_t len, size_t most,
    struct keys_block *b, const uint64_t **ids);
/* What the lane's thread compresses with. */
struct zip *lane_zip(struct lane *l);

#endif
