/* SPDX-License-Identifier: ISC */
#include "model/layer.h"
#include "model/model_kind.h"

/* f = x w + b, loss (y - f)^2 / 2: least squares. */

static enum err_code linear_fits(const struct model_shape *shape, struct err *e)
{
	(void)shape;
	(void)e;
	return ERR_OK;
}

static void linear_plan(struct model *m)
{
	m->outputs = 1;
	model_add_table(m, "w", m->shape.sparse, m->shape.sparse ? 0 : m->shape.features, 1, 0,
	    true);
	model_add_table(m, "b", false, 1, 1, 0, false);
}

static size_t linear_scratch(const struct model *m)
{
	return m->outputs;
}

/* d loss / d f = weight (f - y) / rows; it replaces f in the scratch memory. */
static double linear_grad(struct model *m, const struct batch *b, const float *const params[],
    float *const grads[])
{
	float *f = m->scratch, share = 1 / (float)b->rows;
	double loss = 0;

	layer_input(b, 1, params[0], params[1], f);
	for (size_t r = 0; r < b->rows; r++) {
		double off = (double)f[r] - (double)b->y[r];

		loss += 0.5 * off * off * (double)batch_weight(b, r);
		f[r] = (float)off * share * batch_weight(b, r);
	}
	layer_input_grad(b, 1, f, grads[0], grads[1]);
	return loss / (double)b->rows;
}

static double linear_forward(struct model *m, const struct batch *b, const float *const params[],
    float *scores)
{
	double loss = 0;

	(void)m;
	layer_input(b, 1, params[0], params[1], scores);
	for (size_t r = 0; b->y != NULL && r < b->rows; r++) {
		double off = (double)scores[r] - (double)b->y[r];

		loss += 0.5 * off * off * (double)batch_weight(b, r);
	}
	return loss;
}

const struct model_kind model_kind_linear = {
	.fits = linear_fits,
	.plan = linear_plan,
	.scratch = linear_scratch,
	.grad = linear_grad,
	.forward = linear_forward,
};
