/* SPDX-License-Identifier: ISC */
#ifndef MODEL_DEEP_H
#define MODEL_DEEP_H

#include "model/factors.h"
#include "model/tower.h"

/* Two-class models that add two numbers: one computed straight from the features (a struct
 * factors), and one by a tower whose input is, field by field, the sum of x_i v_i over the field's
 * features. The bias is that of the tower's last layer.
 *
 * A model_NAME.c implements its model_kind with these functions; shapes and contracts are those of
 * model_kind.h. */

/* How such a model is composed. The straight part reads table 0. The vectors stand in table
 * `vectors`, after the first `before` numbers of each row, and the tower's tables follow it. */
struct deep {
	const struct factors *straight;
	size_t vectors;
	size_t before;
};

/* The tower, whose input are the sums of the vectors, field by field; without fields one sum. */
struct tower deep_tower(const struct model *m);
/* in (rows, width of the tower's input): for each field the sum of x_i v_i. v is (features, before +
 * factors), and the vectors come after the first `before` numbers of each row. */
void deep_embed(const struct model *m, size_t before, const struct batch *b, const float *v,
    float *in);
/* Backwards: adds to g, which has the layout of v, the gradient of the vectors; below is that by
 * the tower's input. */
void deep_embed_grad(const struct model *m, size_t before, const struct batch *b,
    const float *below, float *g);

/* ERR_CONFIG unless the shape suits such a model. */
enum err_code deep_fits(const struct model_shape *shape, const char *model, struct err *e);
/* Adds the tables of the tower, which has one output; those of the features come before. */
void deep_plan_tower(struct model *m);
/* Floats an example; the straight part needs one float for each factor more. */
size_t deep_scratch(const struct model *m);
/* The tower on the vectors of the entries, (N, K, factors): (N, 1). Its tables begin at `table`. */
const char *deep_graph_tower(const struct model *m, const struct graph *g, const char *vectors,
    size_t table);
/* As model_grad and model_forward. */
double deep_grad(struct model *m, const struct deep *d, const struct batch *b,
    const float *const params[], float *const grads[]);
double deep_forward(struct model *m, const struct deep *d, const struct batch *b,
    const float *const params[], float *scores);

#endif
