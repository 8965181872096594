/* SPDX-License-Identifier: ISC */
#include <math.h>

#include "math/clones.h"
#include "optim/optim.h"

/* With G the sum of the examples' gradients and of l2 w for each example that touches the row
 * (optim.h), w0 the value at the first gradient that is not 0, and reach at first 1e-6 (1 + |w0|):
 *
 *	accum += G^2;  w -= lr reach G / (sqrt(accum) + eps);  reach = max(reach, |w - w0|)
 *
 * Ivgi, Hinder and Carmon, DoG is SGD's Best Friend: A Parameter-Free Dynamic Step Size Schedule,
 * 2023, with lr = 1. There the sum of squares and the distance are those of all parameters
 * together; here each parameter has its own, as in adagrad with diagonal matrices, so that the
 * update does not depend on how a table is cut into partitions. Neither the length of G nor the
 * unit of w matters: the steps grow until they are as long as the way that w has to go. A step is
 * never longer than that way so far, if lr is at most 1, so a parameter that has gone too far
 * returns.
 *
 * reach is 0 before the first gradient that is not 0, and never after it. */
#define FIRST_REACH 1e-6f

KERN_CLONES static void dog_kernel(size_t n, const struct optim_hyper *h, float l2, float scale,
    float *restrict w, float *restrict accum, float *restrict origin, float *restrict reach,
    const float *restrict g)
{
	float lr = h->lr, eps = h->eps;

	for (size_t i = 0; i < n; i++) {
		float gi = optim_bounded_sum(g[i] * scale + l2 * w[i]);
		bool begins = reach[i] == 0;
		float from = begins ? w[i] : origin[i];
		float r = begins ? FIRST_REACH * (1 + fabsf(w[i])) : reach[i];

		accum[i] += gi * gi;
		w[i] -= lr * r * gi / (sqrtf(accum[i]) + eps);
		float far = fabsf(w[i] - from);
		bool still = begins && gi == 0;

		r = far > r ? far : r;
		origin[i] = still ? origin[i] : from;
		reach[i] = still ? reach[i] : r;
	}
}

static void dog_step(const struct optim_hyper *h, uint64_t t, bool decay, size_t n,
    float *restrict w, float *const s[], const struct optim_gradient *g)
{
	(void)t;
	dog_kernel(n, h, optim_sum_l2(h, decay, g), optim_sum_scale(g), w, s[0], s[1], s[2],
	    g->values);
}

static void dog_defaults(struct optim_hyper *h)
{
	*h = (struct optim_hyper){ .lr = 1, .eps = 1e-10f };
}

const struct optim_rule optim_rule_dog = {
	.name = "dog",
	.id = OPTIM_ID_dog,
	.help = "steps as long as the distance from the initial parameters (Ivgi et al. 2023)",
	.when = "convex models, with data and targets in any unit; it needs no learning rate",
	.uses = OPTIM_USES_EPS,
	.nvectors = 3,
	.vector_name = { "accum", "origin", "reach" },
	.vector_init = { 0 },
	.state_version = 1, /* as adagrad, whose accum is the same */
	.keeps_untouched = true,
	.counts_touching = true,
	.finds_rate = true,
	.defaults = dog_defaults,
	.step = dog_step,
};
