/* SPDX-License-Identifier: ISC */
#include "metric/summary.h"

/* The mean of the F1 scores of all classes that are predicted or true for some example. */
static bool mean_f1(void *summary, const struct metric_scores *of, double n, double *out)
{
	const struct class_counts *s = summary;
	size_t classes = 0;
	double sum = 0;

	(void)of, (void)n;
	for (size_t i = 0; i < s->classes; i++)
		if (s->class[i].predicted + s->class[i].real > 0) {
			sum += summary_classes_f1(&s->class[i]);
			classes++;
		}
	*out = classes ? sum / (double)classes : 0;
	return classes > 0;
}

const struct metric_ops metric_f1_macro = { &summary_classes, metric_suits_classes, mean_f1 };
