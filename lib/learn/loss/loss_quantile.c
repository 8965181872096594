/* SPDX-License-Identifier: ISC */
#include "loss/loss.h"

/* Koenker and Bassett, "Regression Quantiles", 1978, also called pinball loss: T (y - f) where f is
 * too small, (1 - T) (f - y) where it is too large. f becomes the T quantile; 0.5 is the median. At
 * f = y, where the loss has no derivative, the slope is 0. */

static double quantile_at(double share, double f, double y, double *slope)
{
	double off = f - y;

	*slope = off < 0 ? -share : off > 0 ? 1 - share : 0;
	return *slope * off;
}

static double quantile_itself(double tau)
{
	return tau;
}

const struct loss_ops loss_quantile = {
	.name = "quantile",
	.target = LOSS_REAL,
	.arg = 0.5,
	.arg_most = 1,
	.quantile = quantile_itself,
	.degree = 1,
	.at = quantile_at,
};
