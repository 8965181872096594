/* SPDX-License-Identifier: ISC */
#include <math.h>

#include "model/ranked.h"

/* Matrix factorization for implicit feedback by the weighted approximate-rank pairwise loss (Weston, Bengio
 * and Usunier, "WSABIE: Scaling Up To Large Vocabulary Image Annotation", 2011, section 3), which aims at the
 * first places of the ranking. An example has an item i and others, drawn at random (data_pairs.h). In their
 * order the first one, j, with x_uj > x_ui - 1 is compared with the item (scores: ranked.h). That it was
 * found at the n-th attempt, of Y items, says that about (Y - 1) / n items have such a score:
 *
 * loss = (1/1 + 1/2 + ... + 1/rank) (1 - x_ui + x_uj), rank = max(1, floor((Y - 1) / n)).
 *
 * Where no drawn item has such a score, there is no loss. An item with the target 0, in evaluations, changes
 * places with the drawn one. */

/* The sum of 1/1 to 1/n, by Euler and Maclaurin, to within a hundredth. n: at least 1. */
static double harmonic_number(double n)
{
	return log(n) + 0.5772156649 + 1 / (2 * n) - 1 / (12 * n * n);
}

/* The weight of an item that was found at the n-th attempt. */
static double weight_of_rank(const struct model *m, size_t n)
{
	size_t others = m->shape.items > 1 ? m->shape.items - 1 : 1;

	return harmonic_number((double)(others > n ? others / n : 1));
}

/* Compares the item with the first drawn one that is not ranked as it should be. */
static bool compare_items(const struct model *m, const struct ranked_example *of,
    struct ranked_comparison *out)
{
	double sign = of->target > 0.5 ? 1 : -1, own = ranked_score(m, &of->user, &of->item);
	size_t n = 1;

	for (out->drawn = of->item; out->drawn.end < of->x.n; n++) {
		double weight, margin;

		out->drawn = ranked_drawn_at(m, of, out->drawn.end);
		margin = 1 - sign * (own - ranked_score(m, &of->user, &out->drawn));
		if (margin <= 0)
			continue;
		weight = weight_of_rank(m, n);
		out->slope = -sign * weight;
		out->loss = weight * margin;
		return true;
	}
	return false;
}

static double warp_grad(struct model *m, const struct batch *b, const float *const params[],
    float *const grads[])
{
	return ranked_grad(m, compare_items, b, params, grads);
}

static double warp_forward(struct model *m, const struct batch *b, const float *const params[],
    float *scores)
{
	return ranked_forward(m, compare_items, b, params, scores);
}

const struct model_kind model_kind_warp = {
	.fields = true,
	.draws = true,
	.fits = ranked_fits,
	.plan = ranked_plan,
	.scratch = ranked_scratch,
	.shared_scratch = ranked_shared_scratch,
	.grad = warp_grad,
	.forward = warp_forward,
	.parts = ranked_parts,
};
