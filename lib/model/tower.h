#ifndef MODEL_TOWER_H
#define MODEL_TOWER_H

#include "model/model_kind.h"

/* Layers behind one another: h_0 is the input, h_{l+1} = act(h_l w_l + b_l), and the last has no
 * activation.  Parameters and gradients come as w_0, b_0, w_1, b_1 ...; widths of the hidden
 * layers, and the activation, are the model's.  Gradients by back-propagation: delta of a layer is
 * d loss / d (h_l w_l + b_l), as (examples, width). */
struct tower {
	size_t in, out;
};

/* Tables w0, b0, w1 ...; how many there are is tower_tables. */
void tower_plan(struct model *m, const struct tower *t);
/* Floats of scratch an example. */
size_t tower_scratch(const struct model *m, const struct tower *t);
/* acts: rows * tower_scratch floats, which tower_back needs.  The last layer's output, (rows, out), goes
 * to `last`, or when that is NULL stays in acts, where the value points. */
float *tower_run(const struct model *m, const struct tower *t, size_t rows, const float *in, const float *const params[], float *acts,
                 float *last);
/* After tower_run without `last`, whose output holds delta by now: gradients, written whole, and unless it is
 * NULL d loss / d in to `below`, which may be `in`. */
void tower_back(const struct model *m, const struct tower *t, size_t rows, const float *in, const float *const params[], float *acts,
                float *const grads[], float *below);

#endif
