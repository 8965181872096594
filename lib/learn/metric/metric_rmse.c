/* SPDX-License-Identifier: ISC */
#include "metric/summary.h"

#include <math.h>

/* The square root of the mean squared error, of real targets. */
static bool root_of_mean(void *summary, const struct metric_scores *of, double n, double *out)
{
	(void)of;
	*out = sqrt(((struct error_sums *)summary)->sq / n);
	return true;
}

const struct metric_ops metric_rmse = { &summary_errors, metric_suits_real, root_of_mean };
