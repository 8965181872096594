/* SPDX-License-Identifier: ISC */
#include <assert.h>
#include <math.h>

#include "data/batch/data_classes.h"
#include "math/blas.h"
#include "model/factors.h"

/* The classifier of fastText (Joulin et al., "Bag of Tricks for Efficient Text Classification",
 * 2016): a linear model on the mean of the vectors of an example's features, which all classes
 * share:
 *
 *   h = sum_i x_i v_i / sum_i |x_i|,  f = h w,  P(class) = softmax(f).
 *
 * There is no bias. As in fastText, the vectors begin between -1 / factors and 1 / factors, and w
 * with zeroes.
 *
 * With shape.negatives, a step compares the class of each example with classes that were drawn for
 * its batch (data_classes.h) instead of with all. The columns of w are then the rows of a sparse
 * table c, of which a step needs the rows of its classes alone. */

static bool draws_classes(const struct model *m)
{
	return m->shape.negatives > 0;
}

static void fasttext_plan(struct model *m)
{
	factors_plan(m, m->shape.factors, false);
	m->tables[0].init_scale = 1 / (float)m->shape.factors;
	if (!draws_classes(m)) {
		model_add_table(m, "w", false, m->shape.factors, m->outputs, 0, true);
		return;
	}
	model_add_table(m, "c", true, 0, m->shape.factors, 0, true);
	m->tables[1].domain = &row_domain_classes;
}

/* The outputs that a gradient needs: of all classes, or of the example's class and drawn ones. */
static size_t count_outputs(const struct model *m)
{
	return draws_classes(m) ? 1 + m->shape.negatives : m->outputs;
}

/* The mean vector h, and the outputs f. */
static size_t fasttext_scratch(const struct model *m)
{
	return m->shape.factors + count_outputs(m);
}

/* The rows of the drawn classes, one after the other, and their gradient. */
static size_t fasttext_shared_scratch(const struct model *m)
{
	return draws_classes(m) ? 2 * count_outputs(m) * m->shape.factors : 0;
}

/* 1 / sum_i |x_i|; 0 for an example without features, whose mean is 0. */
static float mean_factor(const struct entries *x)
{
	double sum = 0;

	for (size_t i = 0; i < x->n; i++)
		sum += fabs((double)x->val[i]);
	return sum > 0 ? (float)(1 / sum) : 0;
}

/* h (rows, k): the weighted means of the vectors v (features, k). */
static void compute_means(const struct batch *b, size_t k, const float *v, float *h)
{
	memset(h, 0, b->rows * k * sizeof *h);
	for (size_t r = 0; r < b->rows; r++, h += k) {
		struct entries x = entries_of(b, r);
		float share = mean_factor(&x);

		for (size_t i = 0; i < x.n; i++)
			entries_axpy(k, x.val[i] * share, v + entries_at(&x, i, k), h);
	}
}

/* Adds the gradient by the vectors to g, given the one by the means, (rows, k). */
static void spread_means(const struct batch *b, size_t k, const float *below, float *g)
{
	for (size_t r = 0; r < b->rows; r++, below += k) {
		struct entries x = entries_of(b, r);
		float share = mean_factor(&x);

		for (size_t i = 0; i < x.n; i++)
			entries_axpy(k, x.val[i] * share, below, g + entries_at(&x, i, k));
	}
}

/* Replaces the outputs f (rows, 1 + ndrawn) by the gradient of each example's loss by them, and
 * returns the sum of the losses. Column 0 belongs to the class of the example, and is computed here
 * from its row of c and the mean h. The other columns have the products of h and the drawn classes.
 *
 * The loss needs the sum of e^f over all classes. A drawn class stands for e^f / p of it, where p
 * is the probability that it is drawn, so log p is subtracted from f. The class of the example is
 * always there, with p = 1, and does not count again where it was drawn. */
static double drawn_loss_grad(const struct model *m, const struct batch *b, const float *h,
    const float *c, float *f)
{
	const struct batch_classes *of = &b->classes;
	size_t k = m->shape.factors;
	int32_t own = 0;
	struct batch one = { .rows = 1, .label = &own };
	double loss = 0;

	for (size_t r = 0; r < b->rows; r++, h += k, f += 1 + of->ndrawn) {
		f[0] = entries_dot(k, h, c + of->place[r] * k);
		for (size_t j = 0; j < of->ndrawn; j++)
			f[1 + j] = of->drawn[j] == of->place[r] ? -INFINITY
			                                        : f[1 + j] - of->offset[j];
		one.weight = b->weight ? b->weight + r : NULL;
		loss += loss_grad(m->loss, &one, 1 + of->ndrawn, f);
	}
	return loss;
}

