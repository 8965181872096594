/* SPDX-License-Identifier: ISC */
#ifndef MODEL_MODEL_KIND_H
#define MODEL_MODEL_KIND_H

#include "model/graph.h"
#include "model/model.h"

/* The interface between model.c and the models, for this folder only: what a model_NAME.c provides
 * (struct model_kind), and the state that model.c keeps (struct model). The functions are called by
 * one thread at a time for a model. */
struct model_kind {
	bool hidden;  /* has hidden layers */
	bool fields;  /* uses the fields of the data */
	bool outside; /* only a user's program knows the data */
	bool draws;   /* can compare drawn classes or items (model_shape.negatives) */
	/* Does the shape suit, beyond the checks that model.c makes for all models? */
	enum err_code (*fits)(const struct model_shape *shape, struct err *e);
	/* Adds the tables. */
	void (*plan)(struct model *m);
	/* Number of floats of scratch memory an example needs. */
	size_t (*scratch)(const struct model *m);
	/* Number of floats that a batch needs besides. NULL: none. */
	size_t (*shared_scratch)(const struct model *m);
	/* As model_grad and model_forward, but b has the targets as tables fit them, and so has
	 * scores; b has at least one example. */
	double (*grad)(struct model *m, const struct batch *b, const float *const params[],
	    float *const grads[]);
	double (*forward)(struct model *m, const struct batch *b, const float *const params[],
	    float *scores);
	/* As model_parts, but in the units of scaled targets. NULL: scores are not sums of parts. */
	void (*parts)(struct model *m, const struct batch *b, size_t r, const float *const params[],
	    double *part, double *base);
	/* As model_learn, but b has the targets as tables fit them. NULL: the model needs the
	 * gradient of a batch. */
	double (*learn)(struct model *m, const struct batch *b, float *const params[],
	    const struct model_update *update);
	/* Adds the operators that compute what the loss gets, from the inputs and tables of g, and returns
	 * it, (N, outputs): the same as `forward`, but for rounding. NULL: the model cannot be a graph. */
	const char *(*graph)(const struct model *m, const struct graph *g);
};

#define MODEL(name, task, loss, takes, reads, vectors, help, tables, defaults, enough, ...) \
	extern const struct model_kind model_kind_##name;
#include "model/model.def"
#undef MODEL

struct model {
	const struct model_kind *kind;
	const struct model_info *info;
	/* hidden, bottom, place and scaling are copies; activation is not kept */
	struct model_shape shape;
	size_t *hidden, *bottom;
	uint16_t *place;
	struct target_scaling *scaling; /* of each output; NULL: targets are not scaled */
	bool tanh;
	enum model_task task;
	/* of each output, or one for all classes, as tables fit scaled targets; ops NULL: the kind
	 * has its own */
	struct loss_spec *loss;
	size_t outputs;
	struct model_table *tables;
	size_t ntables;
	float *scratch;
	float *class_weight; /* of each class; NULL: all have the weight 1 */
	/* of each example the scaled targets, or its weight times that of its class; NULL:
	 * neither */
	float *adjusted;
	size_t reserved; /* number of examples that scratch and adjusted have room for */
};

/* Appends a table; the rows of a sparse one are features. fan_in 0: zeroes at first, else Glorot
 * and Bengio 2010, eq. 16. */
void model_add_table(struct model *m, const char *name, bool sparse, size_t rows, size_t cols,
    size_t fan_in, bool decay);

#endif
