/* SPDX-License-Identifier: ISC */
#include "metric/summary.h"

/* The share of examples whose predicted class is the true one. */
static bool share_of_right(void *summary, const struct metric_scores *of, double n, double *out)
{
	const struct class_counts *s = summary;
	double right = 0;

	(void)of;
	for (size_t i = 0; i < s->classes; i++)
		right += s->class[i].both;
	*out = right / n;
	return true;
}

const struct metric_ops metric_accuracy = { &summary_classes, metric_suits_classes,
	share_of_right };
