/* SPDX-License-Identifier: ISC */
#include "metric/summary.h"

/* The mean of the groups' areas under the ROC curve, weighted by their examples (Zhou et al., "Deep
 * interest network", 2018). Groups with one class only have none. */
static bool area_of_group(const struct ranked *x, size_t n, size_t k, double *value, double *weight)
{
	double ordered = 0, positive = 0, negative = 0;

	(void)k;
	for (size_t at = 0, ties; at < n; at += ties) {
		double here[2] = { 0 };

		ties = summary_groups_ties(x, n, at);
		for (size_t i = at; i < at + ties; i++)
			here[x[i].y > 0.5f] += (double)x[i].weight;
		/* The examples of class 1 so far have higher scores. */
		ordered += here[0] * (positive + here[1] / 2);
		negative += here[0];
		positive += here[1];
	}
	if (!(positive > 0 && negative > 0))
		return false;
	*value = ordered / (positive * negative);
	*weight = positive + negative;
	return true;
}

static bool mean_area(void *summary, const struct metric_scores *of, double n, double *out)
{
	(void)n;
	return summary_groups_mean(summary, area_of_group, of->top_k, out);
}

const struct metric_ops metric_group_auc = { &summary_groups, metric_suits_groups_of_two,
	mean_area };
