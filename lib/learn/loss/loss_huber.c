/* SPDX-License-Identifier: ISC */
#include <math.h>

#include "loss/loss.h"

/* Huber, "Robust Estimation of a Location Parameter", 1964: (f - y)^2 / 2 up to the distance D, and
 * D (|f - y| - D / 2) beyond it, so that no example pulls stronger than D. */

static double huber_at(double most, double f, double y, double *slope)
{
	double off = f - y, far = fabs(off);

	if (far <= most) {
		*slope = off;
		return 0.5 * off * off;
	}
	*slope = copysign(most, off);
	return most * (far - 0.5 * most);
}

static double scale_distance(double delta, double c)
{
	return delta * c;
}

const struct loss_ops loss_huber = {
	.name = "huber",
	.target = LOSS_REAL,
	.arg = 1,
	.arg_most = INFINITY,
	.scale_arg = scale_distance,
	.degree = 2,
	.at = huber_at,
};
