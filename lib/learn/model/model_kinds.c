/* SPDX-License-Identifier: ISC */
#include "model/model_kind.h"

/* In an object of its own: whatever refers to it links the arithmetic of all models, and with it
 * BLAS. */
const struct model_kind *const model_kinds_all[] = {
#define MODEL(name, task, loss, takes, reads, vectors, help, tables, defaults, enough, ...) \
	&model_kind_##name,
#include "model/model.def"
#undef MODEL
};
