/* SPDX-License-Identifier: ISC */
#include "model/ranked.h"

#include "data/batch/data_pairs.h"
#include "model/factors.h"

enum err_code ranked_fits(const struct model_shape *shape, struct err *e)
{
	if (!shape->sparse || shape->fields <= DATA_PAIRS_DRAWN)
		return err_set(e, ERR_CONFIG,
		    "job.model: a model that ranks items needs users and items (?format=ratings)");
	return ERR_OK;
}

void ranked_plan(struct model *m)
{
	factors_plan(m, 1 + m->shape.factors, false);
}

size_t ranked_scratch(const struct model *m)
{
	(void)m;
	return 0;
}

size_t ranked_shared_scratch(const struct model *m)
{
	return 3 * (1 + m->shape.factors) + m->shape.factors;
}

/* The side of the entries from `first` on that are in one field. place: the number of its row of the
 * scratch memory, 0 to 2, which lasts until the next call with this number. */
static struct ranked_side side_at(const struct model *m, const struct entries *x, size_t first,
    const float *v, unsigned place)
{
	size_t width = 1 + m->shape.factors, field = entries_field(x, first);
	struct ranked_side side = { .first = first, .end = first + 1 };
	float *sum = m->scratch + place * width;

	while (side.end < x->n && entries_field(x, side.end) == field)
		side.end++;
	/* Without features of users and items, a side is one row. */
	if (side.end == first + 1 && x->val[first] == 1) {
		side.row = v + entries_at(x, first, width);
		return side;
	}
	memset(sum, 0, width * sizeof *sum);
	for (size_t i = first; i < side.end; i++)
		entries_axpy(width, x->val[i], v + entries_at(x, i, width), sum);
	side.row = sum;
	return side;
}

/* The first two sides of an example, in rows 0 and 1. False: it has no user or no item. */
static bool pair_at(const struct model *m, const struct entries *x, const float *v,
    struct ranked_side *user, struct ranked_side *item)
{
	if (x->n == 0)
		return false;
	*user = side_at(m, x, 0, v, 0);
	if (user->end == x->n)
		return false;
	*item = side_at(m, x, user->end, v, 1);
	return true;
}

struct ranked_side ranked_drawn_at(const struct model *m, const struct ranked_example *of,
    size_t first)
{
	return side_at(m, &of->x, first, of->v, 2);
}

double ranked_score(const struct model *m, const struct ranked_side *user,
    const struct ranked_side *item)
{
	return (double)item->row[0] +
	    (double)entries_dot(m->shape.factors, user->row + 1, item->row + 1);
}

/* Adds `weight` and delta times the vector to the gradient of each row of a side, times the entry's value. */
static void spread_side(const struct model *m, const struct entries *x,
    const struct ranked_side *side, float weight, float delta, const float *vector, float *g)
{
	size_t k = m->shape.factors;

	for (size_t i = side->first; i < side->end; i++) {
		float *row = g + entries_at(x, i, k + 1);

		row[0] += weight * x->val[i];
		entries_axpy(k, delta * x->val[i], vector, row + 1);
	}
}

/* Adds the gradient of x_ui - x_uj times delta to g, which has the layout of the table. i is the item, and
 * j the drawn one. */
static void spread_difference(const struct model *m, const struct ranked_example *of,
    const struct ranked_side *drawn, float delta, float *g)
{
	size_t k = m->shape.factors;
	float *difference = m->scratch + 3 * (k + 1);
	const float *user = of->user.row + 1;

	for (size_t i = 0; i < k; i++)
		difference[i] = of->item.row[1 + i] - drawn->row[1 + i];
	spread_side(m, &of->x, &of->user, 0, delta, difference, g);
	spread_side(m, &of->x, &of->item, delta, delta, user, g);
	spread_side(m, &of->x, drawn, -delta, -delta, user, g);
}

/* Finds the user and the item of example r. False: it has none. */
static bool example_at(const struct model *m, const struct batch *b, size_t r, const float *v,
    struct ranked_example *out)
{
	*out = (struct ranked_example){ .x = entries_of(b, r),
		.v = v,
		.target = b->y ? (double)b->y[r] : 0 };
	return pair_at(m, &out->x, v, &out->user, &out->item);
}

double ranked_grad(struct model *m, ranked_compare_fn *compare, const struct batch *b,
    const float *const params[], float *const grads[])
{
	double loss = 0, n = (double)b->rows;

	factors_clear(&m->tables[0], b, grads[0]);
	for (size_t r = 0; r < b->rows; r++) {
		double weight = (double)batch_weight(b, r);
		struct ranked_comparison with;
		struct ranked_example of;

		if (!example_at(m, b, r, params[0], &of) || !compare(m, &of, &with))
			continue;
		loss += with.loss * weight;
		spread_difference(m, &of, &with.drawn, (float)(with.slope / n * weight), grads[0]);
	}
	return loss / n;
}

double ranked_forward(struct model *m, ranked_compare_fn *compare, const struct batch *b,
    const float *const params[], float *scores)
{
	double loss = 0;

	for (size_t r = 0; r < b->rows; r++) {
		struct ranked_comparison with;
		struct ranked_example of;

		scores[r] = 0;
		if (!example_at(m, b, r, params[0], &of))
			continue;
		scores[r] = (float)ranked_score(m, &of.user, &of.item);
		if (b->y && compare(m, &of, &with))
			loss += with.loss * (double)batch_weight(b, r);
	}
	return loss;
}

/* Shares the product of two sides among the entries of one of them, whose vectors are multiplied with the
 * vector of the other one. */
static void share_product(const struct model *m, const struct entries *x,
    const struct ranked_side *side, const float *other, const float *v, double *part)
{
	size_t k = m->shape.factors;

	for (size_t i = side->first; i < side->end; i++)
		part[i] = (double)x->val[i] *
		    (double)entries_dot(k, v + entries_at(x, i, k + 1) + 1, other) / 2;
}

void ranked_parts(struct model *m, const struct batch *b, size_t r, const float *const params[],
    double *part, double *base)
{
	struct entries x = entries_of(b, r);
	struct ranked_side user, item;
	size_t width = 1 + m->shape.factors;

	*base = 0;
	for (size_t i = 0; i < x.n; i++)
		part[i] = 0;
	if (!pair_at(m, &x, params[0], &user, &item))
		return;
	share_product(m, &x, &user, item.row + 1, params[0], part);
	share_product(m, &x, &item, user.row + 1, params[0], part);
	for (size_t i = item.first; i < item.end; i++)
		part[i] += (double)x.val[i] * (double)params[0][entries_at(&x, i, width)];
}
