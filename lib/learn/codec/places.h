/* SPDX-License-Identifier: ISC */
#ifndef CODEC_PLACES_H
#define CODEC_PLACES_H

#include <stddef.h>
#include <stdint.h>

/* Encodes ascending places below n as bytes: the first one as it is, each other one as its distance
 * to the previous one, minus 1. Numbers are LEB128, 7 bits a byte from the lowest on, in the
 * shortest form only. Pure. */

/* Most bytes of a place. */
#define PLACE_BYTES 5u

/* Writes a gap; returns the end of it. */
static inline uint8_t *places_put(uint8_t *p, uint32_t gap)
{
	for (; gap >= 0x80; gap >>= 7)
		*p++ = (uint8_t)(gap | 0x80);
	*p++ = (uint8_t)gap;
	return p;
}

/* Reads the next place, when the previous ones were below `next`; n when it is malformed or
 * missing. */
static inline size_t places_get(const uint8_t **p, const uint8_t *end, size_t next, size_t n)
{
	uint64_t gap = 0;

	/* Fast path: most gaps are small. */
	if (*p < end && **p < 0x80) {
		gap = *(*p)++;
		return gap >= n - next ? n : next + (size_t)gap;
	}
	for (unsigned shift = 0; *p < end && shift < 35; shift += 7) {
		uint8_t b = *(*p)++;

		gap |= (uint64_t)(b & 0x7f) << shift;
		if (b < 0x80)
			return (b == 0 && shift > 0) || gap >= n - next ? n : next + (size_t)gap;
	}
	return n;
}

#endif
