/* SPDX-License-Identifier: ISC */
#include <math.h>

#include "math/clones.h"
#include "optim/optim.h"

/* v = rho v + (1 - rho) g^2;  w -= lr g / sqrt(v + eps). Tieleman and Hinton,
 * Neural Networks for Machine Learning, lecture 6.5, 2012. The lecture has no
 * eps; here it is under the root, where it is a floor for v. */
KERN_CLONES static void rmsprop_kernel(size_t n, float lr, float rho, float eps, float l2,
    float gscale, float *restrict w, float *restrict v, const float *restrict g)
{
	float rest = 1 - rho;

	for (size_t i = 0; i < n; i++) {
		float gi = g[i] * gscale + l2 * w[i];

		v[i] = rho * v[i] + rest * (gi * gi);
		w[i] -= lr * gi / sqrtf(v[i] + eps);
	}
}

static void rmsprop_step(const struct optim_hyper *h, uint64_t t, bool decay, size_t n,
    float *restrict w, float *const s[], const struct optim_gradient *g)
{
	(void)t;
	rmsprop_kernel(n, h->lr, h->rho, h->eps, optim_mean_l2(h, decay, g), g->scale, w, s[0],
	    g->values);
}

static void rmsprop_defaults(struct optim_hyper *h)
{
	*h = (struct optim_hyper){ .lr = 0.001f, .rho = 0.9f, .eps = 1e-8f };
}

const struct optim_rule optim_rule_rmsprop = {
	.name = "rmsprop",
	.id = OPTIM_ID_rmsprop,
	.help = "gradient over its running root mean square (Tieleman and Hinton 2012)",
	.when = "streams whose distribution drifts, and losses of changing scale",
	.uses = OPTIM_USES_RHO | OPTIM_USES_EPS,
	.nvectors = 1,
	.vector_name = { "mean_square" },
	.counts_touching = true,
	.defaults = rmsprop_defaults,
	.step = rmsprop_step,
};
