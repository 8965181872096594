#ifndef CODEC_BLOCK_H
#define CODEC_BLOCK_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/endian.h"
#include "kern/vec.h"

/* What codecs share that scale runs of values, each run by its own. */

static inline size_t block_len(size_t n, size_t at, size_t block)
{
	return n - at < block ? n - at : block;
}

/* How many of n values such a fraction is: one at least, where there are any. */
static inline size_t fraction_of(double fraction, size_t n)
{
	size_t k = (size_t)ceil(fraction * (double)n);

	return k < 1 ? n > 0 : k > n ? n : k;
}

static inline void put_float(uint8_t *p, float x)
{
	memcpy(p, &x, sizeof x);
}

static inline float get_float(const uint8_t *p)
{
	float x;

	memcpy(&x, p, sizeof x);
	return x;
}

#endif
