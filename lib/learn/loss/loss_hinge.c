/* SPDX-License-Identifier: ISC */
#include "loss/logistic.h"
#include "loss/loss.h"

/* The support vector machine's loss (Cortes and Vapnik, "Support-Vector Networks", 1995): max(0, 1
 * - t f) with t = 1 for class 1 and t = -1 for class 0. The score s(f) has the order of f, and is
 * no probability. */

static double hinge_at(double arg, double f, double y, double *slope)
{
	double t = y > 0.5 ? 1 : -1, short_of = 1 - t * f;

	(void)arg;
	*slope = short_of > 0 ? -t : 0;
	return short_of < 0 ? 0 : short_of;
}

const struct loss_ops loss_hinge = {
	.name = "hinge",
	.target = LOSS_TWO,
	.at = hinge_at,
	.score = logistic_sigmoid,
	.graph = logistic_graph,
};
