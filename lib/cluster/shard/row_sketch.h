/* SPDX-License-Identifier: ISC */
#ifndef SHARD_ROW_SKETCH_H
#define SHARD_ROW_SKETCH_H

#include <stddef.h>
#include <stdint.h>

/* Counts approximately how often ids were seen: a count-min sketch (Cormode and Muthukrishnan,
 * 2005) with conservative update (Estan and Varghese, 2002). The four counters of an id lie in one
 * cache line. A count is never too low, up to ROW_SKETCH_COUNT_MAX. The more ids share a line the
 * more often it is too high: with 16 ids a line that were seen once each, 1 in 6 new ids counts as
 * seen, and 1 in 200 as seen twice. Counts depend only on the calls and their order, so replicas
 * agree. No locks: the partition's lock covers it. */
struct row_sketch {
	uint32_t lines; /* a power of two; 0: nothing was seen, no memory is used */
	uint8_t (*line)[64];
};

#define ROW_SKETCH_COUNT_MAX 255u

/* Frees the counters; the sketch is empty then. */
void row_sketch_release(struct row_sketch *s);
/* Counts the id once more and returns its count. bytes: the memory of the sketch, allocated by the
 * first call. */
unsigned row_sketch_add(struct row_sketch *s, uint64_t id, uint64_t bytes);
/* Halves all counts. */
void row_sketch_halve(struct row_sketch *s);
/* Bytes that the counters take now. */
size_t row_sketch_bytes(const struct row_sketch *s);

/* Encoding as words, for state transfers and checkpoints: their number; writing them; reading them
 * from the first of n words into an empty sketch. row_sketch_get returns how many words they were,
 * 0 when they are malformed. */
size_t row_sketch_words(const struct row_sketch *s);
/* Writes row_sketch_words(s) words to out, which has room for them. */
void row_sketch_put(const struct row_sketch *s, uint64_t *out);
/* Malformed words allocate nothing. A sketch that nothing was counted in takes one word. */
size_t row_sketch_get(struct row_sketch *s, const uint64_t *in, size_t n);

#endif
