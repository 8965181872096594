/* SPDX-License-Identifier: ISC */
#include <math.h>

#include "math/clones.h"
#include "optim/optim.h"
#include "optim/power.h"

/* m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;  vmax = max(vmax, v);
 * w -= lr (m / (1 - b1^t)) / (sqrt(vmax / (1 - b2^t)) + eps).
 * Reddi, Kale and Kumar, On the Convergence of Adam and Beyond, 2018, algorithm 2, with the bias
 * correction of Adam, as torch.optim.Adam has it with amsgrad: the divisor of an element never
 * shrinks but by the correction, so a rare long gradient is not forgotten. The paper's algorithm
 * has no correction; a state of adam goes on as this rule's m and v. */
KERN_CLONES static void amsgrad_kernel(size_t n, const struct optim_hyper *h, float c1, float c2,
    float l2, float gscale, float *restrict w, float *restrict m, float *restrict v,
    float *restrict vmax, const float *restrict g)
{
	float lr = h->lr, eps = h->eps, b1 = h->beta1, b2 = h->beta2;
	float rest1 = 1 - b1, rest2 = 1 - b2;

	for (size_t i = 0; i < n; i++) {
		float gi = g[i] * gscale + l2 * w[i];

		m[i] = b1 * m[i] + rest1 * gi;
		v[i] = b2 * v[i] + rest2 * (gi * gi);
		vmax[i] = vmax[i] > v[i] ? vmax[i] : v[i];
		w[i] -= lr * (m[i] / c1) / (sqrtf(vmax[i] / c2) + eps);
	}
}

static void amsgrad_step(const struct optim_hyper *h, uint64_t t, bool decay, size_t n,
    float *restrict w, float *const s[], const struct optim_gradient *g)
{
	float c1 = (float)(1 - power_by_squaring((double)h->beta1, t));
	float c2 = (float)(1 - power_by_squaring((double)h->beta2, t));

	amsgrad_kernel(n, h, c1, c2, optim_mean_l2(h, decay, g), g->scale, w, s[0], s[1], s[2],
	    g->values);
}

static void amsgrad_defaults(struct optim_hyper *h)
{
	*h = (struct optim_hyper){ .lr = 0.001f, .beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-8f };
}

const struct optim_rule optim_rule_amsgrad = {
	.name = "amsgrad",
	.id = OPTIM_ID_amsgrad,
	.help = "adam whose second moment never shrinks (Reddi et al. 2018)",
	.when = "losses on which adam does not converge, because large gradients are rare",
	.uses = OPTIM_USES_BETA1 | OPTIM_USES_BETA2 | OPTIM_USES_EPS,
	.nvectors = 3,
	.vector_name = { "m", "v", "vmax" },
	.counts_touching = true,
	.defaults = amsgrad_defaults,
	.step = amsgrad_step,
};
