#include <math.h>
#include <stdio.h>

#include "blas/blas.h"
#include "model/layer.h"
#include "model/model_kind.h"

/* h_0 = x;  h_{l+1} = act(h_l w_l + b_l);  the last layer has no activation and
 * goes through softmax and cross entropy.  Gradients by back-propagation:
 * delta of a layer is d loss / d (h_l w_l + b_l), as (examples, width). */

static enum err_code mlp_fits(const struct model_shape *shape, struct err *e)
{
	if (shape->sparse)
		return err_set(e, ERR_CONFIG,
		               "job.model mlp needs dense data, the data is sparse; use "
		               "softmax or logistic");
	if (shape->classes < 2)
		return err_set(e, ERR_CONFIG,
		               "job.model mlp needs at least two classes, the data has "
		               "%zu; use linear, or other data", shape->classes);
	if (shape->nhidden == 0)
		return err_set(e, ERR_CONFIG,
		               "job.model mlp needs job.hidden, such as [128]; without "
		               "hidden layers use softmax");
	return ERR_OK;
}

static size_t layers(const struct model *m)
{
	return m->shape.nhidden + 1;
}

/* Width of h_l. */
static size_t width(const struct model *m, size_t l)
{
	if (l == 0)
		return m->shape.features;
	return l == layers(m) ? m->shape.classes : m->hidden[l - 1];
}

static void mlp_plan(struct model *m)
{
	m->outputs = m->shape.classes;
	for (size_t l = 0; l < layers(m); l++) {
		char name[sizeof m->tables->name];

		snprintf(name, sizeof name, "w%zu", l);
		model_add_table(m, name, false, width(m, l), width(m, l + 1), width(m, l), true);
		snprintf(name, sizeof name, "b%zu", l);
		model_add_table(m, name, false, 1, width(m, l + 1), 0, false);
	}
}

/* h_1, h_2, ... the output, and one spare layer of the widest hidden width. */
static size_t mlp_scratch(const struct model *m)
{
	size_t sum = m->shape.classes, widest = 0;

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

/* Where h_{l+1} lies: behind one another from m->scratch on; the last goes to
 * `last` when that is given. */
static void run_layers(struct model *m, const struct batch *b, const float *const params[],
                       float *last)
{
	const float *in = b->x;
	float *out = m->scratch;

	for (size_t l = 0; l < layers(m); l++) {
		size_t k = width(m, l + 1);

		if (l + 1 == layers(m) && last != NULL)
			out = last;
		layer_fill_bias(b->rows, k, params[2 * l + 1], out);
		blas_gemm(false, false, b->rows, k, width(m, l), 1, in, params[2 * l], 1, out);
		if (l + 1 < layers(m))
			activate(m->tanh, b->rows * k, out);
		in = out;
		out += b->rows * k;
	}
}

static double mlp_grad(struct model *m, const struct batch *b, const float *const params[],
                       float *const grads[])
{
	float *delta = m->scratch, *spare;
	double loss;

	run_layers(m, b, params, NULL);
	for (size_t l = 1; l < layers(m); l++)
		delta += b->rows * width(m, l);
	spare = delta + b->rows * m->outputs;
	loss = layer_softmax(b->rows, m->outputs, b->label, delta);
	layer_softmax_delta(b->rows, m->outputs, b->label, delta);

	for (size_t l = layers(m) - 1; l > 0; l--) {
		size_t k = width(m, l + 1), below = width(m, l);
		float *h = delta - b->rows * below;

		blas_gemm(true, false, below, k, b->rows, 1, h, delta, 0, grads[2 * l]);
		layer_bias_grad(b->rows, k, delta, grads[2 * l + 1]);
		blas_gemm(false, true, b->rows, below, k, 1, delta, params[2 * l], 0, spare);
		/* h has done its work: its place takes the delta below. */
		activate_back(m->tanh, b->rows * below, spare, h);
		delta = h;
	}
	layer_input_grad(b, width(m, 1), delta, grads[0], grads[1]);
	return loss / (double)b->rows;
}

static double mlp_forward(struct model *m, const struct batch *b, const float *const params[],
                          float *scores)
{
	run_layers(m, b, params, scores);
	return layer_softmax(b->rows, m->outputs, b->label, scores);
}

const struct model_kind model_kind_mlp = {
	.hidden = true,
	.fits = mlp_fits,
	.plan = mlp_plan,
	.scratch = mlp_scratch,
	.grad = mlp_grad,
	.forward = mlp_forward,
};
