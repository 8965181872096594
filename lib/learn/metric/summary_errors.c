/* SPDX-License-Identifier: ISC */
#include "metric/summary.h"

/* The spread about the running mean is by Welford, 1962, in one pass, with weights by West, 1979;
 * that of two sets of examples together by Chan, Golub and LeVeque, 1979. */

static enum err_code add_errors(void *summary, const struct metric_batch *x, struct err *e)
{
	struct error_sums *s = summary;

	(void)e;
	for (size_t r = 0; r < x->batch->rows; r++) {
		double y = (double)x->batch->y[metric_place(x, r)],
		       off = y - (double)x->scores[metric_place(x, r)], from = y - s->mean,
		       weight = (double)batch_weight(x->batch, r);

		if (weight == 0)
			continue;
		s->n += weight;
		s->mean += weight * from / s->n;
		s->sq_spread += weight * from * (y - s->mean);
		s->sq += weight * off * off;
		*(off > 0 ? &s->below : &s->above) += weight * (off > 0 ? off : -off);
	}
	return ERR_OK;
}

static enum err_code merge_errors(void *summary, const void *other, struct err *e)
{
	struct error_sums *s = summary;
	const struct error_sums *o = other;
	double n = s->n + o->n, from = o->mean - s->mean;

	(void)e;
	if (o->n == 0)
		return ERR_OK;
	s->sq_spread += o->sq_spread + from * from * s->n * o->n / n;
	s->mean += from * o->n / n;
	s->n = n;
	s->sq += o->sq;
	s->below += o->below;
	s->above += o->above;
	return ERR_OK;
}

const struct metric_summary_ops summary_errors = { sizeof(struct error_sums), add_errors,
	merge_errors, NULL, NULL };
