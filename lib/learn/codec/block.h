/* SPDX-License-Identifier: ISC */
#ifndef CODEC_BLOCK_H
#define CODEC_BLOCK_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/endian.h"
#include "math/vec.h"

/* Helpers of codecs that scale blocks of values, each block by a scale of its own. Pure. */

/* Length of the block at `at`; the last one may be shorter. */
static inline size_t block_len(size_t n, size_t at, size_t block)
{
	return n - at < block ? n - at : block;
}

/* Number of values in a fraction of n: at least one, if n is not 0. */
static inline size_t block_fraction(double fraction, size_t n)
{
	size_t k = (size_t)ceil(fraction * (double)n);

	return k < 1 ? n > 0 : k > n ? n : k;
}

/* A scale is stored as the four bytes of its float, little-endian, at any alignment. */
static inline void block_put_float(uint8_t *p, float x)
{
	memcpy(p, &x, sizeof x);
}

static inline float block_get_float(const uint8_t *p)
{
	float x;

	memcpy(&x, p, sizeof x);
	return x;
}

#endif
