/* SPDX-License-Identifier: ISC */
#include "model/factors.h"

/* Matrix factorization with biases (Koren, Bell and Volinsky, "Matrix Factorization Techniques for
 * Recommender Systems", 2009, eq. 4), where a user and an item are two features: f = b + w_u + w_i
 * + <v_u, v_i>. As there, b begins as the mean of all ratings, where f is the score. With more
 * features an example it is a factorization machine for real targets. */

static void mf_plan(struct model *m)
{
	factors_plan(m, 1 + m->shape.factors, true);
	if (m->loss->ops->score == NULL)
		m->tables[1].init = INIT_MEAN;
}

/* The sums over the features, one a factor, and the gradient of a row. */
static size_t mf_scratch(const struct model *m)
{
	return 2 * m->shape.factors + 1;
}

static double mf_grad(struct model *m, const struct batch *b, const float *const params[],
    float *const grads[])
{
	return factors_grad(m, &factors_pairs, b, params, grads);
}

static double mf_forward(struct model *m, const struct batch *b, const float *const params[],
    float *scores)
{
	return factors_forward(m, &factors_pairs, b, params, scores);
}

static double mf_learn(struct model *m, const struct batch *b, float *const params[],
    const struct model_update *update)
{
	return factors_learn_pairs(m, b, params, update);
}

static void mf_parts(struct model *m, const struct batch *b, size_t r, const float *const params[],
    double *part, double *base)
{
	factors_parts(&factors_pairs, m, b, r, params, part, base);
}

const struct model_kind model_kind_mf = {
	.fits = factors_fit,
	.plan = mf_plan,
	.scratch = mf_scratch,
	.grad = mf_grad,
	.forward = mf_forward,
	.parts = mf_parts,
	.learn = mf_learn,
};
