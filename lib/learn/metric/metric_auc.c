/* SPDX-License-Identifier: ISC */
#include "metric/summary.h"

/* The area under the ROC curve of two classes: the probability that an example of class 1 scores
 * higher than one of class 0, equal scores counting half (Mann-Whitney), where examples are drawn
 * by their weights. Not defined with one class only, or with a score that is not finite. */

/* Pairs of examples of both classes that are in order, and the examples of class 0 so far. */
struct pairs {
	double ordered, below;
};

static void count_pairs(void *ctx, const double here[static 2])
{
	struct pairs *p = ctx;

	p->ordered += here[1] * (p->below + here[0] / 2);
	p->below += here[0];
}

static bool area_under_curve(void *summary, const struct metric_scores *of, double n, double *out)
{
	struct pairs p = { 0 };
	double all[2];

	(void)of, (void)n;
	if (!summary_scores_ascend(summary, all, count_pairs, &p) || !(all[0] > 0 && all[1] > 0))
		return false;
	*out = p.ordered / (all[0] * all[1]);
	return true;
}

const struct metric_ops metric_auc = { &summary_scores, metric_suits_two, area_under_curve };
