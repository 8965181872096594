/* SPDX-License-Identifier: ISC */
#include <math.h>

#include "model/factors.h"
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

/* Finds the drawn item that example r is compared with. Returns the loss, 0 where there is none; *slope: of the
 * loss by x_ui - x_uj. */
static double find_violation(const struct model *m, const struct batch *b, size_t r,
    const struct entries *x, const float *v, const struct ranked_side *user,
    const struct ranked_side *item, struct ranked_side *drawn, double *slope)
{
	double sign = (double)b->y[r] > 0.5 ? 1 : -1, own = ranked_score(m, user, item);
	size_t n = 1;

	for (*drawn = *item; drawn->end < x->n; n++) {
		double weight, margin;

		*drawn = ranked_side_at(m, x, drawn->end, v, 2);
		margin = 1 - sign * (own - ranked_score(m, user, drawn));
		if (margin <= 0)
			continue;
		weight = weight_of_rank(m, n);
		*slope = -sign * weight;
		return weight * margin;
	}
	return 0;
}

static double warp_grad(struct model *m, const struct batch *b, const float *const params[],
    float *const grads[])
{
	double loss = 0, n = (double)b->rows, slope;

	factors_clear(&m->tables[0], b, grads[0]);
	for (size_t r = 0; r < b->rows; r++) {
		struct entries x = entries_of(b, r);
		double weight = (double)batch_weight(b, r), loss_of_row;
		struct ranked_side user, item, drawn;

		if (!ranked_pair_at(m, &x, params[0], &user, &item))
			continue;
		loss_of_row = find_violation(m, b, r, &x, params[0], &user, &item, &drawn, &slope);
		loss += loss_of_row * weight;
		if (loss_of_row > 0)
			ranked_spread(m, &x, &user, &item, &drawn, (float)(slope / n * weight),
			    grads[0]);
	}
	return loss / n;
}

/* The score is that of the item, with which it is ranked. */
static double warp_forward(struct model *m, const struct batch *b, const float *const params[],
    float *scores)
{
	double loss = 0, slope;

	for (size_t r = 0; r < b->rows; r++) {
		struct entries x = entries_of(b, r);
		struct ranked_side user, item, drawn;

		scores[r] = 0;
		if (!ranked_pair_at(m, &x, params[0], &user, &item))
			continue;
		scores[r] = (float)ranked_score(m, &user, &item);
		if (b->y)
			loss += find_violation(m, b, r, &x, params[0], &user, &item, &drawn,
			            &slope) *
			    (double)batch_weight(b, r);
	}
	return loss;
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
