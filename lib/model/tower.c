#include "model/tower.h"

#include <math.h>
#include <stdio.h>

#include "blas/blas.h"
#include "model/layer.h"

static size_t layers(const struct model *m)
{
	return m->shape.nhidden + 1;
}

/* Width of h_l. */
static size_t width(const struct model *m, const struct tower *t, size_t l)
{
	return l == 0 ? t->in : l == layers(m) ? t->out : m->hidden[l - 1];
}

void tower_plan(struct model *m, const struct tower *t)
{
	for (size_t l = 0; l < layers(m); l++) {
		char name[sizeof m->tables->name];

		snprintf(name, sizeof name, "w%zu", l);
		model_add_table(m, name, false, width(m, t, l), width(m, t, l + 1), width(m, t, l), true);
		snprintf(name, sizeof name, "b%zu", l);
		model_add_table(m, name, false, 1, width(m, t, l + 1), 0, false);
	}
}

/* h_1, h_2, ... the output, and one spare layer of the widest hidden width. */
size_t tower_scratch(const struct model *m, const struct tower *t)
{
	size_t sum = t->out, widest = 0;

	for (size_t i = 0; i < m->shape.nhidden; i++) {
		sum += m->hidden[i];
		widest = m->hidden[i] > widest ? m->hidden[i] : widest;
	}
	return sum + widest;
}

static void activate(bool hyperbolic, size_t n, float *z)
{
	if (hyperbolic)
		for (size_t i = 0; i < n; i++)
			z[i] = tanhf(z[i]);
	else
		for (size_t i = 0; i < n; i++)
			z[i] = z[i] > 0 ? z[i] : 0;
}

/* h becomes d * act'(z), where act' is taken from h = act(z). */
static void activate_back(bool hyperbolic, size_t n, const float *restrict d, float *restrict h)
{
	if (hyperbolic)
		for (size_t i = 0; i < n; i++)
			h[i] = d[i] * (1 - h[i] * h[i]);
	else
		for (size_t i = 0; i < n; i++) {
			float back = d[i];      /* read in any case: there is no branch then */

			h[i] = h[i] > 0 ? back : 0;
		}
}

float *tower_run(const struct model *m, const struct tower *t, size_t rows, const float *in, const float *const params[], float *acts,
                 float *last)
{
	float *out = acts;

	for (size_t l = 0; l < layers(m); l++) {
		size_t k = width(m, t, l + 1);

		if (l + 1 == layers(m) && last != NULL)
			out = last;
		layer_fill_bias(rows, k, params[2 * l + 1], out);
		blas_gemm(false, false, rows, k, width(m, t, l), 1, in, params[2 * l], 1, out);
		if (l + 1 == layers(m))
			break;
		activate(m->tanh, rows * k, out);
		in = out;
		out += rows * k;
	}
	return out;
}

void tower_back(const struct model *m, const struct tower *t, size_t rows, const float *in, const float *const params[], float *acts,
                float *const grads[], float *below)
{
	float *delta = acts, *spare;

	for (size_t l = 1; l < layers(m); l++)
		delta += rows * width(m, t, l);
	spare = delta + rows * t->out;
	for (size_t l = layers(m) - 1; l > 0; l--) {
		size_t k = width(m, t, l + 1), under = width(m, t, l);
		float *h = delta - rows * under;

		blas_gemm(true, false, under, k, rows, 1, h, delta, 0, grads[2 * l]);
		layer_bias_grad(rows, k, delta, grads[2 * l + 1]);
		blas_gemm(false, true, rows, under, k, 1, delta, params[2 * l], 0, spare);
		/* h has done its work: its place takes the delta below. */
		activate_back(m->tanh, rows * under, spare, h);
		delta = h;
	}
	layer_bias_grad(rows, width(m, t, 1), delta, grads[1]);
	blas_gemm(true, false, t->in, width(m, t, 1), rows, 1, in, delta, 0, grads[0]);
	if (below != NULL)
		blas_gemm(false, true, rows, t->in, width(m, t, 1), 1, delta, params[0], 0, below);
}
