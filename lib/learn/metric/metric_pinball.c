/* SPDX-License-Identifier: ISC */
#include "metric/summary.h"

/* The mean quantile loss (Koenker and Bassett, 1978) of a model that predicts the quantile q of
 * real targets: q (y - f) where the prediction f is too low, (1 - q) (f - y) where it is too
 * high. */

static bool suits_quantile(const struct metric_scores *of)
{
	return of->task == MODEL_REAL && of->quantile > 0;
}

static bool mean_pinball(void *summary, const struct metric_scores *of, double n, double *out)
{
	const struct error_sums *s = summary;

	*out = (of->quantile * s->below + (1 - of->quantile) * s->above) / n;
	return true;
}

const struct metric_ops metric_pinball = { &summary_errors, suits_quantile, mean_pinball };
