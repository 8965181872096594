/* SPDX-License-Identifier: ISC */
#include "model/factors.h"

#include <math.h>

#include "model/graph_parts.h"

/* Bound of initial factors: large enough to differ from each other, small beside what data
 * teach. */
#define INIT_LIMIT 0.05f

void factors_add_vectors(struct model *m, const char *name, size_t width)
{
	model_add_table(m, name, m->shape.sparse, m->shape.sparse ? 0 : m->shape.features, width, 1,
	    true);
	m->tables[m->ntables - 1].init_scale = INIT_LIMIT;
}

void factors_plan(struct model *m, size_t width, bool bias)
{
	factors_add_vectors(m, "v", width);
	if (bias)
		model_add_table(m, "b", false, 1, 1, 0, false);
}

enum err_code factors_fit(const struct model_shape *shape, struct err *e)
{
	(void)shape;
	(void)e;
	return ERR_OK;
}

/* Products are rounded as floats, and summed in double. */
double factors_linear(const struct entries *x, size_t width, const float *v)
{
	double f = 0;

	for (size_t i = 0; i < x->n; i++)
		f += (double)(v[entries_at(x, i, width)] * x->val[i]);
	return f;
}

void factors_linear_spread(const struct entries *x, size_t width, float delta, float *g)
{
	for (size_t i = 0; i < x->n; i++)
		g[entries_at(x, i, width)] += delta * x->val[i];
}

/* sum_i<j <v_i, v_j> x_i x_j = (|sum_i x_i v_i|^2 - sum_i x_i^2 |v_i|^2) / 2 (Rendle 2010, lemma
 * 3.1), which costs k for each entry instead of k for each pair. Leaves sum_i x_i v_i in the
 * scratch memory for pairs_spread, which must follow for the same example. */
static double pairs_score(const struct model *m, const struct entries *x, const float *v)
{
	size_t k = m->shape.factors;
	float *sum = m->scratch;
	double squares = 0;

	memset(sum, 0, k * sizeof *sum);
	for (size_t i = 0; i < x->n; i++) {
		const float *row = v + entries_at(x, i, k + 1) + 1;
		float at = x->val[i];

		entries_axpy(k, at, row, sum);
		squares += (double)(entries_dot(k, row, row) * at * at);
	}
	return factors_linear(x, k + 1, v) + ((double)entries_dot(k, sum, sum) - squares) / 2;
}

/* d f / d v_i = x_i (sum_j x_j v_j) - x_i^2 v_i, with the sum that pairs_score has left in the
 * scratch memory. */
static void pairs_spread(const struct model *m, const struct entries *x, const float *v,
    float delta, float *g)
{
	size_t k = m->shape.factors;

	factors_linear_spread(x, k + 1, delta, g);
	for (size_t i = 0; i < x->n; i++) {
		size_t at = entries_at(x, i, k + 1) + 1;
		float d = delta * x->val[i];

		entries_axpy(k, d, m->scratch, g + at);
		entries_axpy(k, -d * x->val[i], v + at, g + at);
	}
}

/* Half of the products of entry i with all others is x_i <v_i, sum_j x_j v_j - x_i v_i> / 2. */
static void pairs_parts(const struct model *m, const struct entries *x, const float *v,
    double *part)
{
	size_t k = m->shape.factors;

	for (size_t i = 0; i < x->n; i++) {
		const float *row = v + entries_at(x, i, k + 1);

		part[i] = (double)row[0] * (double)x->val[i];
	}
	for (size_t f = 1; f <= k; f++) {
		double sum = 0;

		for (size_t i = 0; i < x->n; i++)
			sum += (double)v[entries_at(x, i, k + 1) + f] * (double)x->val[i];
		for (size_t i = 0; i < x->n; i++) {
			double own = (double)v[entries_at(x, i, k + 1) + f] * (double)x->val[i];

			part[i] += own * (sum - own) / 2;
		}
	}
}

const struct factors factors_pairs = { pairs_score, pairs_spread, pairs_parts };

void factors_parts(const struct factors *f, const struct model *m, const struct batch *b, size_t r,
    const float *const params[], double *part, double *base)
{
	struct entries x = entries_of(b, r);

	f->parts(m, &x, params[0], part);
	*base = (double)params[1][0];
}

void factors_clear(const struct model_table *table, const struct batch *b, float *g)
{
	size_t rows = b->sparse ? b->nids : b->cols;

	if (rows)
		memset(g, 0, rows * table->cols * sizeof *g);
}

