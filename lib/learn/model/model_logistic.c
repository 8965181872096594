/* SPDX-License-Identifier: ISC */
#include "model/layer.h"
#include "model/model_kind.h"

/* P(y = 1) = s(f) for f = x w + b and s(f) = 1 / (1 + exp(-f)); loss is the
 * negative log likelihood. */

static enum err_code logistic_fits(const struct model_shape *shape, struct err *e)
{
	if (shape->classes != 2)
		return err_set(e, ERR_CONFIG,
		    "job.model logistic needs two classes, the data has %zu; "
		    "use %s",
		    shape->classes,
		    shape->classes > 2 ? "softmax or mlp" : "linear, or other data");
	return ERR_OK;
}

static void logistic_plan(struct model *m)
{
	m->outputs = 1;
	model_add_table(m, "w", m->shape.sparse, m->shape.sparse ? 0 : m->shape.features, 1, 0,
	    true);
	model_add_table(m, "b", false, 1, 1, 0, false);
}

static size_t logistic_scratch(const struct model *m)
{
	return m->outputs;
}

/* d loss / d f = weight (s(f) - y) / rows, the derivative of the negative log likelihood, in which s'(f)
 * cancels. */
static double logistic_grad(struct model *m, const struct batch *b, const float *const params[],
    float *const grads[])
{
	double loss = 0, n = (double)b->rows;
	float *f = m->scratch;

	layer_input(b, 1, params[0], params[1], f);
	for (size_t r = 0; r < b->rows; r++) {
		double fr = (double)f[r], y = (double)b->y[r], weight = (double)batch_weight(b, r);

		loss += layer_logistic_loss(fr, y) * weight;
		f[r] = (float)((layer_sigmoid(fr) - y) / n * weight);
	}
	layer_input_grad(b, 1, f, grads[0], grads[1]);
	return loss / n;
}

static double logistic_forward(struct model *m, const struct batch *b, const float *const params[],
    float *scores)
{
	double loss = 0;

	(void)m;
	layer_input(b, 1, params[0], params[1], scores);
	for (size_t r = 0; r < b->rows; r++) {
		double f = (double)scores[r];

		if (b->y != NULL)
			loss += layer_logistic_loss(f, (double)b->y[r]) *
			    (double)batch_weight(b, r);
		scores[r] = (float)layer_sigmoid(f);
	}
	return loss;
}

const struct model_kind model_kind_logistic = {
	.fits = logistic_fits,
	.plan = logistic_plan,
	.scratch = logistic_scratch,
	.grad = logistic_grad,
	.forward = logistic_forward,
};
