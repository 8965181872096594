/* SPDX-License-Identifier: ISC */
#include "math/clones.h"
#include "optim/optim.h"

/* v = mu v + g;  w -= lr v. Polyak, Some Methods of Speeding up the
 * Convergence of Iteration Methods, 1964, in PyTorch's form: the learning rate
 * is outside of v, so that a schedule acts at once. (Sutskever et al. 2013,
 * equation 1, keep it inside: v = mu v - lr g; w += v. For a constant learning
 * rate the two are the same.) */
KERN_CLONES static void momentum_kernel(size_t n, float lr, float mu, float l2, float gscale,
    float *restrict w, float *restrict v, const float *restrict g)
{
	for (size_t i = 0; i < n; i++) {
		v[i] = mu * v[i] + (g[i] * gscale + l2 * w[i]);
		w[i] -= lr * v[i];
	}
}

static void momentum_step(const struct optim_hyper *h, uint64_t t, bool decay, size_t n,
    float *restrict w, float *const s[], const struct optim_gradient *g)
{
	(void)t;
	momentum_kernel(n, h->lr, h->momentum, optim_mean_l2(h, decay, g), g->scale, w, s[0],
	    g->values);
}

static void momentum_defaults(struct optim_hyper *h)
{
	*h = (struct optim_hyper){ .lr = 0.1f, .momentum = 0.9f };
}

const struct optim_rule optim_rule_momentum = {
	.name = "momentum",
	.id = OPTIM_ID_momentum,
	.help = "gradient descent with heavy-ball momentum (Polyak 1964)",
	.when = "dense models whose learning rate is tuned: images, deep layers",
	.uses = OPTIM_USES_MOMENTUM,
	.nvectors = 1,
	.vector_name = { "velocity" },
	.counts_touching = true,
	.defaults = momentum_defaults,
	.step = momentum_step,
};
