/* SPDX-License-Identifier: ISC */
#ifndef CORE_MAP_H
#define CORE_MAP_H

#include <stddef.h>

/* A map from names to pointers (over uthash), for set-up and lookups off the hot path. It copies
 * names and does not own values. Not thread-safe. */
struct map;

/* Without memory the process aborts. map_free frees the names and leaves the values. */
struct map *map_new(void);
void map_free(struct map *m);
/* Sets the value of a name, also when it exists. */
void map_put(struct map *m, const char *name, void *value);
void *map_get(const struct map *m, const char *name); /* NULL when absent */

#endif
