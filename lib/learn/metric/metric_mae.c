/* SPDX-License-Identifier: ISC */
#include "metric/summary.h"

/* The mean absolute error, of real targets. */
static bool mean_error(void *summary, const struct metric_scores *of, double n, double *out)
{
	const struct error_sums *s = summary;

	(void)of;
	*out = (s->below + s->above) / n;
	return true;
}

const struct metric_ops metric_mae = { &summary_errors, metric_suits_real, mean_error };
