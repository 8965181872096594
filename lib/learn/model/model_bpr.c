/* SPDX-License-Identifier: ISC */
#include "loss/logistic.h"
#include "model/factors.h"
#include "model/ranked.h"

/* Matrix factorization for implicit feedback by Bayesian personalized ranking (Rendle et al., "BPR:
 * Bayesian Personalized Ranking from Implicit Feedback", 2009, sections 4.1 and 4.3.1). An example has an
 * item i and another one j, drawn at random (data_pairs.h), and the loss is that of logistic regression on
 * the difference of their scores (ranked.h):
 *
 * loss = -log sigmoid(x_ui - x_uj) where the target is 1, and -log sigmoid(x_uj - x_ui) where it is
 * 0.
 *
 * The derivation from a prior makes l2 a part of the criterion. */

/* An example without a drawn item has no loss. */
static double bpr_grad(struct model *m, const struct batch *b, const float *const params[],
    float *const grads[])
{
	double loss = 0, n = (double)b->rows, slope;

	factors_clear(&m->tables[0], b, grads[0]);
	for (size_t r = 0; r < b->rows; r++) {
		struct entries x = entries_of(b, r);
		double weight = (double)batch_weight(b, r), f;
		struct ranked_side user, item, drawn;

		if (!ranked_pair_at(m, &x, params[0], &user, &item) || item.end == x.n)
			continue;
		drawn = ranked_side_at(m, &x, item.end, params[0], 2);
		f = ranked_score(m, &user, &item) - ranked_score(m, &user, &drawn);
		loss += logistic_at(f, (double)b->y[r], &slope) * weight;
		ranked_spread(m, &x, &user, &item, &drawn, (float)(slope / n * weight), grads[0]);
	}
	return loss / n;
}

/* The score is that of the item, with which it is ranked. */
static double bpr_forward(struct model *m, const struct batch *b, const float *const params[],
    float *scores)
{
	double loss = 0, slope;

	for (size_t r = 0; r < b->rows; r++) {
		struct entries x = entries_of(b, r);
		struct ranked_side user, item, drawn;
		double own;

		scores[r] = 0;
		if (!ranked_pair_at(m, &x, params[0], &user, &item))
			continue;
		own = ranked_score(m, &user, &item);
		scores[r] = (float)own;
		if (!b->y || item.end == x.n)
			continue;
		drawn = ranked_side_at(m, &x, item.end, params[0], 2);
		loss += logistic_at(own - ranked_score(m, &user, &drawn), (double)b->y[r], &slope) *
		    (double)batch_weight(b, r);
	}
	return loss;
}

const struct model_kind model_kind_bpr = {
	.fields = true,
	.fits = ranked_fits,
	.plan = ranked_plan,
	.scratch = ranked_scratch,
	.shared_scratch = ranked_shared_scratch,
	.grad = bpr_grad,
	.forward = bpr_forward,
	.parts = ranked_parts,
};
