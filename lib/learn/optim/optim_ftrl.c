/* SPDX-License-Identifier: ISC */
#include <math.h>

#include "math/clones.h"
#include "optim/optim.h"

/* FTRL-Proximal. McMahan et al., Ad Click Prediction: a View from the
 * Trenches, 2013, algorithm 1, with alpha = lr, beta = ftrl_beta and d(n) =
 * (beta + sqrt(n)) / alpha + l2. Its constants are for single examples, so g is the sum of the
 * examples' gradients (optim.h):
 *
 *	sigma = d(n + g^2) - d(n);  z += g - sigma w;  n += g^2
 *	w = 0 where |z| <= l1, else -(z - sign(z) l1) / d(n)
 *
 * Taken literally, d(n) of the step before must have had the same alpha, and w
 * must have been taken out of z: a schedule would then rescale (a decay: erase) the
 * whole model, and parameters that did not start at zero would be lost. But
 * where w is not 0, w d(n) = -(z - sign(z) l1) holds between steps, with
 * sign(z) = -sign(w), so d(n) of the step before drops out:
 *
 *	z + g - (d(n + g^2) - d(n)) w  =  g - d(n + g^2) w - sign(w) l1
 *
 * and where w is 0, sigma does not matter. For constant alpha this is
 * algorithm 1; it also lets alpha, l1 and l2 change, starts from any w with z
 * at 0, and has no difference of two near roots. d is 0 only with beta 0
 * before the first gradient: w stays. */
KERN_CLONES static void ftrl_kernel(size_t n, float inv_alpha, float beta, float l1, float l2,
    float scale, float *restrict w, float *restrict z, float *restrict nn, const float *restrict g)
{
	for (size_t i = 0; i < n; i++) {
		float gi = optim_bounded_sum(g[i] * scale), wi = w[i], old = z[i];
		float sum = nn[i] + gi * gi;
		float d = (beta + sqrtf(sum)) * inv_alpha + l2;
		float kept = -d * wi - copysignf(l1, wi);
		float zi = (wi == 0 ? old : kept) + gi;
		/* Computed always, so that there is no branch in the loop. */
		float moved = -(zi - copysignf(l1, zi)) / d;

		moved = fabsf(zi) <= l1 ? 0 : moved;
		nn[i] = sum;
		z[i] = zi;
		w[i] = d > 0 ? moved : wi;
	}
}

static void ftrl_step(const struct optim_hyper *h, uint64_t t, bool decay, size_t n,
    float *restrict w, float *const s[], const struct optim_gradient *g)
{
	(void)t;
	/* A schedule at or near its zero: w stays, and 1 / lr cannot overflow. */
	if (!(h->lr > 1e-20f))
		return;
	ftrl_kernel(n, 1 / h->lr, h->ftrl_beta, decay ? h->l1 : 0, decay ? h->l2 : 0,
	    optim_sum_scale(g), w, s[0], s[1], g->values);
}

static void ftrl_defaults(struct optim_hyper *h)
{
	*h = (struct optim_hyper){ .lr = 0.1f, .ftrl_beta = 1 };
}

const struct optim_rule optim_rule_ftrl = {
	.name = "ftrl",
	.id = OPTIM_ID_ftrl,
	.help = "FTRL-Proximal, sparse by l1 (McMahan et al. 2013)",
	.when = "linear models of very many features whose weights should be mostly zero (l1)",
	.uses = OPTIM_USES_FTRL_BETA | OPTIM_USES_L1,
	.nvectors = 2,
	.vector_name = { "z", "n" },
	.state_version = 1, /* 0: of the batches' mean gradients */
	.defaults = ftrl_defaults,
	.step = ftrl_step,
};
