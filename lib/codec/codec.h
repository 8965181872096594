#ifndef CODEC_CODEC_H
#define CODEC_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A way to write n float32 values as bytes.  The number travels in the record
 * header; the wire does not look inside.  All functions are pure and may run
 * on any thread. */
struct codec {
	const char *name, *help;
	uint16_t id;
	/* Bytes that n values take at most, for whoever reserves room. */
	size_t (*bound)(size_t n);
	size_t (*encode)(const float *x, size_t n, uint8_t *out);
	/* Are len bytes a whole, well-formed encoding of n values that are finite
	 * and small enough to be summed (vec_all_bounded)? */
	enum codec_check { CODEC_GOOD, CODEC_MALFORMED, CODEC_UNBOUNDED } (*check)(const uint8_t *p, size_t len, size_t n);
	/* sum += weight * decoded, straight from the bytes; checked before. */
	void (*add)(const uint8_t *p, size_t len, size_t n, float weight, float *sum);
	/* The values in place when the encoding is an aligned float array, else
	 * NULL: then decode. */
	const float *(*view)(const uint8_t *p, size_t n);
	void (*decode)(const uint8_t *p, size_t len, size_t n, float *out);
};

const struct codec *codec_by_id(uint16_t id);           /* NULL when unknown */
const struct codec *codec_by_name(const char *name);
const struct codec *codec_at(size_t i);                 /* NULL at the end */

#endif
