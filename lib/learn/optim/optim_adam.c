/* SPDX-License-Identifier: ISC */
#include <math.h>

#include "math/clones.h"
#include "optim/optim.h"
#include "optim/power.h"

/* m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;
 * w -= lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps).
 * Kingma and Ba, Adam: A Method for Stochastic Optimization, 2015, algorithm 1.
 * Everything is taken from the float value of b1 and b2: 1 - b is exact for
 * b >= 1/2, and the weights then sum to one. Once b^t is lost beside 1 there
 * is nothing to divide by: a division less, the same bits. */
KERN_CLONES static void adam_kernel(size_t n, const struct optim_hyper *h, float c1, float c2,
    float l2, float gscale, float *restrict w, float *restrict m, float *restrict v,
    const float *restrict g)
{
	float lr = h->lr, eps = h->eps, b1 = h->beta1, b2 = h->beta2;
	float rest1 = 1 - b1, rest2 = 1 - b2;
	bool whole1 = c1 == 1, whole2 = c2 == 1;

	for (size_t i = 0; i < n; i++) {
		float gi = g[i] * gscale + l2 * w[i];

		m[i] = b1 * m[i] + rest1 * gi;
		v[i] = b2 * v[i] + rest2 * (gi * gi);
		float mean = whole1 ? m[i] : m[i] / c1, square = whole2 ? v[i] : v[i] / c2;

		w[i] -= lr * mean / (sqrtf(square) + eps);
	}
}

static void adam_step(const struct optim_hyper *h, uint64_t t, bool decay, size_t n,
    float *restrict w, float *const s[], const struct optim_gradient *g)
{
	float c1 = (float)(1 - power_by_squaring((double)h->beta1, t));
	float c2 = (float)(1 - power_by_squaring((double)h->beta2, t));

	adam_kernel(n, h, c1, c2, optim_mean_l2(h, decay, g), g->scale, w, s[0], s[1], g->values);
}

static void adam_defaults(struct optim_hyper *h)
{
	*h = (struct optim_hyper){ .lr = 0.001f, .beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-8f };
}

const struct optim_rule optim_rule_adam = {
	.name = "adam",
	.id = OPTIM_ID_adam,
	.help = "running first and second moments, bias-corrected (Kingma and Ba 2015)",
	.when = "layers, and dense data whose scales differ; the learning rate hardly needs tuning",
	.uses = OPTIM_USES_BETA1 | OPTIM_USES_BETA2 | OPTIM_USES_EPS,
	.nvectors = 2,
	.vector_name = { "m", "v" },
	.counts_touching = true,
	.defaults = adam_defaults,
	.step = adam_step,
};
