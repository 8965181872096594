/* SPDX-License-Identifier: ISC */
#include <math.h>

#include "math/clones.h"
#include "optim/optim.h"
#include "optim/power.h"

/* Adam with the decay taken out of the gradient: w -= lr l2 w beside Adam's
 * step from the bare gradient. Loshchilov and Hutter, Decoupled Weight Decay
 * Regularization, 2019, algorithm 2; as in PyTorch the decay is multiplied by
 * the learning rate, and so follows the schedule. optim_adam.c says why the
 * rest is as it is. */
KERN_CLONES static void adamw_kernel(size_t n, const struct optim_hyper *h, float c1, float c2,
    float l2, float gscale, float *restrict w, float *restrict m, float *restrict v,
    const float *restrict g)
{
	float lr = h->lr, eps = h->eps, b1 = h->beta1, b2 = h->beta2;
	float rest1 = 1 - b1, rest2 = 1 - b2;
	bool whole1 = c1 == 1, whole2 = c2 == 1;

	for (size_t i = 0; i < n; i++) {
		float gi = g[i] * gscale;

		m[i] = b1 * m[i] + rest1 * gi;
		v[i] = b2 * v[i] + rest2 * (gi * gi);
		float mean = whole1 ? m[i] : m[i] / c1, square = whole2 ? v[i] : v[i] / c2;

		w[i] -= lr * (mean / (sqrtf(square) + eps) + l2 * w[i]);
	}
}

static void adamw_step(const struct optim_hyper *h, uint64_t t, bool decay, size_t n,
    float *restrict w, float *const s[], const struct optim_gradient *g)
{
	float c1 = (float)(1 - power_by_squaring((double)h->beta1, t));
	float c2 = (float)(1 - power_by_squaring((double)h->beta2, t));

	adamw_kernel(n, h, c1, c2, decay ? h->l2 : 0, g->scale, w, s[0], s[1], g->values);
}

static void adamw_defaults(struct optim_hyper *h)
{
	*h = (struct optim_hyper){ .lr = 0.001f, .beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-8f };
}

const struct optim_rule optim_rule_adamw = {
	.name = "adamw",
	.id = OPTIM_ID_adamw,
	.help = "adam with decoupled weight decay l2 (Loshchilov and Hutter 2019)",
	.when = "as adam, if l2 must not depend on the size of the gradients",
	.uses = OPTIM_USES_BETA1 | OPTIM_USES_BETA2 | OPTIM_USES_EPS,
	.nvectors = 2,
	.vector_name = { "m", "v" },
	.defaults = adamw_defaults,
	.step = adamw_step,
};
