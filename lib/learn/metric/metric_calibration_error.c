/* SPDX-License-Identifier: ISC */
#include "metric/summary.h"

#include <math.h>

/* The expected calibration error (Naeini, Cooper and Hauskrecht, 2015; Guo et al., 2017): examples
 * are put into bins by their predicted probability, of class 1 or, with more classes, of the
 * predicted class; the result is the mean distance of a bin's mean probability from the share of
 * its examples for which the prediction holds. */
static bool mean_distance(void *summary, const struct metric_scores *of, double n, double *out)
{
	const struct probability_sums *s = summary;
	double sum = 0;

	(void)of;
	for (size_t i = 0; i < PROBABILITY_BINS; i++)
		sum += fabs(s->bin[i].predicted - s->bin[i].positive);
	*out = sum / n;
	return !isnan(s->predicted);
}

const struct metric_ops metric_calibration_error = { &summary_probabilities,
	metric_suits_probabilities, mean_distance };
