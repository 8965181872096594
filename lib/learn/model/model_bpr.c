/* SPDX-License-Identifier: ISC */
#include "data/batch/data_pairs.h"
#include "loss/logistic.h"
#include "model/factors.h"

/* Matrix factorization for implicit feedback by Bayesian personalized ranking (Rendle et al., "BPR:
 * Bayesian Personalized Ranking from Implicit Feedback", 2009, sections 4.1 and 4.3.1). The score
 * of item i for user u is x_ui = w_i + <v_u, v_i>. An example has an item i and another one j,
 * drawn at random (data_pairs.h), and the loss is that of logistic regression on the difference of
 * their scores:
 *
 * loss = -log sigmoid(x_ui - x_uj) where the target is 1, and -log sigmoid(x_uj - x_ui) where it is
 * 0.
 *
 * A bias of the user or of all would cancel, so the first number of a user's row has no use. The
 * derivation from a prior makes l2 a part of the criterion. */

enum { USER, ITEM, DRAWN };

static enum err_code bpr_fits(const struct model_shape *shape, struct err *e)
{
	if (!shape->sparse || shape->fields != DATA_PAIRS_FIELDS)
		return err_set(e, ERR_CONFIG,
		    "job.model bpr needs users and items (?format=ratings)");
	return ERR_OK;
}

static void bpr_plan(struct model *m)
{
	factors_plan(m, 1 + m->shape.factors, false);
}

/* Scratch: the difference of the vectors of two items. */
static size_t bpr_scratch(const struct model *m)
{
	return m->shape.factors;
}

/* The score of the item at entry i for the user at the first entry. */
static double item_score(const struct model *m, const struct entries *x, size_t i, const float *v)
{
	size_t k = m->shape.factors;
	const float *user = v + entries_at(x, USER, k + 1), *item = v + entries_at(x, i, k + 1);

	return (double)item[0] + (double)entries_dot(k, user + 1, item + 1);
}

/* Adds the gradient of f = x_ui - x_uj times delta to g. */
static void spread_difference(const struct model *m, const struct entries *x, const float *v,
    float delta, float *g)
{
	size_t k = m->shape.factors, user = entries_at(x, USER, k + 1),
	       item = entries_at(x, ITEM, k + 1), drawn = entries_at(x, DRAWN, k + 1);
	float *difference = m->scratch;

	for (size_t i = 0; i < k; i++)
		difference[i] = v[item + 1 + i] - v[drawn + 1 + i];
	entries_axpy(k, delta, difference, g + user + 1);
	entries_axpy(k, delta, v + user + 1, g + item + 1);
	entries_axpy(k, -delta, v + user + 1, g + drawn + 1);
	g[item] += delta;
	g[drawn] -= delta;
}

/* An example without a drawn item has no loss. */
static double bpr_grad(struct model *m, const struct batch *b, const float *const params[],
    float *const grads[])
{
	double loss = 0, n = (double)b->rows, slope;

	factors_clear(&m->tables[0], b, grads[0]);
	for (size_t r = 0; r < b->rows; r++) {
		struct entries x = entries_of(b, r);
		double weight = (double)batch_weight(b, r), f;

		if (x.n <= DRAWN)
			continue;
		f = item_score(m, &x, ITEM, params[0]) - item_score(m, &x, DRAWN, params[0]);
		loss += logistic_at(f, (double)b->y[r], &slope) * weight;
		spread_difference(m, &x, params[0], (float)(slope / n * weight), grads[0]);
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
		double own = x.n > ITEM ? item_score(m, &x, ITEM, params[0]) : 0;

		scores[r] = (float)own;
		if (b->y != NULL && x.n > DRAWN)
			loss += logistic_at(own - item_score(m, &x, DRAWN, params[0]),
			            (double)b->y[r], &slope) *
			    (double)batch_weight(b, r);
	}
	return loss;
}

/* The product belongs to the user and the item by halves. */
static void bpr_parts(struct model *m, const struct batch *b, size_t r, const float *const params[],
    double *part, double *base)
{
	struct entries x = entries_of(b, r);
	size_t k = m->shape.factors;
	double both;

	*base = 0;
	for (size_t i = 0; i < x.n; i++)
		part[i] = 0;
	if (x.n <= ITEM)
		return;
	both = (double)entries_dot(k, params[0] + entries_at(&x, USER, k + 1) + 1,
	    params[0] + entries_at(&x, ITEM, k + 1) + 1);
	part[USER] = both / 2;
	part[ITEM] = both / 2 + (double)params[0][entries_at(&x, ITEM, k + 1)];
}

const struct model_kind model_kind_bpr = {
	.fields = true,
	.fits = bpr_fits,
	.plan = bpr_plan,
	.scratch = bpr_scratch,
	.grad = bpr_grad,
	.forward = bpr_forward,
	.parts = bpr_parts,
};
