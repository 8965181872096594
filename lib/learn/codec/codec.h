/* SPDX-License-Identifier: ISC */
#ifndef CODEC_CODEC_H
#define CODEC_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/rng.h"

/* The answer of a codec's `check`: CODEC_BAD_VALUE means well-formed, with a value that is not
 * finite or too large to be summed. */
enum codec_check { CODEC_GOOD, CODEC_MALFORMED, CODEC_BAD_VALUE };

/* A codec writes n float32 values as bytes. Its number travels in the record header; the bytes
 * contain everything else that a decoder needs. codec.def lists the codecs. All functions are pure
 * and may run on any thread. */
struct codec {
	const char *name, *help;
	uint16_t id;
	bool lossy;
	bool pulls; /* precise enough for parameters, too */
	/* the sender applies momentum (client_encode.c), not the server */
	bool momentum;
	/* The argument after the name: none, a fraction of the values (above 0, at most 1), or a
	 * number of levels from 1 to 127. */
	enum codec_arg { CODEC_PLAIN, CODEC_FRACTION, CODEC_LEVELS } takes;
	/* Most bytes that n values may take, for reserving room. */
	size_t (*bound)(double arg, size_t n);
	/* Encodes n values and returns the number of bytes. rng: for codecs that round at random.
	 * Values that are not finite must remain so. */
	size_t (*encode)(double arg, struct rng *rng, const float *x, size_t n, uint8_t *out);
	/* Are these len bytes a complete, well-formed encoding of n values that are finite and
	 * small enough to be summed (vec_all_bounded)? Must be safe for any bytes. */
	enum codec_check (*check)(const uint8_t *p, size_t len, size_t n);
	/* sum += weight * decoded values, straight from the bytes, which `check` has accepted. */
	void (*add)(const uint8_t *p, size_t len, size_t n, float weight, float *sum);
	/* The values where they lie, when the encoding is an aligned float array; else NULL, and
	 * they must be decoded. A codec may leave this pointer NULL. */
	const float *(*raw_values)(const uint8_t *p, size_t n);
};

/* A codec with its argument, as "topk:0.01"; arg is 0 without one. */
struct codec_spec {
	const struct codec *codec;
	double arg;
};

/* Find a codec by its number on the wire, its name without argument, or its position in codec.def.
 * The result is constant. NULL when there is none. */
const struct codec *codec_by_id(uint16_t id); /* NULL when unknown */
const struct codec *codec_by_name(const char *name);
const struct codec *codec_at(size_t i); /* NULL at the end */
/* ERR_NOTFOUND for an unknown name, ERR_CONFIG for a wrong argument. */
enum err_code codec_parse(const char *text, struct codec_spec *out, struct err *e);

/* Decodes a checked encoding. Raw values are not copied: the result points to them, and out is left
 * untouched. Else they are written to out (n floats). The result is valid as long as p and out
 * are. */
const float *codec_decode(const struct codec *c, const uint8_t *p, size_t len, size_t n,
    float *out);

#endif
