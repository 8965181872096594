#ifndef MODEL_DEEP_H
#define MODEL_DEEP_H

#include "model/factors.h"
#include "model/tower.h"

/* Models of two classes that add two numbers: one straight from the features, and one of a tower
 * (whose input is, field by field, the sum of x_i v_i over the field's features).  Both are of
 * the same table "v"; the bias is the tower's last. */

enum err_code deep_fits(const struct model_shape *shape, const char *model, struct err *e);
void deep_plan(struct model *m);
/* Beside what the straight part needs, which is a float for each factor. */
size_t deep_scratch(const struct model *m);
double deep_grad(struct model *m, const struct factors *straight, const struct batch *b, const float *const params[],
                 float *const grads[]);
double deep_forward(struct model *m, const struct factors *straight, const struct batch *b, const float *const params[],
                    float *scores);

#endif
