/* SPDX-License-Identifier: ISC */
#include "model/tower.h"

#include <stdio.h>

#include "math/blas.h"
#include "model/layer.h"

/* Features that a sparse example is taken to have, by which the first weights are drawn. */
#define SPARSE_INPUTS 32u

/* Number of weight matrices: the hidden layers and the output. */
static size_t layer_count(const struct tower *t)
{
	return t->nhidden + 1;
}

/* Width of h_l. */
static size_t layer_width(const struct tower *t, size_t l)
{
	return l == 0 ? t->in : l == layer_count(t) ? t->out : t->hidden[l - 1];
}

struct tower tower_of(const struct model *m, size_t in, size_t out, const struct batch *sparse)
{
	return (struct tower){ .in = in,
		.out = out,
		.sparse = sparse,
		.hidden = m->hidden,
		.nhidden = m->shape.nhidden };
}

void tower_plan(struct model *m, const struct tower *t)
{
	for (size_t l = 0; l < layer_count(t); l++) {
		bool sparse = l == 0 && t->sparse;
		size_t rows = sparse ? 0 : layer_width(t, l);
		const char *prefix = t->prefix ? t->prefix : "";
		char name[sizeof m->tables->name];

		snprintf(name, sizeof name, "%sw%zu", prefix, l);
		model_add_table(m, name, sparse, rows, layer_width(t, l + 1),
		    sparse ? SPARSE_INPUTS : rows, true);
		snprintf(name, sizeof name, "%sb%zu", prefix, l);
		model_add_table(m, name, false, 1, layer_width(t, l + 1), 0, false);
	}
}

/* h_1, h_2, ... the output, and one spare layer of the widest hidden width. */
size_t tower_scratch(const struct tower *t)
{
	size_t sum = t->out, widest = 0;

	for (size_t i = 0; i < t->nhidden; i++) {
		sum += t->hidden[i];
		widest = t->hidden[i] > widest ? t->hidden[i] : widest;
	}
	return sum + widest;
}

/* Layer by layer from acts upwards; every layer's output is kept there, because tower_back needs
 * it. Without hidden layers the output is the only one. */
float *tower_run(const struct model *m, const struct tower *t, size_t rows, const float *in,
    const float *const params[], float *acts, float *last)
{
	float *out = acts;

	for (size_t l = 0; l < layer_count(t); l++) {
		size_t k = layer_width(t, l + 1);

		if (l + 1 == layer_count(t) && last != NULL)
			out = last;
		if (l == 0 && t->sparse) {
			layer_input(t->sparse, k, params[0], params[1], out);
		} else {
			layer_fill_bias(rows, k, params[2 * l + 1], out);
			blas_gemm(false, false, rows, k, layer_width(t, l), 1, in, params[2 * l], 1,
			    out);
		}
		if (l + 1 == layer_count(t))
			break;
		layer_activate(m->tanh, rows * k, out);
		in = out;
		out += rows * k;
	}
	return out;
}

/* acts holds h_1, h_2, ..., the output and, after it, room for one more layer. The loop walks down
 * from the output: for each layer the weights' gradient is h^T delta, and delta w^T, times the
 * activation's derivative, is the delta of the layer below. That one takes the place of h. */
void tower_back(const struct model *m, const struct tower *t, size_t rows, const float *in,
    const float *const params[], float *acts, float *const grads[], float *below)
{
	float *delta = acts, *spare;

	for (size_t l = 1; l < layer_count(t); l++)
		delta += rows * layer_width(t, l);
	spare = delta + rows * t->out;
	for (size_t l = layer_count(t) - 1; l > 0; l--) {
		size_t k = layer_width(t, l + 1), under = layer_width(t, l);
		float *h = delta - rows * under;

		blas_gemm(true, false, under, k, rows, 1, h, delta, 0, grads[2 * l]);
		layer_bias_grad(rows, k, delta, grads[2 * l + 1]);
		blas_gemm(false, true, rows, under, k, 1, delta, params[2 * l], 0, spare);
		/* h is not needed any more: its memory takes the delta of the layer below. */
		layer_activate_back(m->tanh, rows * under, spare, h);
		delta = h;
	}
	if (t->sparse) {
		layer_input_grad(t->sparse, layer_width(t, 1), delta, grads[0], grads[1]);
		return;
	}
	layer_bias_grad(rows, layer_width(t, 1), delta, grads[1]);
	blas_gemm(true, false, t->in, layer_width(t, 1), rows, 1, in, delta, 0, grads[0]);
	if (below != NULL)
		blas_gemm(false, true, rows, t->in, layer_width(t, 1), 1, delta, params[0], 0,
		    below);
}
