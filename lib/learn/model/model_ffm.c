/* SPDX-License-Identifier: ISC */
#include "model/factors.h"
#include "model/graph_parts.h"

/* Field-aware factorization machine of two classes (Juan et al., "Field-aware Factorization
 * Machines for CTR Prediction", 2016, eq. 4), with weights and a bias beside the pairs:
 *   f = b + sum_i w_i x_i + sum_i<j <v_i,field(j), v_j,field(i)> x_i x_j.
 * A feature's row has its weight, then the factors for each field. */

static enum err_code ffm_fits(const struct model_shape *shape, struct err *e)
{
	if (shape->sparse && !shape->fields)
		return err_set(e, ERR_CONFIG,
		    "job.model ffm needs features in fields: field:index:value (?format=ffm), "
		    "?format=criteo, or columns; use fm for other data");
	return factors_fit(shape, e);
}

/* Floats in a feature's row: the weight, then k factors for each field. */
static size_t width_of(const struct model *m)
{
	return 1 + m->shape.fields * m->shape.factors;
}

static void ffm_plan(struct model *m)
{
	factors_plan(m, width_of(m), true);
}

static size_t ffm_scratch(const struct model *m)
{
	(void)m;
	return 1;
}

/* Offset in the table of the factors of entry i for the field of entry j. */
static inline size_t factor_offset(const struct entries *x, size_t i, size_t j, size_t k,
    size_t width)
{
	return entries_at(x, i, width) + 1 + entries_field(x, j) * k;
}

/* Sums over all pairs of entries, so an example costs n^2 k / 2: the rewriting of fm does not
 * apply, because the vector of i depends on the field of j. */
static double score_ffm(const struct model *m, const struct entries *x, const float *v)
{
	size_t k = m->shape.factors, width = width_of(m);
	double f = factors_linear(x, width, v);

	for (size_t i = 0; i < x->n; i++) {
		float sum = 0;

		for (size_t j = i + 1; j < x->n; j++)
			sum += entries_dot(k, v + factor_offset(x, i, j, k, width),
			           v + factor_offset(x, j, i, k, width)) *
			    x->val[j];
		f += (double)(sum * x->val[i]);
	}
	return f;
}

/* Adds delta times the gradient of one example's score to g. Both vectors of a pair get the other
 * one, times delta x_i x_j. */
static void spread_ffm(const struct model *m, const struct entries *x, const float *v, float delta,
    float *g)
{
	size_t k = m->shape.factors, width = width_of(m);

	factors_linear_spread(x, width, delta, g);
	for (size_t i = 0; i < x->n; i++)
		for (size_t j = i + 1; j < x->n; j++) {
			size_t a = factor_offset(x, i, j, k, width),
			       b = factor_offset(x, j, i, k, width);
			float d = delta * x->val[i] * x->val[j];

			entries_axpy(k, d, v + b, g + a);
			entries_axpy(k, d, v + a, g + b);
		}
}

static void ffm_pair_parts(const struct model *m, const struct entries *x, const float *v,
    double *part)
{
	size_t k = m->shape.factors, width = width_of(m);

	for (size_t i = 0; i < x->n; i++)
		part[i] = (double)v[entries_at(x, i, width)] * (double)x->val[i];
	for (size_t i = 0; i < x->n; i++)
		for (size_t j = i + 1; j < x->n; j++) {
			double both = (double)entries_dot(k, v + factor_offset(x, i, j, k, width),
			                  v + factor_offset(x, j, i, k, width)) *
			    (double)x->val[i] * (double)x->val[j];

			part[i] += both / 2;
			part[j] += both / 2;
		}
}

static const struct factors by_field = { score_ffm, spread_ffm, ffm_pair_parts };

static double ffm_grad(struct model *m, const struct batch *b, const float *const params[],
    float *const grads[])
{
	return factors_grad(m, &by_field, b, params, grads);
}

static double ffm_forward(struct model *m, const struct batch *b, const float *const params[],
    float *scores)
{
	return factors_forward(m, &by_field, b, params, scores);
}

static void ffm_parts(struct model *m, const struct batch *b, size_t r, const float *const params[],
    double *part, double *base)
{
	factors_parts(&by_field, m, b, r, params, part, base);
}

/* The sums are those of x_i v_i,b over the entries of field a, for all fields a and b. The products of the
 * sums of (a, b) and (b, a), added up over a and b, have each pair of entries twice, and each entry once
 * with itself. That is taken off: x_i v_i,field(i) is a sum over the fields in which all other terms are
 * 0. */
static const char *ffm_graph(const struct model *m, const struct graph *g)
{
	size_t k = m->shape.factors, fields = m->shape.fields;
	int64_t square[] = { -1, (int64_t)fields, (int64_t)fields, (int64_t)k },
	        of_entries[] = { 0, 0, (int64_t)fields, (int64_t)k };
	const char *rows = graph_entries(g, m, 0),
	           *linear = graph_sum(g, graph_columns(g, rows, 3, 0, 1), 1, false),
	           *vectors = graph_columns(g, rows, 3, 1, fields * k),
	           *sums = graph_reshape(g, graph_by_field(g, m, vectors, fields * k), square, 4),
	           *turned = onnx_op(g->onnx, "Transpose", sums, NULL), *field, *own, *both;

	onnx_set_ints(g->onnx, "perm", (const int64_t[]){ 0, 2, 1, 3 }, 4);
	both = graph_reshape(g, graph_join(g, "Mul", sums, turned),
	    (const int64_t[]){ -1, (int64_t)(fields * fields * k) }, 2);
	field = m->shape.sparse ? g->field : graph_first_numbers(g, fields);
	own = graph_join(g, "Mul", graph_reshape(g, vectors, of_entries, 4),
	    graph_widen(g, graph_one_hot(g, field, fields), 3));
	own = graph_sum(g, own, 2, false);
	own = graph_sum(g, graph_join(g, "Mul", own, own), 2, false);
	both = graph_join(g, "Sub", graph_sum(g, both, 1, true), graph_sum(g, own, 1, true));
	both = graph_join(g, "Mul", both, onnx_floats(g->onnx, &(float){ 0.5f }, 0, NULL));
	return graph_join(g, "Add", graph_join(g, "Add", linear, both), g->table[1].values);
}

const struct model_kind model_kind_ffm = {
	.fields = true,
	.fits = ffm_fits,
	.plan = ffm_plan,
	.scratch = ffm_scratch,
	.grad = ffm_grad,
	.forward = ffm_forward,
	.parts = ffm_parts,
	.graph = ffm_graph,
};
