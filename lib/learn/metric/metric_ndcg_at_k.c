/* SPDX-License-Identifier: ISC */
#include "metric/summary.h"

#include <math.h>
#include <stdlib.h>

#include "core/mem.h"

/* The mean over the groups of the normalized discounted cumulative gain of the first k examples
 * (Jarvelin and Kekalainen, 2002): the sum of their targets, divided by log2(1 + place), over that
 * of the best order. Examples of equal score have the mean gain of all their orders (McSherry and
 * Najork, 2008). Groups without a positive target have none; a negative target is not a gain, so
 * that it is not defined with one. */

static double discount(size_t place, size_t k)
{
	return place < k ? 1 / log2((double)place + 2) : 0;
}

static int compare_gains(const void *a, const void *b)
{
	double p = *(const double *)a, q = *(const double *)b;

	return (p < q) - (p > q);
}

/* The gain of the best order. */
static double best_gain(const struct ranked *x, size_t n, size_t k)
{
	double *y = mem_array(n, sizeof *y), gain = 0;

	for (size_t i = 0; i < n; i++)
		y[i] = (double)x[i].y;
	qsort(y, n, sizeof *y, compare_gains);
	for (size_t i = 0; i < n && i < k; i++)
		gain += y[i] * discount(i, k);
	free(y);
	return gain;
}

static bool ndcg_of_group(const struct ranked *x, size_t n, size_t k, double *value, double *weight)
{
	double gain = 0, best = best_gain(x, n, k);

	(void)weight;
	for (size_t at = 0, ties; at < n; at += ties) {
		double y = 0, by = 0;

		ties = summary_groups_ties(x, n, at);
		for (size_t i = at; i < at + ties; i++) {
			if (x[i].y < 0) {
				*value = (double)NAN;
				return true;
			}
			y += (double)x[i].y;
			by += discount(i, k);
		}
		gain += y * by / (double)ties;
	}
	*value = best > 0 ? gain / best : 0;
	return best > 0;
}

static bool suits_groups(const struct metric_scores *of)
{
	return metric_suits_groups_of_two(of) || (of->grouped && of->task == MODEL_REAL);
}

static bool mean_ndcg(void *summary, const struct metric_scores *of, double n, double *out)
{
	(void)n;
	return summary_groups_mean(summary, ndcg_of_group, of->top_k, out) && !isnan(*out);
}

const struct metric_ops metric_ndcg_at_k = { &summary_groups, suits_groups, mean_ndcg };
