/* SPDX-License-Identifier: ISC */
#include "model/deep.h"

/* Wide and deep (Cheng et al., "Wide & Deep Learning for Recommender Systems", 2016): a linear model
 * and a tower on vectors of the same features. */

static double score_wide(const struct model *m, const struct entries *x, const float *v)
{
	return factors_linear(x, 1 + m->shape.factors, v);
}

static void spread_wide(const struct model *m, const struct entries *x, const float *v, float delta,
    float *g)
{
	(void)v;
	factors_linear_spread(x, 1 + m->shape.factors, delta, g);
}

static const struct factors linear = { score_wide, spread_wide };

static enum err_code wide_deep_fits(const struct model_shape *shape, struct err *e)
{
	return deep_fits(shape, "wide_deep", e);
}

static double wide_deep_grad(struct model *m, const struct batch *b, const float *const params[],
    float *const grads[])
{
	return deep_grad(m, &linear, b, params, grads);
}

static double wide_deep_forward(struct model *m, const struct batch *b, const float *const params[],
    float *scores)
{
	return deep_forward(m, &linear, b, params, scores);
}

const struct model_kind model_kind_wide_deep = {
	.hidden = true,
	.fields = true,
	.fits = wide_deep_fits,
	.plan = deep_plan,
	.scratch = deep_scratch,
	.grad = wide_deep_grad,
	.forward = wide_deep_forward,
};
