/* SPDX-License-Identifier: ISC */
#include "model/deep.h"
#include "model/graph_parts.h"

/* DeepFM (Guo et al., "DeepFM: A Factorization-Machine based Neural Network for CTR Prediction",
 * 2017): a factorization machine and a tower on the same vectors. Unlike in the paper, a field with
 * several features has the sum of their vectors. */

static const struct deep deepfm = { .straight = &factors_pairs, .vectors = 0, .before = 1 };

static enum err_code deepfm_fits(const struct model_shape *shape, struct err *e)
{
	return deep_fits(shape, "deepfm", e);
}

static void deepfm_plan(struct model *m)
{
	factors_plan(m, 1 + m->shape.factors, false);
	deep_plan_tower(m);
}

static double deepfm_grad(struct model *m, const struct batch *b, const float *const params[],
    float *const grads[])
{
	return deep_grad(m, &deepfm, b, params, grads);
}

static double deepfm_forward(struct model *m, const struct batch *b, const float *const params[],
    float *scores)
{
	return deep_forward(m, &deepfm, b, params, scores);
}

static const char *deepfm_graph(const struct model *m, const struct graph *g)
{
	const char *vectors, *straight = factors_graph_pairs(m, g, &vectors);

	return graph_join(g, "Add", straight, deep_graph_tower(m, g, vectors, deepfm.vectors + 1));
}

const struct model_kind model_kind_deepfm = {
	.hidden = true,
	.fields = true,
	.fits = deepfm_fits,
	.plan = deepfm_plan,
	.scratch = deep_scratch,
	.grad = deepfm_grad,
	.forward = deepfm_forward,
	.graph = deepfm_graph,
};
