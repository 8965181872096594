/* SPDX-License-Identifier: ISC */
#include "math/clones.h"
#include "optim/optim.h"

/* v = mu v + g;  w -= lr (g + mu v). Sutskever, Martens, Dahl and Hinton, On
 * the Importance of Initialization and Momentum in Deep Learning, 2013,
 * equations 3 and 4, rewritten as PyTorch does: w here is the point that they
 * look ahead to, so that the gradient is taken where the parameters are. */
KERN_CLONES static void nesterov_kernel(size_t n, float lr, float mu, float l2, float gscale,
    float *restrict w, float *restrict v, const float *restrict g)
{
	for (size_t i = 0; i < n; i++) {
		float gi = g[i] * gscale + l2 * w[i];

		v[i] = mu * v[i] + gi;
		w[i] -= lr * (gi + mu * v[i]);
	}
}

static void nesterov_step(const struct optim_hyper *h, uint64_t t, bool decay, size_t n,
    float *restrict w, float *const s[], const struct optim_gradient *g)
{
	(void)t;
	nesterov_kernel(n, h->lr, h->momentum, optim_mean_l2(h, decay, g), g->scale, w, s[0],
	    g->values);
}

static void nesterov_defaults(struct optim_hyper *h)
{
	*h = (struct optim_hyper){ .lr = 0.1f, .momentum = 0.9f };
}

const struct optim_rule optim_rule_nesterov = {
	.name = "nesterov",
	.id = OPTIM_ID_nesterov,
	.help = "Nesterov's accelerated gradient (Sutskever et al. 2013)",
	.when = "as momentum; slightly more stable at high learning rates",
	.uses = OPTIM_USES_MOMENTUM,
	.nvectors = 1,
	.vector_name = { "velocity" },
	.counts_touching = true,
	.defaults = nesterov_defaults,
	.step = nesterov_step,
};
