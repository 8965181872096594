/* SPDX-License-Identifier: ISC */
#include "metric/summary.h"

/* The coefficient of determination, 1 - sum (y - f)^2 / sum (y - mean y)^2. Not defined when all
 * targets are equal. */
static bool explained_share(void *summary, const struct metric_scores *of, double n, double *out)
{
	const struct error_sums *s = summary;

	(void)of, (void)n;
	*out = s->sq_spread > 0 ? 1 - s->sq / s->sq_spread : 0;
	return s->sq_spread > 0;
}

const struct metric_ops metric_r2 = { &summary_errors, metric_suits_real, explained_share };
