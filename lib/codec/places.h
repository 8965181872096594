#ifndef CODEC_PLACES_H
#define CODEC_PLACES_H

#include <stddef.h>
#include <stdint.h>

/* Ascending places below n, as bytes: the first as it is, each other as its distance to
 * the one before, less one; 7 bits a byte from the lowest on (LEB128, the shortest form
 * only). */

/* Bytes that one takes at most. */
#define PLACE_BYTES 5u

/* The end of what was written. */
static inline uint8_t *place_put(uint8_t *p, uint32_t gap)
{
	for (; gap >= 0x80; gap >>= 7)
		*p++ = (uint8_t)(gap | 0x80);
	*p++ = (uint8_t)gap;
	return p;
}

/* The next place, where those before were below `next`; n when there is none that is
 * well-formed. */
static inline size_t place_get(const uint8_t **p, const uint8_t *end, size_t next, size_t n)
{
	uint64_t gap = 0;

	/* Most are near. */
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
