/* SPDX-License-Identifier: ISC */
#include <math.h>

#include "math/clones.h"
#include "optim/optim.h"

/* accum += g^2;  w -= lr g / (sqrt(accum) + eps).  Duchi, Hazan and Singer,
 * Adaptive Subgradient Methods for Online Learning and Stochastic
 * Optimization, 2011, figure 1 with diagonal matrices; eps is its delta. */
KERN_CLONES static void adagrad_kernel(size_t n, float lr, float eps, float l2, float gscale,
    float *restrict w, float *restrict accum, const float *restrict g)
{
	for (size_t i = 0; i < n; i++) {
		float gi = g[i] * gscale + l2 * w[i];

		accum[i] += gi * gi;
		w[i] -= lr * gi / (sqrtf(accum[i]) + eps);
	}
}

static void adagrad_step(const struct optim_hyper *h, uint64_t t, bool decay, size_t n,
    float *restrict w, float *const s[], const struct optim_gradient *g)
{
	(void)t;
	adagrad_kernel(n, h->lr, h->eps, decay ? h->l2 : 0, g->scale, w, s[0], g->values);
}

static void adagrad_defaults(struct optim_hyper *h)
{
	*h = (struct optim_hyper){ .lr = 0.01f, .eps = 1e-10f };
}

const struct optim_rule optim_rule_adagrad = {
	.name = "adagrad",
	.id = OPTIM_ID_adagrad,
	.help = "a learning rate a parameter, by its summed squares (Duchi et al. 2011)",
	.uses = OPTIM_USES_EPS,
	.nvectors = 1,
	.vector_name = { "accum" },
	.vector_init = { 0 },
	.keeps_untouched = true,
	.defaults = adagrad_defaults,
	.step = adagrad_step,
};
