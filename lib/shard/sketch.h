#ifndef SHARD_SKETCH_H
#define SHARD_SKETCH_H

#include <stddef.h>
#include <stdint.h>

/* How often ids were seen, roughly, in a few bytes for each: a count-min sketch (Cormode and Muthukrishnan,
 * 2005) with conservative update (Estan and Varghese, 2002), whose four counters of an id lie in one line of the
 * cache.  It never says less than was seen, up to SKETCH_MOST; the more ids share its lines the more often it says
 * more: of 16 a line that were seen once each, 1 in 6 new ones is taken for seen, and 1 in 200 for seen twice.
 * What it says depends on the calls alone, in their order. */
struct sketch {
	uint32_t lines;                 /* a power of two; 0: nothing was seen */
	uint8_t (*line)[64];
};

#define SKETCH_MOST 255u

void sketch_release(struct sketch *s);
/* Seen once more: how often that is by now.  bytes: what it takes, from the first on. */
unsigned sketch_add(struct sketch *s, uint64_t id, uint64_t bytes);
/* Halve all counts. */
void sketch_halve(struct sketch *s);
size_t sketch_bytes(const struct sketch *s);

/* As words, to be sent and saved: how many, and these.  sketch_get takes those of a released one from n
 * that there are, and says how many they were; 0: they are none. */
size_t sketch_words(const struct sketch *s);
void sketch_put(const struct sketch *s, uint64_t *out);
size_t sketch_get(struct sketch *s, const uint64_t *in, size_t n);

#endif
