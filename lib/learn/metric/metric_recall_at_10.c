/* SPDX-License-Identifier: ISC */
#include "metric/summary.h"

/* The mean over the groups of the relevant examples (of class 1) among the first 10, over all relevant ones
 * of the group. Groups without a relevant example have none. */
static bool recall_of_group(const struct ranked *x, size_t n, double *value, double *weight)
{
	size_t relevant;
	double hits = summary_groups_hits(x, n, &relevant);

	(void)weight;
	*value = relevant ? hits / (double)relevant : 0;
	return relevant > 0;
}

static bool mean_recall(void *summary, const struct metric_scores *of, double n, double *out)
{
	(void)of, (void)n;
	return summary_groups_mean(summary, recall_of_group, out);
}

const struct metric_ops metric_recall_at_10 = { &summary_groups, metric_suits_groups_of_two,
	mean_recall };
