/* SPDX-License-Identifier: ISC */
#include "metric/summary.h"

#include <float.h>
#include <math.h>

/* -log of the probability, which rounding may have made 0 or 1. */
static double negative_log(float p)
{
	return -log(p < FLT_EPSILON      ? (double)FLT_EPSILON
	        : p > 1.0f - FLT_EPSILON ? 1.0 - (double)FLT_EPSILON
	                                 : (double)p);
}

static struct probability_bin *bin_of(struct probability_sums *s, float p)
{
	double at = (double)p * PROBABILITY_BINS;

	return &s->bin[at >= PROBABILITY_BINS - 1 ? PROBABILITY_BINS - 1 : at > 0 ? (size_t)at : 0];
}

static enum err_code add_probabilities(void *summary, const struct metric_batch *x, struct err *e)
{
	struct probability_sums *s = summary;
	bool two = metric_suits_two(&x->of);

	(void)e;
	for (size_t r = 0; r < x->batch->rows; r++) {
		const float *score = x->scores + r * x->of.outputs;
		size_t real = metric_true_class(x, r), of = metric_predicted_class(x, score);
		double weight = (double)batch_weight(x->batch, r);
		float p = two ? score[x->of.outputs - 1] : score[of];
		bool is = two ? real == 1 : real == of;

		s->log_loss += weight *
		    negative_log(x->of.outputs > 1 ? score[real]
		            : is                   ? p
		                                   : 1 - p);
		s->predicted += weight * (double)p;
		s->positive += is ? weight : 0;
		if (isnan(p))
			continue;
		bin_of(s, p)->n += weight;
		bin_of(s, p)->predicted += weight * (double)p;
		bin_of(s, p)->positive += is ? weight : 0;
	}
	return ERR_OK;
}

static enum err_code merge_probabilities(void *summary, const void *other, struct err *e)
{
	struct probability_sums *s = summary;
	const struct probability_sums *o = other;

	(void)e;
	s->log_loss += o->log_loss;
	s->predicted += o->predicted;
	s->positive += o->positive;
	for (size_t i = 0; i < PROBABILITY_BINS; i++) {
		s->bin[i].n += o->bin[i].n;
		s->bin[i].predicted += o->bin[i].predicted;
		s->bin[i].positive += o->bin[i].positive;
	}
	return ERR_OK;
}

const struct metric_summary_ops summary_probabilities = { sizeof(struct probability_sums),
	add_probabilities, merge_probabilities, NULL, NULL };
