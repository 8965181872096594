/* SPDX-License-Identifier: ISC */
#include "metric/summary.h"

/* The harmonic mean of precision and recall of class 1. Not defined where class 1 is neither
 * predicted nor true. */
static bool f1_of_one(void *summary, const struct metric_scores *of, double n, double *out)
{
	const struct class_count *c = &((struct class_counts *)summary)->class[1];

	(void)of, (void)n;
	*out = c->predicted + c->real > 0 ? summary_classes_f1(c) : 0;
	return c->predicted + c->real > 0;
}

const struct metric_ops metric_f1 = { &summary_classes, metric_suits_two, f1_of_one };
