#ifndef MODEL_MODEL_KIND_H
#define MODEL_MODEL_KIND_H

#include "model/model.h"

/* For lib/model only: what a model_NAME.c provides, and what model.c keeps. */
struct model_kind {
	bool hidden;                    /* has hidden layers */
	bool fields;                    /* looks at the fields of the data */
	bool outside;                   /* the data are not known here */
	/* Whether the shape suits, beyond what model.c checks for all. */
	enum err_code (*fits)(const struct model_shape *shape, struct err *e);
	/* Set outputs and add the tables. */
	void (*plan)(struct model *m);
	/* Floats of scratch memory an example needs. */
	size_t (*scratch)(const struct model *m);
	/* As model_grad and model_forward; b has at least one example. */
	double (*grad)(struct model *m, const struct batch *b, const float *const params[],
	               float *const grads[]);
	double (*forward)(struct model *m, const struct batch *b, const float *const params[],
	                  float *scores);
};

#define MODEL(name, task, help, tables) extern const struct model_kind model_kind_##name;
#include "model/model.def"
#undef MODEL

/* In the order of model.def, as model_info_at counts; NULL: it is not in this program. */
extern const struct model_kind *const model_kinds[];

struct model {
	const struct model_kind *kind;
	const struct model_info *info;
	struct model_shape shape;       /* hidden points to our own copy; activation is not kept */
	size_t *hidden;
	bool tanh;
	size_t outputs;
	struct model_table *tables;
	size_t ntables;
	float *scratch;
	size_t reserved;                /* examples that scratch has room for */
};

/* Append a table; fan_in 0 means zeroes, else Glorot and Bengio 2010, eq. 16. */
void model_add_table(struct model *m, const char *name, bool sparse, size_t rows, size_t cols,
                     size_t fan_in, bool decay);

#endif
