/* SPDX-License-Identifier: ISC */
#include "math/clones.h"
#include "optim/optim.h"

/* w -= lr g. Robbins and Monro, A Stochastic Approximation Method, 1951. */
KERN_CLONES static void sgd_kernel(size_t n, float lr, float l2, float gscale, float *restrict w,
    const float *restrict g)
{
	for (size_t i = 0; i < n; i++)
		w[i] -= lr * (g[i] * gscale + l2 * w[i]);
}

static void sgd_step(const struct optim_hyper *h, uint64_t t, bool decay, size_t n,
    float *restrict w, float *const s[], const struct optim_gradient *g)
{
	(void)t;
	(void)s;
	sgd_kernel(n, h->lr, optim_mean_l2(h, decay, g), g->scale, w, g->values);
}

static void sgd_defaults(struct optim_hyper *h)
{
	*h = (struct optim_hyper){ .lr = 0.1f };
}

const struct optim_rule optim_rule_sgd = {
	.name = "sgd",
	.id = OPTIM_ID_sgd,
	.help = "stochastic gradient descent (Robbins and Monro 1951)",
	.when =
	    "scaled dense data; the fewest bytes of memory; with codecs of momentum, and with local steps",
	.keeps_untouched = true,
	.counts_touching = true,
	.defaults = sgd_defaults,
	.step = sgd_step,
};
