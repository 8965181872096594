#include "model/model_kind.h"

/* What the library has of models: custom, whose gradient is the caller's.  So it needs no BLAS. */
enum {
#define MODEL(name, task, help, tables) KIND_##name,
#include "model/model.def"
#undef MODEL
	NKINDS
};

const struct model_kind *const model_kinds[NKINDS] = { [KIND_custom] = &model_kind_custom };
