/* SPDX-License-Identifier: ISC */
#include "model/deep.h"

#include <stdio.h>

#include "math/blas.h"
#include "math/vec.h"
#include "model/graph_parts.h"
#include "model/layer.h"

/* DCN-V2 in its parallel form (Wang et al., "DCN V2: Improved Deep & Cross Network and Practical
 * Lessons for Web-scale Learning to Rank Systems", 2021, arXiv:2008.13535, eq. 1 and figure 1b):
 * layers that cross features, and a tower, on the same vectors. x_0 is the vectors of the fields
 * side by side, of width d. Cross layer l is
 *
 *   x_{l+1} = x_0 * (x_l w_l + b_l) + x_l
 *
 * with a whole matrix w_l (d, d) and products element by element, so x_L has products of up to
 * L + 1 features. The score is x_L c + tower(x_0), and its bias is that of the tower's last layer.
 * Unlike in the paper, a field with several features has the sum of their vectors. */

/* The tables: those of the cross layers stand between the vectors and c. */
enum { VECTORS, CROSS };

static size_t cross_layers(const struct model *m)
{
	return m->shape.cross;
}

/* The table of c; the tower's follow it. */
static size_t weights_table(const struct model *m)
{
	return CROSS + 2 * cross_layers(m);
}

static enum err_code dcn_fits(const struct model_shape *shape, struct err *e)
{
	if (shape->cross == 0)
		return err_set(e, ERR_CONFIG,
		    "job.cross: model dcn needs at least one cross layer");
	return deep_fits(shape, "dcn", e);
}

static void dcn_plan(struct model *m)
{
	size_t d = deep_tower(m).in;
	char name[sizeof m->tables->name];

	factors_add_vectors(m, "v", m->shape.factors);
	for (size_t l = 0; l < cross_layers(m); l++) {
		snprintf(name, sizeof name, "cross_w%zu", l);
		model_add_table(m, name, false, d, d, d, true);
		snprintf(name, sizeof name, "cross_b%zu", l);
		model_add_table(m, name, false, 1, d, 0, false);
	}
	model_add_table(m, "cross", false, d, 1, d, true);
	deep_plan_tower(m);
}

/* Scratch memory of a batch. */
struct crossing {
	size_t d, n; /* n: floats of one x_l */
	float *x;    /* x_0, x_1, ... x_L */
	float *u;    /* x_l w_l + b_l, of layers 0 to L - 1 */
	float *back; /* d loss / d x_l */
	float *sum;  /* d loss / d x_0 */
	float *acts; /* of the tower */
};

static struct crossing crossing_of(const struct model *m, size_t rows)
{
	struct crossing c = { .d = deep_tower(m).in, .x = m->scratch };

	c.n = rows * c.d;
	c.u = c.x + (cross_layers(m) + 1) * c.n;
	c.back = c.u + cross_layers(m) * c.n;
	c.sum = c.back + c.n;
	c.acts = c.sum + c.n;
	return c;
}

static size_t dcn_scratch(const struct model *m)
{
	struct tower t = deep_tower(m);

	return (2 * cross_layers(m) + 3) * t.in + tower_scratch(&t);
}

/* Computes x_1 to x_L. */
static void run_cross(const struct model *m, const struct crossing *c, size_t rows,
    const float *const params[])
{
	for (size_t l = 0; l < cross_layers(m); l++) {
		const float *x = c->x + l * c->n;
		float *u = c->u + l * c->n, *next = c->x + (l + 1) * c->n;

		layer_fill_bias(rows, c->d, params[CROSS + 2 * l + 1], u);
		blas_gemm(false, false, rows, c->d, c->d, 1, x, params[CROSS + 2 * l], 1, u);
		for (size_t i = 0; i < c->n; i++)
			next[i] = c->x[i] * u[i] + x[i];
	}
}

/* The score of example r; f is the tower's output. */
static double score_of(const struct model *m, const struct crossing *c, size_t r, float f,
    const float *const params[])
{
	return (double)f +
	    vec_dot(c->d, c->x + cross_layers(m) * c->n + r * c->d, params[weights_table(m)]);
}

/* Writes the gradients of c and of the cross layers, from delta, d loss / d score; c->sum gets
 * d loss / d x_0 by them. u of a layer, which is not needed any more, becomes d loss / d u. */
