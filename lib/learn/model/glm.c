/* SPDX-License-Identifier: ISC */
#include "model/glm.h"

#include "model/entries.h"
#include "model/graph_parts.h"
#include "model/layer.h"

/* All shapes that pass the checks of model.c. */
enum err_code glm_fits(const struct model_shape *shape, struct err *e)
{
	(void)shape;
	(void)e;
	return ERR_OK;
}

void glm_plan(struct model *m)
{
	model_add_table(m, "w", m->shape.sparse, m->shape.sparse ? 0 : m->shape.features,
	    m->outputs, 0, true);
	model_add_table(m, "b", false, 1, m->outputs, 0, false);
}

size_t glm_scratch(const struct model *m)
{
	return m->outputs;
}

/* In the scratch memory the outputs become their gradient. */
double glm_grad(struct model *m, const struct batch *b, const float *const params[],
    float *const grads[])
{
	float *f = m->scratch;
	double loss;

	layer_input(b, m->outputs, params[0], params[1], f);
	loss = loss_grad(m->loss, b, m->outputs, f);
	layer_input_grad(b, m->outputs, f, grads[0], grads[1]);
	return loss;
}

double glm_forward(struct model *m, const struct batch *b, const float *const params[],
    float *scores)
{
	layer_input(b, m->outputs, params[0], params[1], scores);
	return loss_scores(m->loss, b, m->outputs, scores);
}

void glm_parts(struct model *m, const struct batch *b, size_t r, const float *const params[],
    double *part, double *base)
{
	struct entries x = entries_of(b, r);
	size_t n = m->outputs;

	for (size_t i = 0; i < x.n; i++)
		for (size_t k = 0; k < n; k++)
			part[i * n + k] = (double)x.val[i] *
			    (double)params[0][entries_at(&x, i, n) + k];
	for (size_t k = 0; k < n; k++)
		base[k] = (double)params[1][k];
}

const char *glm_graph(const struct model *m, const struct graph *g)
{
	return graph_join(g, "Add", graph_linear(g, m, 0), g->table[1].values);
}
