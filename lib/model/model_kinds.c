#include "model/model_kind.h"

/* Apart from model.c, so that a program may do without their arithmetic, and BLAS, by a list of its own. */
const struct model_kind *const model_kinds[] = {
#define MODEL(name, task, help, tables) &model_kind_##name,
#include "model/model.def"
#undef MODEL
};
