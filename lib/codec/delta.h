#ifndef CODEC_DELTA_H
#define CODEC_DELTA_H

#include "codec/codec.h"

/* Some of n values (n at most 65536) by their places: u32 k, u32 the bytes of the places
 * (places.h), the places, zeroes up to a multiple of 4, then the k values by a codec.
 * All functions are pure. */

/* Bytes that k of them take at most. */
size_t delta_bound(const struct codec *c, size_t k);
/* place: ascending.  Returns how many bytes. */
size_t delta_encode(const struct codec *c, const uint16_t *place, const float *x, size_t k, uint8_t *out);
/* As codec.check; the payload is aligned as a float is. */
enum codec_check delta_check(const struct codec *c, const uint8_t *p, size_t len, size_t n);
/* Put the values in their places of x; checked before. */
void delta_apply(const struct codec *c, const uint8_t *p, size_t len, size_t n, float *x);

#endif
