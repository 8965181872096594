/* SPDX-License-Identifier: ISC */
#include <math.h>

#include "loss/loss.h"

/* Poisson regression with the log link (Nelder and Wedderburn, "Generalized Linear Models", 1972):
 * the mean of a count is exp(f). The loss is half the deviance, y log(y / exp(f)) - y + exp(f),
 * which is the negative log likelihood but for a constant of y, and 0 where exp(f) = y. */

static double deviance_at(double arg, double f, double y, double *slope)
{
	double mean = exp(f);

	(void)arg;
	*slope = mean - y;
	return (y > 0 ? y * (log(y) - f) : 0) + *slope;
}

static bool takes_count(double y)
{
	return y >= 0;
}

static const char *exp_graph(struct onnx *g, const char *f)
{
	return onnx_op(g, "Exp", f, NULL);
}

const struct loss_ops loss_poisson = {
	.name = "poisson",
	.target = LOSS_REAL,
	.takes = takes_count,
	.wants = "a number of at least 0",
	.at = deviance_at,
	.score = exp,
	.graph = exp_graph,
};