/* As full_grad, but c and g have a row for each of the batch's classes. */
static double drawn_grad(struct model *m, const struct batch *b, const float *c, float *h, float *g)
{
	const struct batch_classes *of = &b->classes;
	size_t k = m->shape.factors, n = 1 + of->ndrawn;
	float *f = h + b->rows * k, *drawn = m->scratch, *drawn_g = drawn + n * k,
	      share = 1 / (float)b->rows;
	double loss;

	assert(of->n > 0);
	/* Row 0 is for the column of f that belongs to another class in each example. */
	memset(drawn, 0, k * sizeof *drawn);
	for (size_t j = 0; j < of->ndrawn; j++)
		memcpy(drawn + (1 + j) * k, c + of->drawn[j] * k, k * sizeof *drawn);
	blas_gemm(false, true, b->rows, n, k, 1, h, drawn, 0, f);
	loss = drawn_loss_grad(m, b, h, c, f);
	blas_gemm(true, false, n, k, b->rows, share, f, h, 0, drawn_g);
	memset(g, 0, of->n * k * sizeof *g);
	for (size_t j = 0; j < of->ndrawn; j++)
		memcpy(g + of->drawn[j] * k, drawn_g + (1 + j) * k, k * sizeof *g);
	for (size_t r = 0; r < b->rows; r++)
		entries_axpy(k, f[r * n] * share, h + r * k, g + of->place[r] * k);
	blas_gemm(false, false, b->rows, k, n, share, f, drawn, 0, h);
	for (size_t r = 0; r < b->rows; r++)
		entries_axpy(k, f[r * n] * share, c + of->place[r] * k, h + r * k);
	return loss / (double)b->rows;
}

/* Writes the gradient by w (factors, classes) to g, and replaces the means h by their gradient.
 * Returns the loss of the batch, as loss_grad does. */
static double full_grad(struct model *m, const struct batch *b, const float *w, float *h, float *g)
{
	size_t k = m->shape.factors, n = m->outputs;
	float *f = h + b->rows * k;
	double loss;

	blas_gemm(false, false, b->rows, n, k, 1, h, w, 0, f);
	loss = loss_grad(m->loss, b, n, f);
	blas_gemm(true, false, k, n, b->rows, 1, h, f, 0, g);
	blas_gemm(false, true, b->rows, k, n, 1, f, w, 0, h);
	return loss;
}

/* In the scratch memory the outputs become their gradient, and then the means become theirs. */
static double fasttext_grad(struct model *m, const struct batch *b, const float *const params[],
    float *const grads[])
{
	float *h = m->scratch + fasttext_shared_scratch(m);
	size_t k = m->shape.factors;
	double loss;

	compute_means(b, k, params[0], h);
	loss = (draws_classes(m) ? drawn_grad : full_grad)(m, b, params[1], h, grads[1]);
	factors_clear(&m->tables[0], b, grads[0]);
	spread_means(b, k, h, grads[0]);
	return loss;
}

static double fasttext_forward(struct model *m, const struct batch *b, const float *const params[],
    float *scores)
{
	size_t k = m->shape.factors;

	compute_means(b, k, params[0], m->scratch);
	blas_gemm(false, draws_classes(m), b->rows, m->outputs, k, 1, m->scratch, params[1], 0,
	    scores);
	return loss_scores(m->loss, b, m->outputs, scores);
}

/* f = h w is a sum over the entries, since h is one. */
static void fasttext_parts(struct model *m, const struct batch *b, size_t r,
    const float *const params[], double *part, double *base)
{
	struct entries x = entries_of(b, r);
	size_t k = m->shape.factors, n = m->outputs;
	double share = (double)mean_factor(&x);

	for (size_t o = 0; o < n; o++)
		base[o] = 0;
	for (size_t i = 0; i < x.n; i++)
		for (size_t o = 0; o < n; o++) {
			const float *v = params[0] + entries_at(&x, i, k), *w = params[1];
			double f = 0;

			for (size_t j = 0; j < k; j++)
				f += (double)v[j] *
				    (double)(draws_classes(m) ? w[o * k + j] : w[j * n + o]);
			part[i * n + o] = f * (double)x.val[i] * share;
		}
}

const struct model_kind model_kind_fasttext = {
	.draws = true,
	.fits = factors_fit,
	.plan = fasttext_plan,
	.scratch = fasttext_scratch,
	.shared_scratch = fasttext_shared_scratch,
	.grad = fasttext_grad,
	.forward = fasttext_forward,
	.parts = fasttext_parts,
};
