/* SPDX-License-Identifier: ISC */
#include <math.h>

#include "math/clones.h"
#include "optim/optim.h"
#include "optim/power.h"

/* With the moments of adam and u = (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps) + l2 w:
 *
 * w -= lr |w| / |u| u
 *
 * You et al., Large Batch Optimization for Deep Learning: Training BERT in 76 minutes, 2020,
 * algorithm 2 with phi(z) = z. The norms are those of a layer: of a dense table, or of a row of a
 * sparse one. If one of them is 0, the ratio is 1, and so it is for tables without decay (biases
 * and the parameters of normalization), which the authors' program excludes from the decay and from
 * the ratio.
 *
 * u is computed twice, for its norm and for the step, because the rule has no room to keep it.
 * Squares are summed in double, in lanes whose order is the same on every processor. */
enum { LAMB_LANES = 8 };

/* A ratio beyond this counts as this, so that a vanishing u cannot make a value that is not
 * finite. */
#define LAMB_RATIO_MOST 0x1p100

/* The correction of the bias of both moments. */
struct lamb_correction {
	float c1, c2;
};

static inline float lamb_direction(const struct optim_hyper *h, struct lamb_correction c, float l2,
    float w, float m, float v)
{
	return m / c.c1 / (sqrtf(v / c.c2) + h->eps) + l2 * w;
}

KERN_CLONES static void lamb_moments(size_t n, const struct optim_hyper *h, float gscale,
    float *restrict m, float *restrict v, const float *restrict g)
{
	float b1 = h->beta1, b2 = h->beta2, rest1 = 1 - b1, rest2 = 1 - b2;

	for (size_t i = 0; i < n; i++) {
		float gi = g[i] * gscale;

		m[i] = b1 * m[i] + rest1 * gi;
		v[i] = b2 * v[i] + rest2 * (gi * gi);
	}
}

static double lamb_norm(const double lane[LAMB_LANES])
{
	return sqrt(((lane[0] + lane[4]) + (lane[2] + lane[6])) +
	    ((lane[1] + lane[5]) + (lane[3] + lane[7])));
}

/* The ratio |w| / |u|. */
KERN_CLONES static double lamb_ratio(size_t n, const struct optim_hyper *h,
    struct lamb_correction c, float l2, const float *w, const float *m, const float *v)
{
	double of_w[LAMB_LANES] = { 0 }, of_u[LAMB_LANES] = { 0 }, length, step;
	size_t whole = n / LAMB_LANES * LAMB_LANES;

	for (size_t i = 0; i < whole; i += LAMB_LANES)
		for (size_t k = 0; k < LAMB_LANES; k++) {
			double wi = (double)w[i + k];
			double ui = (double)lamb_direction(h, c, l2, w[i + k], m[i + k], v[i + k]);

			of_w[k] += wi * wi;
			of_u[k] += ui * ui;
		}
	for (size_t i = whole; i < n; i++) {
		double wi = (double)w[i], ui = (double)lamb_direction(h, c, l2, w[i], m[i], v[i]);

		of_w[i - whole] += wi * wi;
		of_u[i - whole] += ui * ui;
	}
	length = lamb_norm(of_w);
	step = lamb_norm(of_u);
	if (length == 0 || step == 0)
		return 1;
	return length / step > LAMB_RATIO_MOST ? LAMB_RATIO_MOST : length / step;
}

KERN_CLONES static void lamb_move(size_t n, const struct optim_hyper *h, struct lamb_correction c,
    float l2, float rate, float *restrict w, const float *restrict m, const float *restrict v)
{
	for (size_t i = 0; i < n; i++)
		w[i] -= rate * lamb_direction(h, c, l2, w[i], m[i], v[i]);
}

static void lamb_step(const struct optim_hyper *h, uint64_t t, bool decay, size_t n,
    float *restrict w, float *const s[], const struct optim_gradient *g)
{
	struct lamb_correction c = { (float)(1 - power_by_squaring((double)h->beta1, t)),
		(float)(1 - power_by_squaring((double)h->beta2, t)) };
	float l2 = decay ? h->l2 : 0;
	size_t layer = g->width ? g->width : n;

	lamb_moments(n, h, g->scale, s[0], s[1], g->values);
	for (size_t at = 0; at < n; at += layer) {
		const float *m = s[0] + at, *v = s[1] + at;
		double ratio = decay ? lamb_ratio(layer, h, c, l2, w + at, m, v) : 1;

		lamb_move(layer, h, c, l2, (float)((double)h->lr * ratio), w + at, m, v);
	}
}

static void lamb_defaults(struct optim_hyper *h)
{
	*h = (struct optim_hyper){ .lr = 0.01f, .beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-6f };
}

const struct optim_rule optim_rule_lamb = {
	.name = "lamb",
	.id = OPTIM_ID_lamb,
	.help = "adamw with steps as long as the layer's parameters times lr (You et al. 2020)",
	.when = "deep models and large batches, whose layers differ in the size of their gradients",
	.uses = OPTIM_USES_BETA1 | OPTIM_USES_BETA2 | OPTIM_USES_EPS,
	.nvectors = 2,
	.vector_name = { "m", "v" },
	.whole_tables = true,
	.defaults = lamb_defaults,
	.step = lamb_step,
};
