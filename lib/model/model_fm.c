#include <math.h>
#include <string.h>

#include "model/layer.h"
#include "model/model_kind.h"

/* Factorization machine of two classes (Rendle, "Factorization Machines", 2010, eq. 1 and lemma 3.1):
 *   f = b + sum_i w_i x_i + 1/2 sum_k ((sum_i v_ik x_i)^2 - sum_i v_ik^2 x_i^2),
 * loss the negative log likelihood.  A feature's row has w_i, then its k factors: one row
 * travels, not two. */

/* Factors begin within this: large enough to part from each other, small beside what data teach. */
#define INIT_LIMIT 0.05f

static enum err_code fm_fits(const struct model_shape *shape, struct err *e)
{
	if (shape->classes != 2)
		return err_set(e, ERR_CONFIG, "job.model fm needs two classes, the data has %zu", shape->classes);
	return ERR_OK;
}

static void fm_plan(struct model *m)
{
	m->outputs = 1;
	model_add_table(m, "v", m->shape.sparse, m->shape.sparse ? 0 : m->shape.features, 1 + m->shape.factors, 1, true);
	m->tables[0].init_scale = INIT_LIMIT;
	model_add_table(m, "b", false, 1, 1, 0, false);
}

/* The factors' sums, and f. */
static size_t fm_scratch(const struct model *m)
{
	return m->shape.factors + 1;
}

/* A row of the batch: n entries, of features col[i], or of all in a row when that is NULL. */
struct entries {
	const uint32_t *col;
	const float *val;
	size_t n;
};

static struct entries entries_of(const struct batch *b, size_t r)
{
	if (!b->sparse)
		return (struct entries){ NULL, b->x + r * b->cols, b->cols };
	return (struct entries){ b->col + b->start[r], b->val + b->start[r], b->start[r + 1] - b->start[r] };
}

static const float *row_of(const struct entries *x, size_t i, const float *v, size_t width)
{
	return v + (x->col ? x->col[i] : i) * width;
}

static double fm_score(const struct entries *x, size_t k, const float *v, float *sum)
{
	double f = 0;

	memset(sum, 0, k * sizeof *sum);
	for (size_t i = 0; i < x->n; i++) {
		const float *row = row_of(x, i, v, k + 1);
		float at = x->val[i], squares = 0;

		for (size_t j = 0; j < k; j++) {
			float t = row[1 + j] * at;

			sum[j] += t;
			squares += t * t;
		}
		f += (double)(row[0] * at - squares / 2);
	}
	for (size_t j = 0; j < k; j++)
		f += (double)sum[j] * (double)sum[j] / 2;
	return f;
}

static void fm_row_grad(const struct entries *x, size_t k, const float *v, const float *sum, float delta, float *g)
{
	for (size_t i = 0; i < x->n; i++) {
		const float *row = row_of(x, i, v, k + 1);
		float at = x->val[i], d = delta * at, *out = g + (row - v);

		out[0] += d;
		for (size_t j = 0; j < k; j++)
			out[1 + j] += d * (sum[j] - row[1 + j] * at);
	}
}

static double fm_grad(struct model *m, const struct batch *b, const float *const params[], float *const grads[])
{
	size_t k = m->shape.factors, rows = b->sparse ? b->nids : b->cols;
	double loss = 0, n = (double)b->rows, bias = 0;
	float *sum = m->scratch;

	if (rows)
		memset(grads[0], 0, rows * (k + 1) * sizeof(float));
	for (size_t r = 0; r < b->rows; r++) {
		struct entries x = entries_of(b, r);
		double f = (double)params[1][0] + fm_score(&x, k, params[0], sum), y = (double)b->y[r];
		double delta = (layer_sigmoid(f) - y) / n;

		loss += layer_logistic_loss(f, y);
		bias += delta;
		fm_row_grad(&x, k, params[0], sum, (float)delta, grads[0]);
	}
	grads[1][0] = (float)bias;
	return loss / n;
}

static double fm_forward(struct model *m, const struct batch *b, const float *const params[], float *scores)
{
	double loss = 0;

	for (size_t r = 0; r < b->rows; r++) {
		struct entries x = entries_of(b, r);
		double f = (double)params[1][0] + fm_score(&x, m->shape.factors, params[0], m->scratch);

		if (b->y != NULL)
			loss += layer_logistic_loss(f, (double)b->y[r]);
		scores[r] = (float)layer_sigmoid(f);
	}
	return loss;
}

const struct model_kind model_kind_fm = {
	.fits = fm_fits,
	.plan = fm_plan,
	.scratch = fm_scratch,
	.grad = fm_grad,
	.forward = fm_forward,
};
