#ifndef CODEC_KEYCACHE_H
#define CODEC_KEYCACHE_H

#include "codec/keys.h"

/* The lists of row ids that one direction of a session has kept, the last used first;
 * what was used longest ago goes when they are more than KEYCACHE_BYTES.  Both ends keep
 * one, and tell the same of it, for they see the same lists in the same order: so a
 * sender knows what it need only name.  One thread owns it. */
#define KEYCACHE_BYTES (16u << 20)

struct keycache;
struct keycache *keycache_new(void);
void keycache_free(struct keycache *c);
/* Is it there?  Then it was used last; *ids is its n ids, or NULL when they were not
 * given. */
bool keycache_find(struct keycache *c, const uint8_t name[static KEYS_NAME], size_t n, const uint64_t **ids);
/* One that is not there, of at most KEYS_KEEP_MAX ids; takes ids, which may be NULL. */
void keycache_put(struct keycache *c, const uint8_t name[static KEYS_NAME], size_t n, uint64_t *ids);
/* The other end has it no longer. */
void keycache_forget(struct keycache *c, const uint8_t name[static KEYS_NAME]);

#endif
