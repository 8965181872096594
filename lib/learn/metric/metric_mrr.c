/* SPDX-License-Identifier: ISC */
#include "metric/summary.h"

/* The mean over the groups of 1 over the place of the first example of class 1 (Voorhees, 1999); of
 * equal scores the mean over all orders. Groups without such an example have none. */

/* The examples at+1, .., at+n are in a random order, and r > 0 of them are relevant: the mean of 1
 * over the place of the first of these. The first one is the j-th with probability p, which is r /
 * n for j = 1, and p (n-j-r+1) / (n-j) for j + 1. */
static double mean_reciprocal(size_t at, size_t n, size_t r)
{
	double p = (double)r / (double)n, sum = 0;

	for (size_t j = 1; j + r <= n + 1; j++) {
		sum += p / (double)(at + j);
		if (j < n)
			p *= (double)(n - j - r + 1) / (double)(n - j);
	}
	return sum;
}

static bool reciprocal_of_group(const struct ranked *x, size_t n, size_t k, double *value,
    double *weight)
{
	(void)k, (void)weight;
	for (size_t at = 0, ties; at < n; at += ties) {
		size_t relevant = 0;

		ties = summary_groups_ties(x, n, at);
		for (size_t i = at; i < at + ties; i++)
			relevant += x[i].y > 0.5f;
		if (relevant) {
			*value = mean_reciprocal(at, ties, relevant);
			return true;
		}
	}
	return false;
}

static bool mean_of_groups(void *summary, const struct metric_scores *of, double n, double *out)
{
	(void)n;
	return summary_groups_mean(summary, reciprocal_of_group, of->top_k, out);
}

const struct metric_ops metric_mrr = { &summary_groups, metric_suits_groups_of_two,
	mean_of_groups };
