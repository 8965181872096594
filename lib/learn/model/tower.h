/* SPDX-License-Identifier: ISC */
#ifndef MODEL_TOWER_H
#define MODEL_TOWER_H

#include "model/model_kind.h"

/* A tower of layers: h_0 is the input, h_{l+1} = act(h_l w_l + b_l), and the last layer has no
 * activation. Parameters and gradients are in the order w_0, b_0, w_1, b_1 ...; the model gives the
 * activation. Gradients by back-propagation: delta of a layer
 * is d loss / d (h_l w_l + b_l), as (examples, width). Pure, with memory of the caller. */
struct tower {
	size_t in, out; /* widths of input and output; in is not used with `sparse` */
	/* The input is the entries of sparse examples, and w0 a sparse table with a row for each
	 * feature: the batch, or any that is not NULL for tower_plan. NULL: the input is dense. */
	const struct batch *sparse;
	const size_t *hidden; /* widths of the hidden layers, borrowed */
	size_t nhidden;
	const char *prefix; /* before the names of its tables; NULL: they have none */
};

/* A tower whose hidden layers are those of job.hidden. */
struct tower tower_of(const struct model *m, size_t in, size_t out, const struct batch *sparse);

/* Adds the tables w0, b0, w1, ... */
void tower_plan(struct model *m, const struct tower *t);
/* Floats of scratch memory an example. */
size_t tower_scratch(const struct tower *t);
/* Computes the tower. in: (rows, t->in), NULL with a sparse input. acts: rows * tower_scratch
 * floats, which tower_back needs afterwards. The output, (rows, out), goes to `last`, or, if that
 * is NULL, stays in acts; returns where it is. */
float *tower_run(const struct model *m, const struct tower *t, size_t rows, const float *in,
    const float *const params[], float *acts, float *last);
/* After tower_run with `last` NULL, and with its output replaced by delta: writes the gradients,
 * whole, and, unless `below` is NULL, d loss / d in to `below`, which may be `in`. With a sparse
 * input it must be NULL. */
void tower_back(const struct model *m, const struct tower *t, size_t rows, const float *in,
    const float *const params[], float *acts, float *const grads[], float *below);

#endif
