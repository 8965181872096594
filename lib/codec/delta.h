#ifndef CODEC_DELTA_H
#define CODEC_DELTA_H

#include "codec/codec.h"

/* Some of n rows of so many values by their places: u32 k, u32 the bytes of the places
 * (places.h), the places, zeroes up to a multiple of 4, then the k * width values by a
 * codec.  All functions are pure. */

/* Bytes that k of n rows take at most. */
size_t delta_bound(const struct codec *c, size_t k, size_t n, size_t width);
/* place: ascending.  Returns how many bytes. */
size_t delta_encode(const struct codec *c, const uint32_t *place, const float *x, size_t k, size_t width, uint8_t *out);
/* As codec.check; the payload is aligned as a float is. */
enum codec_check delta_check(const struct codec *c, const uint8_t *p, size_t len, size_t n, size_t width);
/* Put the rows in their places of x: the i-th of n is row pos[i] there; NULL: row i.
 * Checked before. */
void delta_apply(const struct codec *c, const uint8_t *p, size_t len, size_t n, size_t width, const uint32_t *pos, float *x);

#endif
