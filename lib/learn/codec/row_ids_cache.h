/* SPDX-License-Identifier: ISC */
#ifndef CODEC_ROW_IDS_CACHE_H
#define CODEC_ROW_IDS_CACHE_H

#include "codec/row_ids.h"

/* Remembers lists of row ids that one direction of a session has sent, so that a list can be sent
 * again by its name. The least recently used lists are dropped when all need more than
 * ROW_IDS_CACHE_BYTES. Both ends keep such a cache and see the same lists in the same order, so
 * they agree on its contents, and a sender knows when a name suffices. One thread owns it. */
#define ROW_IDS_CACHE_BYTES (16u << 20)

struct row_ids_cache;
/* An empty cache; without memory the process aborts. row_ids_cache_free also frees the lists. */
struct row_ids_cache *row_ids_cache_new(void);
void row_ids_cache_free(struct row_ids_cache *c);
/* Is the list known? It becomes the most recently used one; *ids is its n ids, or NULL when they
 * were not stored. */
bool row_ids_cache_find(struct row_ids_cache *c, const uint8_t name[static ROW_IDS_NAME], size_t n,
    const uint64_t **ids);
/* Adds an unknown list of at most ROW_IDS_KEEP_MAX ids; takes ownership of ids, which may be
 * NULL. */
void row_ids_cache_put(struct row_ids_cache *c, const uint8_t name[static ROW_IDS_NAME], size_t n,
    uint64_t *ids);
/* The other end does not know the list any more: forget it. */
void row_ids_cache_forget(struct row_ids_cache *c, const uint8_t name[static ROW_IDS_NAME]);

#endif
