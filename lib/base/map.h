#ifndef BASE_MAP_H
#define BASE_MAP_H

#include <stddef.h>

/* Name -> pointer, for set-up and lookups off the hot path (over uthash).  The
 * map copies names and owns no values.  Not thread-safe. */
struct map;

struct map *map_new(void);
void map_free(struct map *m);
void map_put(struct map *m, const char *name, void *value);
void *map_get(const struct map *m, const char *name);      /* NULL when absent */
void map_del(struct map *m, const char *name);
size_t map_count(const struct map *m);
/* Visit all in insertion order. */
void map_each(const struct map *m, void (*fn)(void *ctx, const char *name, void *value), void *ctx);

#endif
