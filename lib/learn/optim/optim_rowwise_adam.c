/* SPDX-License-Identifier: ISC */
#include <math.h>

#include "math/clones.h"
#include "optim/optim.h"
#include "optim/power.h"
#include "optim/row_square.h"

/* adam with one second moment for the d parameters of a row:
 *
 *	m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) * mean of g^2 over the row;
 * w -= lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
 *
 * FBGEMM's "partial row-wise Adam" (https://github.com/pytorch/FBGEMM): the state takes d + 1
 * numbers for each row instead of 2 d. In a dense table each value is a row, so there it is
 * adam. */
KERN_CLONES static float adam_mean_square(size_t d, float l2, float scale, const float *w,
    const float *g)
{
	return row_mean_square(d, l2, scale, w, g);
}

KERN_CLONES static void rowwise_adam_row(size_t d, float step, float divisor, float b1, float l2,
    float scale, float *restrict w, float *restrict m, const float *restrict g)
{
	float rest = 1 - b1;

	for (size_t i = 0; i < d; i++) {
		m[i] = b1 * m[i] + rest * (g[i] * scale + l2 * w[i]);
		w[i] -= step * m[i] / divisor;
	}
}

static void rowwise_adam_step(const struct optim_hyper *h, uint64_t t, bool decay, size_t n,
    float *restrict w, float *const s[], const struct optim_gradient *g)
{
	float c1 = (float)(1 - power_by_squaring((double)h->beta1, t));
	float c2 = (float)(1 - power_by_squaring((double)h->beta2, t));
	float l2 = optim_mean_l2(h, decay, g);
	size_t d = g->width;

	if (d <= 1) {
		optim_rule_adam.step(h, t, decay, n, w, s, g);
		return;
	}
	for (size_t row = 0, at = 0; at < n; row++, at += d) {
		float *v = &s[1][row];

		*v = h->beta2 * *v +
		    (1 - h->beta2) * adam_mean_square(d, l2, g->scale, w + at, g->values + at);
		rowwise_adam_row(d, h->lr / c1, sqrtf(*v / c2) + h->eps, h->beta1, l2, g->scale,
		    w + at, s[0] + at, g->values + at);
	}
}

static void rowwise_adam_defaults(struct optim_hyper *h)
{
	optim_rule_adam.defaults(h);
}

const struct optim_rule optim_rule_rowwise_adam = {
	.name = "rowwise_adam",
	.id = OPTIM_ID_rowwise_adam,
	.help = "adam with one second moment for each row of a sparse table (FBGEMM)",
	.when = "wide rows of large sparse tables, where the state of adam takes too much memory",
	.uses = OPTIM_USES_BETA1 | OPTIM_USES_BETA2 | OPTIM_USES_EPS,
	.nvectors = 2,
	.vector_name = { "m", "row_v" },
	.vector_by_row = { false, true },
	.counts_touching = true,
	.defaults = rowwise_adam_defaults,
	.step = rowwise_adam_step,
};
