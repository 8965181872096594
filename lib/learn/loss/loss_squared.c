/* SPDX-License-Identifier: ISC */
#include "loss/loss.h"

/* Least squares: (f - y)^2 / 2. f becomes the mean. */

static double square_at(double arg, double f, double y, double *slope)
{
	double off = f - y;

	(void)arg;
	*slope = off;
	return 0.5 * off * off;
}

/* A linear model of few features would spend a tenth of its time on calls of square_at. */
static double square_column(const struct batch *b, size_t outputs, size_t k, float *f)
{
	float share = 1 / (float)b->rows;
	double sum = 0;

	for (size_t r = 0, i = k; r < b->rows; r++, i += outputs) {
		double off = (double)f[i] - (double)b->y[i];

		sum += 0.5 * off * off * (double)batch_weight(b, r);
		f[i] = (float)off * share * batch_weight(b, r);
	}
	return sum;
}

const struct loss_ops loss_squared = {
	.name = "squared",
	.target = LOSS_REAL,
	.degree = 2,
	.at = square_at,
	.grad_column = square_column,
};
