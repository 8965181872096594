/* SPDX-License-Identifier: ISC */
#include "metric/summary.h"

/* The mean predicted probability of class 1 over the share of class 1 (He et al., 2014). Not
 * defined without examples of class 1. */
static bool predicted_over_real(void *summary, const struct metric_scores *of, double n,
    double *out)
{
	const struct probability_sums *s = summary;

	(void)of, (void)n;
	*out = s->positive > 0 ? s->predicted / s->positive : 0;
	return s->positive > 0;
}

const struct metric_ops metric_calibration = { &summary_probabilities,
	metric_suits_probabilities_of_two, predicted_over_real };
