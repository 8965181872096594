/* SPDX-License-Identifier: ISC */
#include "model/graph_parts.h"

/* A tower on the data, on whose outputs the loss acts. */

static enum err_code mlp_fits(const struct model_shape *shape, struct err *e)
{
	if (shape->nhidden == 0)
		return err_set(e, ERR_CONFIG,
		    "job.model mlp needs job.hidden, such as [128]; without "
		    "hidden layers use softmax, logistic or linear");
	return ERR_OK;
}

/* The tower on a batch, or one that is planned: a batch without examples. */
static struct tower mlp_tower(const struct model *m, const struct batch *b)
{
	return tower_of(m, m->shape.features, m->outputs, m->shape.sparse ? b : NULL);
}

static void mlp_plan(struct model *m)
{
	struct tower t = mlp_tower(m, &(struct batch){ .sparse = true });

	tower_plan(m, &t);
}

static size_t mlp_scratch(const struct model *m)
{
	struct tower t = mlp_tower(m, NULL);

	return tower_scratch(&t);
}

/* The tower's output becomes its gradient in the place where tower_back looks for it. */
static double mlp_grad(struct model *m, const struct batch *b, const float *const params[],
    float *const grads[])
{
	struct tower t = mlp_tower(m, b);
	float *delta = tower_run(m, &t, b->rows, b->x, params, m->scratch, NULL);
	double loss = loss_grad(m->loss, b, m->outputs, delta);

	tower_back(m, &t, b->rows, b->x, params, m->scratch, grads, NULL);
	return loss;
}

static double mlp_forward(struct model *m, const struct batch *b, const float *const params[],
    float *scores)
{
	struct tower t = mlp_tower(m, b);

	tower_run(m, &t, b->rows, b->x, params, m->scratch, scores);
	return loss_scores(m->loss, b, m->outputs, scores);
}

static const char *mlp_graph(const struct model *m, const struct graph *g)
{
	struct tower t = mlp_tower(m, NULL);

	return graph_tower(g, m, &t, 0, g->x);
}

const struct model_kind model_kind_mlp = {
	.hidden = true,
	.fits = mlp_fits,
	.plan = mlp_plan,
	.scratch = mlp_scratch,
	.grad = mlp_grad,
	.forward = mlp_forward,
	.graph = mlp_graph,
};
