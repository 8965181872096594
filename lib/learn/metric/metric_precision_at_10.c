/* SPDX-License-Identifier: ISC */
#include "metric/summary.h"

/* The mean over the groups of the relevant examples (of class 1) among the first 10, over 10. Groups
 * without a relevant example have none. */
static bool precision_of_group(const struct ranked *x, size_t n, double *value, double *weight)
{
	size_t relevant;

	(void)weight;
	*value = summary_groups_hits(x, n, &relevant) / RANKED_TOP;
	return relevant > 0;
}

static bool mean_precision(void *summary, const struct metric_scores *of, double n, double *out)
{
	(void)of, (void)n;
	return summary_groups_mean(summary, precision_of_group, out);
}

const struct metric_ops metric_precision_at_10 = { &summary_groups, metric_suits_groups_of_two,
	mean_precision };
