/* SPDX-License-Identifier: ISC */
#include "metric/metric.h"

#include <math.h>

/* The square root of the mean squared error, of real targets. */

struct rmse {
	double sq_error;
};

static bool suits_real(const struct metric_scores *s)
{
	return s->task == MODEL_REAL;
}

static enum err_code add_errors(void *state, const struct metric_batch *x, struct err *e)
{
	struct rmse *m = state;

	(void)e;
	for (size_t r = 0; r < x->batch->rows; r++) {
		double off = (double)x->batch->y[r] - (double)x->scores[r * x->of.outputs];

		m->sq_error += off * off * (double)batch_weight(x->batch, r);
	}
	return ERR_OK;
}

static bool root_of_mean(void *state, double n, double *out)
{
	*out = sqrt(((struct rmse *)state)->sq_error / n);
	return true;
}

const struct metric_ops metric_rmse = { sizeof(struct rmse), suits_real, add_errors, root_of_mean,
	NULL };
