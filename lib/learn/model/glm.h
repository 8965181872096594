/* SPDX-License-Identifier: ISC */
#ifndef MODEL_GLM_H
#define MODEL_GLM_H

#include "model/model_kind.h"

/* Linear models: outputs f = x w + b, on which the model's loss acts. Tables "w" (features,
 * outputs) and "b" (outputs). A model_NAME.c implements its model_kind with these functions; shapes
 * and contracts are those of model_kind.h. */
enum err_code glm_fits(const struct model_shape *shape, struct err *e);
void glm_plan(struct model *m);
size_t glm_scratch(const struct model *m);
double glm_grad(struct model *m, const struct batch *b, const float *const params[],
    float *const grads[]);
double glm_forward(struct model *m, const struct batch *b, const float *const params[],
    float *scores);
void glm_parts(struct model *m, const struct batch *b, size_t r, const float *const params[],
    double *part, double *base);
const char *glm_graph(const struct model *m, const struct graph *g);

#endif
