/* SPDX-License-Identifier: ISC */
#include "metric/metric.h"

/* The coefficient of determination, 1 - sum (y - f)^2 / sum (y - mean y)^2. Not defined when all
 * targets are equal. The spread about the running mean is by Welford, 1962, in one pass,
 * with weights by West, 1979. */

struct r2 {
	double n, sq_error, mean, sq_spread;
};

static bool suits_real(const struct metric_scores *s)
{
	return s->task == MODEL_REAL;
}

static enum err_code add_targets(void *state, const struct metric_batch *x, struct err *e)
{
	struct r2 *m = state;

	(void)e;
	for (size_t r = 0; r < x->batch->rows; r++) {
		double y = (double)x->batch->y[r], f = (double)x->scores[r * x->of.outputs],
		       from = y - m->mean, weight = (double)batch_weight(x->batch, r);

		if (weight == 0)
			continue;
		m->n += weight;
		m->mean += weight * from / m->n;
		m->sq_spread += weight * from * (y - m->mean);
		m->sq_error += weight * (y - f) * (y - f);
	}
	return ERR_OK;
}

static bool explained_share(void *state, double n, double *out)
{
	const struct r2 *m = state;

	(void)n;
	*out = m->sq_spread > 0 ? 1 - m->sq_error / m->sq_spread : 0;
	return m->sq_spread > 0;
}

const struct metric_ops metric_r2 = { sizeof(struct r2), suits_real, add_targets, explained_share,
	NULL };
