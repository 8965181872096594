#ifndef SERVER_ADAPT_H
#define SERVER_ADAPT_H

#include "server/host.h"

/* The key `adapt`: settings that the coordinator changes by itself, by what workers tell in
 * their heartbeats.  With the host's lock held. */
struct adapt;

struct adapt *adapt_new(void);
void adapt_free(struct adapt *a);
/* Now and then: is there something to change?  set(h, key, value) has it done. */
void adapt_tick(struct adapt *a, struct host *h, int64_t now,
    bool (*set)(struct host *h, const char *key, const char *value));

#endif
