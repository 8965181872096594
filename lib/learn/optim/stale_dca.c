/* SPDX-License-Identifier: ISC */
#include <math.h>

#include "math/clones.h"
#include "optim/stale.h"

/* As stale_dc.c, with lambda / sqrt(mean square of g) in place of lambda: DC-ASGD-a of the same
 * paper. The authors used lambda 2, and 0.95 for the decay of the mean on CIFAR-10. */
#define MEAN_DECAY 0.95f
#define ROOT_EPS   1e-7f

KERN_CLONES static void compensate_adaptively(size_t n, float lambda, const float *now,
    const float *then, float *restrict square, float *restrict g)
{
	for (size_t i = 0; i < n; i++) {
		float squared = g[i] * g[i];

		square[i] = MEAN_DECAY * square[i] + (1 - MEAN_DECAY) * squared;
		g[i] += lambda / sqrtf(square[i] + ROOT_EPS) * squared * (now[i] - then[i]);
	}
}

const struct stale_ops stale_dca = {
	.name = "dca",
	.help = "as dc, with L over the root mean square of the gradient (Zheng et al. 2017)",
	.lambda = 2,
	.compensate = compensate_adaptively,
	.has_square = true,
};
