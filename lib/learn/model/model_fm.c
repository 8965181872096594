/* SPDX-License-Identifier: ISC */
#include "model/factors.h"
#include "model/graph_parts.h"

/* Factorization machine of two classes (Rendle, "Factorization Machines", 2010, eq. 1):
 *   f = b + sum_i w_i x_i + sum_i<j <v_i, v_j> x_i x_j. */

static void fm_plan(struct model *m)
{
	factors_plan(m, 1 + m->shape.factors, true);
}

/* The sums over the features, one a factor. */
static size_t fm_scratch(const struct model *m)
{
	return m->shape.factors;
}

static double fm_grad(struct model *m, const struct batch *b, const float *const params[],
    float *const grads[])
{
	return factors_grad(m, &factors_pairs, b, params, grads);
}

static double fm_forward(struct model *m, const struct batch *b, const float *const params[],
    float *scores)
{
	return factors_forward(m, &factors_pairs, b, params, scores);
}

static void fm_parts(struct model *m, const struct batch *b, size_t r, const float *const params[],
    double *part, double *base)
{
	factors_parts(&factors_pairs, m, b, r, params, part, base);
}

static const char *fm_graph(const struct model *m, const struct graph *g)
{
	const char *vectors;

	return graph_join(g, "Add", factors_graph_pairs(m, g, &vectors), g->table[1].values);
}

const struct model_kind model_kind_fm = {
	.fits = factors_fit,
	.plan = fm_plan,
	.scratch = fm_scratch,
	.grad = fm_grad,
	.forward = fm_forward,
	.parts = fm_parts,
	.graph = fm_graph,
};
