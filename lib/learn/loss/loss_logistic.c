/* SPDX-License-Identifier: ISC */
#include "loss/logistic.h"
#include "loss/loss.h"

/* The negative log likelihood of two classes, where P(y = 1) = s(f) = 1 / (1 + exp(-f)). */

static double likelihood_at(double arg, double f, double y, double *slope)
{
	(void)arg;
	return logistic_at(f, y, slope);
}

const struct loss_ops loss_logistic = {
	.name = "logistic",
	.target = LOSS_TWO,
	.at = likelihood_at,
	.score = logistic_sigmoid,
	.graph = logistic_graph,
	.probabilities = true,
};