static void back_cross(const struct model *m, const struct crossing *c, size_t rows,
    const float *delta, const float *const params[], float *const grads[])
{
	size_t last = weights_table(m);

	blas_gemm(true, false, c->d, 1, rows, 1, c->x + cross_layers(m) * c->n, delta, 0,
	    grads[last]);
	for (size_t r = 0; r < rows; r++)
		vec_copy_scaled(c->d, delta[r], params[last], c->back + r * c->d);
	memset(c->sum, 0, c->n * sizeof *c->sum);
	for (size_t l = cross_layers(m); l-- > 0;) {
		float *u = c->u + l * c->n;

		for (size_t i = 0; i < c->n; i++) {
			c->sum[i] += c->back[i] * u[i];
			u[i] = c->back[i] * c->x[i];
		}
		blas_gemm(true, false, c->d, c->d, rows, 1, c->x + l * c->n, u, 0,
		    grads[CROSS + 2 * l]);
		layer_bias_grad(rows, c->d, u, grads[CROSS + 2 * l + 1]);
		blas_gemm(false, true, rows, c->d, c->d, 1, u, params[CROSS + 2 * l], 1, c->back);
	}
	vec_add(c->n, c->back, c->sum);
}

static double dcn_grad(struct model *m, const struct batch *b, const float *const params[],
    float *const grads[])
{
	const float *const *tower = params + weights_table(m) + 1;
	struct crossing c = crossing_of(m, b->rows);
	struct tower t = deep_tower(m);
	double loss = 0, n = (double)b->rows, slope;
	float *f;

	deep_embed(m, 0, b, params[VECTORS], c.x);
	run_cross(m, &c, b->rows, params);
	f = tower_run(m, &t, b->rows, c.x, tower, c.acts, NULL);
	for (size_t r = 0; r < b->rows; r++) {
		double weight = (double)batch_weight(b, r);

		loss += loss_at(m->loss, score_of(m, &c, r, f[r], params), (double)b->y[r],
		            &slope) *
		    weight;
		f[r] = (float)(slope / n * weight);
	}
	back_cross(m, &c, b->rows, f, params, grads);
	tower_back(m, &t, b->rows, c.x, tower, c.acts, grads + weights_table(m) + 1, c.back);
	vec_add(c.n, c.back, c.sum);
	factors_clear(&m->tables[VECTORS], b, grads[VECTORS]);
	deep_embed_grad(m, 0, b, c.sum, grads[VECTORS]);
	return loss_unscaled(m->loss, loss / n);
}

static double dcn_forward(struct model *m, const struct batch *b, const float *const params[],
    float *scores)
{
	struct crossing c = crossing_of(m, b->rows);
	struct tower t = deep_tower(m);
	double loss = 0, slope;

	deep_embed(m, 0, b, params[VECTORS], c.x);
	run_cross(m, &c, b->rows, params);
	tower_run(m, &t, b->rows, c.x, params + weights_table(m) + 1, c.acts, scores);
	for (size_t r = 0; r < b->rows; r++) {
		double at = score_of(m, &c, r, scores[r], params);

		if (b->y != NULL)
			loss += loss_at(m->loss, at, (double)b->y[r], &slope) *
			    (double)batch_weight(b, r);
		scores[r] = (float)loss_score(m->loss, at);
	}
	return loss_unscaled(m->loss, loss);
}

static const char *dcn_graph(const struct model *m, const struct graph *g)
{
	const char *first = graph_by_field(g, m, graph_entries(g, m, VECTORS), m->shape.factors),
	           *x = first;
	struct tower t = deep_tower(m);

	for (size_t l = 0; l < cross_layers(m); l++) {
		const char *u = graph_join(g, "MatMul", x, g->table[CROSS + 2 * l].values);

		u = graph_join(g, "Add", u, g->table[CROSS + 2 * l + 1].values);
		x = graph_join(g, "Add", graph_join(g, "Mul", first, u), x);
	}
	return graph_join(g, "Add", graph_join(g, "MatMul", x, g->table[weights_table(m)].values),
	    graph_tower(g, m, &t, weights_table(m) + 1, first));
}

const struct model_kind model_kind_dcn = {
	.hidden = true,
	.fields = true,
	.fits = dcn_fits,
	.plan = dcn_plan,
	.scratch = dcn_scratch,
	.grad = dcn_grad,
	.forward = dcn_forward,
	.graph = dcn_graph,
};
