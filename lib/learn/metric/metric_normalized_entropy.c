/* SPDX-License-Identifier: ISC */
#include "metric/summary.h"

#include <math.h>

/* The logarithmic loss of two classes over that of a model which predicts the share of class 1 for
 * all examples (He et al., "Practical lessons from predicting clicks on ads at Facebook", 2014). 1:
 * the predictions are worth no more than that share. Not defined with one class only. */
static bool relative_loss(void *summary, const struct metric_scores *of, double n, double *out)
{
	const struct probability_sums *s = summary;
	double p = s->positive / n;

	(void)of;
	if (!(p > 0 && p < 1))
		return false;
	*out = s->log_loss / n / -(p * log(p) + (1 - p) * log1p(-p));
	return true;
}

const struct metric_ops metric_normalized_entropy = { &summary_probabilities,
	metric_suits_probabilities_of_two, relative_loss };
