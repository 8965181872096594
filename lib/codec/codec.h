#ifndef CODEC_CODEC_H
#define CODEC_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/rng.h"

/* A way to write n float32 values as bytes.  The number travels in the record
 * header; the wire does not look inside, and the bytes say all that a decoder must
 * know.  All functions are pure and may run on any thread. */
struct codec {
	const char *name, *help;
	uint16_t id;
	bool lossy;
	bool pulls;                     /* near enough for parameters, too */
	bool momentum;                  /* the sender applies it (client_encode.c), not the server */
	/* What follows the name: nothing, a fraction of the values above 0 and at most 1,
	 * or a number of levels from 1 to 127. */
	enum codec_arg { CODEC_PLAIN, CODEC_FRACTION, CODEC_LEVELS } takes;
	/* Bytes that n values take at most, for whoever reserves room. */
	size_t (*bound)(double arg, size_t n);
	/* Returns how many.  rng: for those that are random.  What is not finite stays so. */
	size_t (*encode)(double arg, struct rng *rng, const float *x, size_t n, uint8_t *out);
	/* Are len bytes a whole, well-formed encoding of n values that are finite
	 * and small enough to be summed (vec_all_bounded)? */
	enum codec_check { CODEC_GOOD, CODEC_MALFORMED, CODEC_UNBOUNDED } (*check)(const uint8_t *p, size_t len, size_t n);
	/* sum += weight * decoded, straight from the bytes; checked before. */
	void (*add)(const uint8_t *p, size_t len, size_t n, float weight, float *sum);
	/* The values in place when the encoding is an aligned float array, else
	 * NULL: then decode.  NULL: it never is. */
	const float *(*view)(const uint8_t *p, size_t n);
};

/* "topk:0.01": a codec and what follows its name, else 0. */
struct codec_spec {
	const struct codec *codec;
	double arg;
};

const struct codec *codec_by_id(uint16_t id);           /* NULL when unknown */
const struct codec *codec_by_name(const char *name);
const struct codec *codec_at(size_t i);                 /* NULL at the end */
/* ERR_NOTFOUND for an unknown name, ERR_CONFIG for a wrong argument. */
enum err_code codec_parse(const char *text, struct codec_spec *out, struct err *e);

/* The values of an encoding that has been checked: in place, or in out (n floats). */
const float *codec_values(const struct codec *c, const uint8_t *p, size_t len, size_t n, float *out);

#endif
