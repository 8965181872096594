/* SPDX-License-Identifier: ISC */
#include <math.h>

#include "math/clones.h"
#include "optim/optim.h"

/* With G the sum of the examples' gradients and of l2 w for each example that touches the row
 * (optim.h):
 *
 *	accum += G^2;  w -= lr G / (sqrt(initial + accum) + eps)
 *
 * Duchi, Hazan and Singer, Adaptive Subgradient Methods for Online Learning and Stochastic
 * Optimization, 2011, figure 1 with diagonal matrices; eps is its delta. The initial accumulator is
 * added here instead of being the first value of accum, so it can change while a job runs. By
 * default it is 0, as in the paper and in torch.optim.Adagrad; it is 0.1 in TensorFlow and 1 in
 * libffm. With both constants at 0, the length of G does not matter: then this is the update of
 * PyTorch, which takes the mean. */
KERN_CLONES static void adagrad_kernel(size_t n, const struct optim_hyper *h, float l2, float scale,
    float *restrict w, float *restrict accum, const float *restrict g)
{
	float lr = h->lr, eps = h->eps, initial = h->initial;

	for (size_t i = 0; i < n; i++) {
		float gi = optim_bounded_sum(g[i] * scale + l2 * w[i]);

		accum[i] += gi * gi;
		w[i] -= lr * gi / (sqrtf(initial + accum[i]) + eps);
	}
}

static void adagrad_step(const struct optim_hyper *h, uint64_t t, bool decay, size_t n,
    float *restrict w, float *const s[], const struct optim_gradient *g)
{
	(void)t;
	adagrad_kernel(n, h, optim_sum_l2(h, decay, g), optim_sum_scale(g), w, s[0], g->values);
}

static void adagrad_defaults(struct optim_hyper *h)
{
	*h = (struct optim_hyper){ .lr = 0.01f, .eps = 1e-10f, .initial = 0 };
}

const struct optim_rule optim_rule_adagrad = {
	.name = "adagrad",
	.id = OPTIM_ID_adagrad,
	.help = "a learning rate for each parameter, by its summed squares (Duchi et al. 2011)",
	.when = "rows that few examples touch: clicks, words, ratings, categories",
	.uses = OPTIM_USES_EPS | OPTIM_USES_INITIAL,
	.nvectors = 1,
	.vector_name = { "accum" },
	.vector_init = { 0 },
	.state_version = 1, /* 0: of the batches' mean gradients */
	.keeps_untouched = true,
	.counts_touching = true,
	.defaults = adagrad_defaults,
	.step = adagrad_step,
};
