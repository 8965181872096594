/* SPDX-License-Identifier: ISC */
#include "metric/metric.h"

/* The share of examples whose predicted class is the true one. */

struct accuracy {
	double right;
};

static bool suits_classes(const struct metric_scores *s)
{
	return s->task == MODEL_TWO || s->task == MODEL_CLASSES;
}

static enum err_code count_right(void *state, const struct metric_batch *x, struct err *e)
{
	struct accuracy *a = state;

	(void)e;
	for (size_t r = 0; r < x->batch->rows; r++)
		if (metric_predicted_class(x, x->scores + r * x->of.outputs) ==
		    metric_true_class(x, r))
			a->right += (double)batch_weight(x->batch, r);
	return ERR_OK;
}

static bool share_of_right(void *state, double n, double *out)
{
	*out = ((struct accuracy *)state)->right / n;
	return true;
}

const struct metric_ops metric_accuracy = { sizeof(struct accuracy), suits_classes, count_right,
	share_of_right, NULL };