double factors_grad(struct model *m, const struct factors *f, const struct batch *b,
    const float *const params[], float *const grads[])
{
	double loss = 0, n = (double)b->rows, bias = 0, slope;

	factors_clear(&m->tables[0], b, grads[0]);
	for (size_t r = 0; r < b->rows; r++) {
		struct entries x = entries_of(b, r);
		double at = (double)params[1][0] + f->score(m, &x, params[0]), y = (double)b->y[r];
		double weight = (double)batch_weight(b, r), delta;

		loss += loss_at(m->loss, at, y, &slope) * weight;
		delta = slope / n * weight;
		bias += delta;
		f->spread(m, &x, params[0], (float)delta, grads[0]);
	}
	grads[1][0] = (float)bias;
	return loss_unscaled(m->loss, loss / n);
}

/* Adds delta times the gradient of f for entry i to g, which has one row; row: the entry's parameters. As
 * pairs_spread. */
static void add_row_of_pairs(const struct model *m, const struct entries *x, size_t i,
    const float *row, float delta, float *g)
{
	size_t k = m->shape.factors;
	float d = delta * x->val[i];

	g[0] += d;
	entries_axpy(k, d, m->scratch, g + 1);
	entries_axpy(k, -d * x->val[i], row + 1, g + 1);
}

/* Does an entry before entry i have its feature? Examples have few entries. */
static bool feature_came_before(const struct entries *x, size_t i)
{
	for (size_t j = 0; j < i; j++)
		if (x->col[j] == x->col[i])
			return true;
	return false;
}

/* Updates each row that the example has, once, with the sum of the gradients of the row's entries.
 * The gradient of a row depends on no other row but by the sums that pairs_score has left, so rows may
 * change one after the other. */
static void update_rows_of_pairs(const struct model *m, const struct entries *x, size_t example,
    float *v, float delta, const struct model_update *update)
{
	size_t k = m->shape.factors;
	float *g = m->scratch + k;

	for (size_t i = 0; i < x->n; i++) {
		float *row = v + entries_at(x, i, k + 1);

		if (feature_came_before(x, i))
			continue;
		memset(g, 0, (k + 1) * sizeof *g);
		for (size_t j = i; j < x->n; j++)
			if (x->col[j] == x->col[i])
				add_row_of_pairs(m, x, j, row, delta, g);
		update->row(update->ctx, example, 0, x->col[i], row, g);
	}
}

/* How many examples before its turn an example is expected, in stages 0 and 1. */
static const size_t expected_before[] = { 12, 6 };

/* Loads the rows that later examples use into the cache of the processor, for the rows of a large batch
 * are all over the memory. An example has few entries. */
static void expect_rows(const struct model *m, const struct batch *b, size_t now, const float *v,
    const struct model_update *update)
{
	for (unsigned stage = 0; stage < 2; stage++) {
		size_t r = now + expected_before[stage];
		struct entries x = r < b->rows ? entries_of(b, r) : (struct entries){ 0 };

		for (size_t i = 0; i < x.n && i < 4; i++) {
			const float *row = v + entries_at(&x, i, m->shape.factors + 1);

			if (stage) {
				__builtin_prefetch(row, 1);
				__builtin_prefetch(row + m->shape.factors, 1);
			}
			if (update->expect)
				update->expect(update->ctx, 0, x.col[i], stage);
		}
	}
}

double factors_learn_pairs(struct model *m, const struct batch *b, float *const params[],
    const struct model_update *update)
{
	double sum = 0, slope;

	for (size_t r = 0; r < b->rows; r++) {
		struct entries x = entries_of(b, r);
		double at = (double)params[1][0] + pairs_score(m, &x, params[0]);
		double weight = (double)batch_weight(b, r);
		float delta;

		expect_rows(m, b, r, params[0], update);
		sum += loss_at(m->loss, at, (double)b->y[r], &slope) * weight;
		if (!isfinite((float)sum))
			break;
		delta = (float)(slope * weight);
		update_rows_of_pairs(m, &x, r, params[0], delta, update);
		update->row(update->ctx, r, 1, 0, params[1], &delta);
	}
	return loss_unscaled(m->loss, sum);
}

double factors_forward(struct model *m, const struct factors *f, const struct batch *b,
    const float *const params[], float *scores)
{
	double loss = 0, slope;

	for (size_t r = 0; r < b->rows; r++) {
		struct entries x = entries_of(b, r);
		double at = (double)params[1][0] + f->score(m, &x, params[0]);

		if (b->y != NULL)
			loss += loss_at(m->loss, at, (double)b->y[r], &slope) *
			    (double)batch_weight(b, r);
		scores[r] = (float)loss_score(m->loss, at);
	}
	return loss_unscaled(m->loss, loss);
}

const char *factors_graph_pairs(const struct model *m, const struct graph *g, const char **vectors)
{
	const char *rows = graph_entries(g, m, 0),
	           *linear = graph_sum(g, graph_columns(g, rows, 3, 0, 1), 1, false);

	*vectors = graph_columns(g, rows, 3, 1, m->shape.factors);
	return graph_join(g, "Add", linear, graph_pairs(g, *vectors));
}
