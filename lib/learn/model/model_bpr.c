/* SPDX-License-Identifier: ISC */
#include "loss/logistic.h"
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

/* Compares the item with the first drawn one. An example without any has no loss. */
static bool compare_items(const struct model *m, const struct ranked_example *of,
    struct ranked_comparison *out)
{
	if (of->item.end == of->x.n)
		return false;
	out->drawn = ranked_drawn_at(m, of, of->item.end);
	out->loss = logistic_at(ranked_score(m, &of->user, &of->item) -
	        ranked_score(m, &of->user, &out->drawn),
	    of->target, &out->slope);
	return true;
}

static double bpr_grad(struct model *m, const struct batch *b, const float *const params[],
    float *const grads[])
{
	return ranked_grad(m, compare_items, b, params, grads);
}

static double bpr_forward(struct model *m, const struct batch *b, const float *const params[],
    float *scores)
{
	return ranked_forward(m, compare_items, b, params, scores);
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
