/* SPDX-License-Identifier: ISC */
#include "model/deep.h"
#include "model/graph_parts.h"

/* Wide and deep (Cheng et al., "Wide & Deep Learning for Recommender Systems", 2016): a linear
 * model and a tower on vectors of the same features. Each part has a table of its own, so that they
 * can have different update rules. */

static double score_wide(const struct model *m, const struct entries *x, const float *v)
{
	(void)m;
	return factors_linear(x, 1, v);
}

static void spread_wide(const struct model *m, const struct entries *x, const float *v, float delta,
    float *g)
{
	(void)m;
	(void)v;
	factors_linear_spread(x, 1, delta, g);
}

static const struct factors linear = { .score = score_wide, .spread = spread_wide };
static const struct deep wide_deep = { .straight = &linear, .vectors = 1, .before = 0 };

static enum err_code wide_deep_fits(const struct model_shape *shape, struct err *e)
{
	return deep_fits(shape, "wide_deep", e);
}

/* The weights begin at 0, where ftrl has its first value. */
static void wide_deep_plan(struct model *m)
{
	model_add_table(m, "wide", m->shape.sparse, m->shape.sparse ? 0 : m->shape.features, 1, 0,
	    true);
	factors_add_vectors(m, "v", m->shape.factors);
	deep_plan_tower(m);
}

static double wide_deep_grad(struct model *m, const struct batch *b, const float *const params[],
    float *const grads[])
{
	return deep_grad(m, &wide_deep, b, params, grads);
}

static double wide_deep_forward(struct model *m, const struct batch *b, const float *const params[],
    float *scores)
{
	return deep_forward(m, &wide_deep, b, params, scores);
}

static const char *wide_deep_graph(const struct model *m, const struct graph *g)
{
	const char *vectors = graph_entries(g, m, wide_deep.vectors);

	return graph_join(g, "Add", graph_linear(g, m, 0),
	    deep_graph_tower(m, g, vectors, wide_deep.vectors + 1));
}

const struct model_kind model_kind_wide_deep = {
	.hidden = true,
	.fields = true,
	.fits = wide_deep_fits,
	.plan = wide_deep_plan,
	.scratch = deep_scratch,
	.grad = wide_deep_grad,
	.forward = wide_deep_forward,
	.graph = wide_deep_graph,
};
