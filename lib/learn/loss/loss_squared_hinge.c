/* SPDX-License-Identifier: ISC */
#include "loss/logistic.h"
#include "loss/loss.h"

/* The square of the hinge loss: max(0, 1 - t f)^2 with t = 1 for class 1 and t = -1 for class 0.
 * The score s(f) has the order of f, and is not a probability. */

static double squared_hinge_at(double arg, double f, double y, double *slope)
{
	double t = y > 0.5 ? 1 : -1, short_of = 1 - t * f;

	(void)arg;
	if (short_of < 0)
		short_of = 0;
	*slope = -2 * t * short_of;
	return short_of * short_of;
}

const struct loss_ops loss_squared_hinge = {
	.name = "squared_hinge",
	.target = LOSS_TWO,
	.at = squared_hinge_at,
	.score = logistic_sigmoid,
	.graph = logistic_graph,
};
