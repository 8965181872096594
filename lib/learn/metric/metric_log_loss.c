/* SPDX-License-Identifier: ISC */
#include "metric/summary.h"

/* The mean of -log of the probability that the model gives to the true class. */
static bool mean_log_loss(void *summary, const struct metric_scores *of, double n, double *out)
{
	(void)of;
	*out = ((struct probability_sums *)summary)->log_loss / n;
	return true;
}

const struct metric_ops metric_log_loss = { &summary_probabilities, metric_suits_probabilities,
	mean_log_loss };
