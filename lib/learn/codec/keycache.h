/* SPDX-License-Identifier: ISC */
#ifndef CODEC_KEYCACHE_H
#define CODEC_KEYCACHE_H

#include "codec/keys.h"

/* Remembers lists of row ids that one direction of a session has sent, so that a list can be sent
 * again by its name. The least recently used lists are dropped when all need more than
 * KEYCACHE_BYTES. Both ends keep such a cache and see the same lists in the same order, so they
 * agree on its contents, and a sender knows when a name suffices. One thread owns it. */
#define KEYCACHE_BYTES (16u << 20)

struct keycache;
/* An empty cache; without memory the process aborts. keycache_free also frees the lists. */
struct keycache *keycache_new(void);
void keycache_free(struct keycache *c);
/* Is the list known? It becomes the most recently used one; *ids is its n ids, or NULL when they
 * were not stored. */
bool keycache_find(struct keycache *c, const uint8_t name[static KEYS_NAME], size_t n,
    const uint64_t **ids);
/* Adds an unknown list of at most KEYS_KEEP_MAX ids; takes ownership of ids, which may be NULL. */
void keycache_put(struct keycache *c, const uint8_t name[static KEYS_NAME], size_t n,
    uint64_t *ids);
/* The other end does not know the list any more: forget it. */
void keycache_forget(struct keycache *c, const uint8_t name[static KEYS_NAME]);

#endif
