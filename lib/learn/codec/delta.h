/* SPDX-License-Identifier: ISC */
#ifndef CODEC_DELTA_H
#define CODEC_DELTA_H

#include "codec/codec.h"

/* Encodes some of n rows, each of `width` values, with their places: u32 k, u32 the number of bytes
 * of the places (places.h), the places, zeroes up to a multiple of 4, then the k * width values by
 * a codec. All functions are pure. */

/* Most bytes that k of n rows may take. */
size_t delta_bound(const struct codec *c, size_t k, size_t n, size_t width);
/* place: ascending. Returns the number of bytes. */
size_t delta_encode(const struct codec *c, const uint32_t *place, const float *x, size_t k,
    size_t width, uint8_t *out);
/* As codec.check; the payload is aligned as a float is. */
enum codec_check delta_check(const struct codec *c, const uint8_t *p, size_t len, size_t n,
    size_t width);
/* Writes the rows to their places in x: row i of n is row pos[i] there; pos NULL: row i. The
 * encoding must have been checked. */
void delta_apply(const struct codec *c, const uint8_t *p, size_t len, size_t n, size_t width,
    const uint32_t *pos, float *x);

#endif
