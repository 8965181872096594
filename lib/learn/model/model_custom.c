/* SPDX-License-Identifier: ISC */
#include <math.h>

#include "model/model_kind.h"

/* Model custom: the job names the tables, and a program computes the gradient. */

static enum err_code custom_fits(const struct model_shape *shape, struct err *e)
{
	return shape->ntables
	    ? ERR_OK
	    : err_set(e, ERR_CONFIG,
	          "job.tables: model custom has those that are named here, as w:784x10,b:10");
}

/* A table's rows stand in for fan_in, so glorot is uniform in +-sqrt(6 / (rows + cols)). The
 * caller's list of tables is forgotten afterwards, because it need not outlive model_new. */
static void custom_plan(struct model *m)
{
	const struct model_shape *s = &m->shape;

	for (size_t i = 0; i < s->ntables; i++)
		model_add_table(m, s->table[i].name, s->table[i].sparse,
		    s->table[i].sparse ? 0 : s->table[i].rows, s->table[i].cols,
		    s->table[i].init == INIT_GLOROT ? s->table[i].rows : 0, s->table[i].decay);
	m->shape.table = NULL;
}

static size_t custom_scratch(const struct model *m)
{
	return m->outputs;
}

static double custom_grad(struct model *m, const struct batch *b, const float *const params[],
    float *const grads[])
{
	const struct model_outside *o = m->shape.outside;

	return o ? o->gradient(o->ctx, b, params, grads) : NAN;
}

/* The program scores examples itself; without its answer no score is known. */
static double custom_forward(struct model *m, const struct batch *b, const float *const params[],
    float *scores)
{
	(void)m;
	(void)params;
	for (size_t r = 0; r < b->rows; r++)
		scores[r] = NAN;
	return NAN;
}

const struct model_kind model_kind_custom = {
	.outside = true,
	.fits = custom_fits,
	.plan = custom_plan,
	.scratch = custom_scratch,
	.grad = custom_grad,
	.forward = custom_forward,
};

enum {
#define MODEL(name, task, loss, takes, reads, vectors, help, tables, defaults, enough, ...) \
	KIND_##name,
#include "model/model.def"
#undef MODEL
	NKINDS
};

const struct model_kind *const model_kinds_custom[NKINDS] = { [KIND_custom] = &model_kind_custom };
