/* SPDX-License-Identifier: ISC */
#include "model/model_kind.h"

/* The models of the library: only "custom", whose gradient the caller computes.  So the library
 * needs no BLAS. */
enum {
#define MODEL(name, task, help, tables) KIND_##name,
#include "model/model.def"
#undef MODEL
	NKINDS
};

const struct model_kind *const model_kinds[NKINDS] = { [KIND_custom] = &model_kind_custom };
