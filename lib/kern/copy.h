#ifndef KERN_COPY_H
#define KERN_COPY_H

#include <stddef.h>
#include <string.h>

/* n floats from x to y, which do not overlap: for rows, of which there are many and each
 * of few, all of one length.  memcpy() looks anew each time how many they are. */
static inline void copy_floats(float *restrict y, const float *restrict x, size_t n)
{
	if (n > 64) {
		memcpy(y, x, n * sizeof *y);
		return;
	}
	for (; n >= 8; n -= 8, x += 8, y += 8)
		memcpy(y, x, 8 * sizeof *y);
	if (n & 4) {
		memcpy(y, x, 4 * sizeof *y);
		x += 4;
		y += 4;
	}
	if (n & 2) {
		memcpy(y, x, 2 * sizeof *y);
		x += 2;
		y += 2;
	}
	if (n & 1)
		*y = *x;
}

#endif
