/* SPDX-License-Identifier: ISC */
#include <math.h>

#include "math/clones.h"
#include "optim/optim.h"
#include "optim/row_square.h"

/* With G the sum of the examples' gradients and of l2 w for each example that touches the row
 * (optim.h), and with one accumulator for the d parameters of a row:
 *
 *	accum += mean of G^2 over the row;  w -= lr G / (sqrt(initial + accum) + eps)
 *
 * M. Naumov et al., Deep Learning Recommendation Model for Personalization and Recommendation
 * Systems, 2019, which FBGEMM has as "exact row-wise AdaGrad": adagrad for rows of embeddings, with
 * 1/d of its memory. In a dense table each value is a row, so there it is adagrad. */
KERN_CLONES static float adagrad_mean_square(size_t d, float l2, float scale, const float *w,
    const float *g)
{
	return row_mean_square(d, l2, scale, w, g);
}

KERN_CLONES static void rowwise_adagrad_row(size_t d, float lr, float divisor, float l2,
    float scale, float *restrict w, const float *restrict g)
{
	for (size_t i = 0; i < d; i++)
		w[i] -= lr * optim_bounded_sum(g[i] * scale + l2 * w[i]) / divisor;
}

KERN_CLONES static void rowwise_adagrad_values(size_t n, const struct optim_hyper *h, float l2,
    float scale, float *restrict w, float *restrict accum, const float *restrict g)
{
	float lr = h->lr, eps = h->eps, initial = h->initial;

	for (size_t i = 0; i < n; i++) {
		float gi = optim_bounded_sum(g[i] * scale + l2 * w[i]);

		accum[i] += gi * gi;
		w[i] -= lr * gi / (sqrtf(initial + accum[i]) + eps);
	}
}

static void rowwise_adagrad_step(const struct optim_hyper *h, uint64_t t, bool decay, size_t n,
    float *restrict w, float *const s[], const struct optim_gradient *g)
{
	float l2 = optim_sum_l2(h, decay, g), scale = optim_sum_scale(g);
	size_t d = g->width;

	(void)t;
	if (d <= 1) {
		rowwise_adagrad_values(n, h, l2, scale, w, s[0], g->values);
		return;
	}
	for (size_t row = 0, at = 0; at < n; row++, at += d) {
		float *accum = &s[0][row];

		*accum += adagrad_mean_square(d, l2, scale, w + at, g->values + at);
		rowwise_adagrad_row(d, h->lr, sqrtf(h->initial + *accum) + h->eps, l2, scale,
		    w + at, g->values + at);
	}
}

static void rowwise_adagrad_defaults(struct optim_hyper *h)
{
	*h = (struct optim_hyper){ .lr = 0.01f, .eps = 1e-10f, .initial = 0 };
}

const struct optim_rule optim_rule_rowwise_adagrad = {
	.name = "rowwise_adagrad",
	.id = OPTIM_ID_rowwise_adagrad,
	.help = "adagrad with one number for each row of a sparse table (Naumov et al. 2019)",
	.when =
	    "wide rows of large sparse tables, where the state of adagrad takes too much memory",
	.uses = OPTIM_USES_EPS | OPTIM_USES_INITIAL,
	.nvectors = 1,
	.vector_name = { "row_accum" },
	.vector_init = { 0 },
	.vector_by_row = { true },
	.keeps_untouched = true,
	.counts_touching = true,
	.defaults = rowwise_adagrad_defaults,
	.step = rowwise_adagrad_step,
};
