/* SPDX-License-Identifier: ISC */
#ifndef OPTIM_ROW_SQUARE_H
#define OPTIM_ROW_SQUARE_H

#include <stddef.h>

#include "optim/optim.h"

/* The mean over a row of d values of G^2, where G = scale g + l2 w, for rules that keep one number
 * for each row. A square is divided by d before it is added, so that no sum overflows. The lanes
 * are summed in a fixed order, which is the same on every processor. To be inlined in a function
 * with KERN_CLONES. Pure. */
enum { ROW_LANES = 8 };

__attribute__((always_inline)) static inline float row_mean_square(size_t d, float l2, float scale,
    const float *w, const float *g)
{
	float lane[ROW_LANES] = { 0 }, share = 1 / (float)d;
	size_t whole = d / ROW_LANES * ROW_LANES;

	for (size_t i = 0; i < whole; i += ROW_LANES)
		for (size_t k = 0; k < ROW_LANES; k++) {
			float gi = optim_bounded_sum(g[i + k] * scale + l2 * w[i + k]);

			lane[k] += gi * gi * share;
		}
	for (size_t i = whole; i < d; i++) {
		float gi = optim_bounded_sum(g[i] * scale + l2 * w[i]);

		lane[i - whole] += gi * gi * share;
	}
	return ((lane[0] + lane[4]) + (lane[2] + lane[6])) +
	    ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

#endif
