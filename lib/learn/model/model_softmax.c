/* SPDX-License-Identifier: ISC */
#include "model/layer.h"
#include "model/model_kind.h"

/* P(class) = softmax(x w + b), loss is the cross entropy. */

static enum err_code softmax_fits(const struct model_shape *shape, struct err *e)
{
	if (shape->classes < 2)
		return err_set(e, ERR_CONFIG,
		    "job.model softmax needs at least two classes, the data "
		    "has %zu; use linear, or other data",
		    shape->classes);
	return ERR_OK;
}

static void softmax_plan(struct model *m)
{
	m->outputs = m->shape.classes;
	model_add_table(m, "w", m->shape.sparse, m->shape.sparse ? 0 : m->shape.features,
	    m->outputs, 0, true);
	model_add_table(m, "b", false, 1, m->outputs, 0, false);
}

static size_t softmax_scratch(const struct model *m)
{
	return m->outputs;
}

static double softmax_grad(struct model *m, const struct batch *b, const float *const params[],
    float *const grads[])
{
	float *z = m->scratch;
	double loss;

	layer_input(b, m->outputs, params[0], params[1], z);
	loss = layer_softmax(b, m->outputs, z);
	layer_softmax_delta(b, m->outputs, z);
	layer_input_grad(b, m->outputs, z, grads[0], grads[1]);
	return loss / (double)b->rows;
}

static double softmax_forward(struct model *m, const struct batch *b, const float *const params[],
    float *scores)
{
	layer_input(b, m->outputs, params[0], params[1], scores);
	return layer_softmax(b, m->outputs, scores);
}

const struct model_kind model_kind_softmax = {
	.fits = softmax_fits,
	.plan = softmax_plan,
	.scratch = softmax_scratch,
	.grad = softmax_grad,
	.forward = softmax_forward,
};
