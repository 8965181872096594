/* SPDX-License-Identifier: ISC */
#include "math/clones.h"
#include "optim/stale.h"

/* g += lambda g g (now - then): the gradient at `now`, by a Taylor series at `then` whose second
 * term has lambda g g in place of the Hessian. Zheng et al., Asynchronous Stochastic Gradient
 * Descent with Delay Compensation, ICML 2017 (arXiv:1609.08326), DC-ASGD-c; the authors used
 * 0.04. */
KERN_CLONES static void compensate_by_constant(size_t n, float lambda, const float *now,
    const float *then, float *restrict square, float *restrict g)
{
	(void)square;
	for (size_t i = 0; i < n; i++)
		g[i] += lambda * g[i] * g[i] * (now[i] - then[i]);
}

const struct stale_ops stale_dc = {
	.name = "dc",
	.help =
	    "the gradient is corrected for the delay, by L g^2 times the way since (Zheng et al. 2017)",
	.lambda = 0.04f,
	.compensate = compensate_by_constant,
};
