/* SPDX-License-Identifier: ISC */
#include "model/model_kind.h"

/* In an object of its own, so that a program can replace it by a list without the arithmetic and
 * BLAS. */
const struct model_kind *const model_kinds[] = {
#define MODEL(name, task, help, tables) &model_kind_##name,
#include "model/model.def"
#undef MODEL
};
