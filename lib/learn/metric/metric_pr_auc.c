/* SPDX-License-Identifier: ISC */
#include "metric/summary.h"

/* The average precision of two classes: the area under the curve of precision over recall, by
 * steps: the sum over the different scores of the precision at that score times the recall that it
 * adds. Not defined without an example of class 1, or with a score that is not finite. */

/* The examples by class whose score is at least the present one. */
struct retrieved {
	double by_class[2];
	double sum; /* of precision times examples of class 1 */
};

static void count_retrieved(void *ctx, const double here[static 2])
{
	struct retrieved *r = ctx;
	double found = r->by_class[0] + r->by_class[1];

	if (here[1] > 0)
		r->sum += here[1] * r->by_class[1] / found;
	r->by_class[0] -= here[0];
	r->by_class[1] -= here[1];
}

static void count_class(void *ctx, const double here[static 2])
{
	double *all = ctx;

	all[0] += here[0];
	all[1] += here[1];
}

static bool average_precision(void *summary, const struct metric_scores *of, double n, double *out)
{
	struct retrieved r = { 0 };
	double all[2];

	(void)of, (void)n;
	/* From the lowest score on, all examples are retrieved at first. */
	if (!summary_scores_ascend(summary, all, count_class, r.by_class) || !(all[1] > 0))
		return false;
	summary_scores_ascend(summary, all, count_retrieved, &r);
	*out = r.sum / all[1];
	return true;
}

const struct metric_ops metric_pr_auc = { &summary_scores, metric_suits_two, average_precision };
