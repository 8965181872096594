/* SPDX-License-Identifier: ISC */
#include "term/bars.h"

#include <math.h>

/* Quadratic in n, which is a handful of shares. */
void bars_split(const double *share, size_t n, unsigned width, unsigned *cells)
{
	double sum = 0;
	unsigned given = 0, all;

	for (size_t i = 0; i < n; i++) {
		sum += share[i];
		cells[i] = (unsigned)(share[i] * width);
		given += cells[i];
	}
	all = (unsigned)lround(sum * width);
	for (; given < all; given++) {
		size_t most = 0;

		for (size_t i = 1; i < n; i++)
			if (share[i] * width - cells[i] > share[most] * width - cells[most])
				most = i;
		cells[most]++;
	}
}

/* Each cell is three bytes of UTF-8: U+2588 and the seven after it are blocks of 8 to 1 eighths. */
unsigned bars_draw(double fraction, unsigned width, bool unicode, char *out)
{
	double bounded = fraction > 0 ? fmin(fraction, 1) : 0;
	unsigned steps = unicode ? 8 : 1, parts = (unsigned)lround(bounded * width * steps),
	         used = 0;

	if (!parts && bounded > 0 && width)
		parts = 1;
	for (; parts; used++) {
		unsigned n = parts < steps ? parts : steps;

		if (unicode) {
			/* U+2588 is a whole block, U+258F an eighth of one. */
			*out++ = (char)0xe2;
			*out++ = (char)0x96;
			*out++ = (char)(0x90 - n);
		} else {
			*out++ = '#';
		}
		parts -= n;
	}
	*out = '\0';
	return used;
}
