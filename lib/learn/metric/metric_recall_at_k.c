/* SPDX-License-Identifier: ISC */
#include "metric/summary.h"

/* The mean over the groups of the relevant examples (of class 1) among the first k, over all
 * relevant ones of the group. Groups without a relevant example have none. */
static bool recall_of_group(const struct ranked *x, size_t n, size_t k, double *value,
    double *weight)
{
	size_t relevant;
	double hits = summary_groups_hits(x, n, k, &relevant);

	(void)weight;
	*value = relevant ? hits / (double)relevant : 0;
	return relevant > 0;
}

static bool mean_recall(void *summary, const struct metric_scores *of, double n, double *out)
{
	(void)n;
	return summary_groups_mean(summary, recall_of_group, of->top_k, out);
}

const struct metric_ops metric_recall_at_k = { &summary_groups, metric_suits_groups_of_two,
	mean_recall };
