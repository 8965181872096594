/* SPDX-License-Identifier: ISC */
#include <math.h>

#include "math/blas.h"
#include "model/factors.h"

/* The classifier of fastText (Joulin et al., "Bag of Tricks for Efficient Text Classification", 2016): a
 * linear model on the mean of the vectors of an example's features, which all classes share:
 *
 *   h = sum_i x_i v_i / sum_i |x_i|,  f = h w,  P(class) = softmax(f).
 *
 * There is no bias. As in fastText, the vectors begin between -1 / factors and 1 / factors, and w with
 * zeroes. */

static void fasttext_plan(struct model *m)
{
	factors_plan(m, m->shape.factors, false);
	m->tables[0].init_scale = 1 / (float)m->shape.factors;
	model_add_table(m, "w", false, m->shape.factors, m->outputs, 0, true);
}

/* The mean vector h, and the outputs f. */
static size_t fasttext_scratch(const struct model *m)
{
	return m->shape.factors + m->outputs;
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

/* In the scratch memory the outputs become their gradient, and then the means become theirs. */
static double fasttext_grad(struct model *m, const struct batch *b, const float *const params[],
    float *const grads[])
{
	size_t k = m->shape.factors, n = m->outputs;
	float *h = m->scratch, *f = h + b->rows * k;
	double loss;

	compute_means(b, k, params[0], h);
	blas_gemm(false, false, b->rows, n, k, 1, h, params[1], 0, f);
	loss = loss_grad(&m->loss, b, n, f);
	blas_gemm(true, false, k, n, b->rows, 1, h, f, 0, grads[1]);
	blas_gemm(false, true, b->rows, k, n, 1, f, params[1], 0, h);
	factors_clear(&m->tables[0], b, grads[0]);
	spread_means(b, k, h, grads[0]);
	return loss / (double)b->rows;
}

static double fasttext_forward(struct model *m, const struct batch *b, const float *const params[],
    float *scores)
{
	size_t k = m->shape.factors;

	compute_means(b, k, params[0], m->scratch);
	blas_gemm(false, false, b->rows, m->outputs, k, 1, m->scratch, params[1], 0, scores);
	return loss_scores(&m->loss, b, m->outputs, scores);
}

const struct model_kind model_kind_fasttext = {
	.fits = factors_fit,
	.plan = fasttext_plan,
	.scratch = fasttext_scratch,
	.grad = fasttext_grad,
	.forward = fasttext_forward,
};
