/* SPDX-License-Identifier: ISC */
#ifndef MODEL_RANKED_H
#define MODEL_RANKED_H

#include "model/entries.h"
#include "model/model_kind.h"

/* Models that rank items for users (data_pairs.h), by a table "v" whose rows have a weight and a vector,
 * as those of factors.h. The entries of an example are those of its user, those of its item, and those of
 * the items that are drawn for it, each of which is in a field of its own. The score of item i for user u
 * is x_ui = w_i + <v_u, v_i>, where w_i and v_i are the sums over the entries of the item, and v_u is the
 * sum over those of the user. A weight of the user would cancel, so its entries have weights without a
 * use. */

/* The user or an item of an example: entries first .. end-1, and the sum of their rows. */
struct ranked_side {
	size_t first, end;
	const float *row; /* borrowed from the table, or from the scratch memory */
};

/* Refuses data without users and items. */
enum err_code ranked_fits(const struct model_shape *shape, struct err *e);
void ranked_plan(struct model *m);
/* Scratch of an example: none. */
size_t ranked_scratch(const struct model *m);
/* Scratch of a batch: a row for the user, for the item, and for a drawn item, and a vector. */
size_t ranked_shared_scratch(const struct model *m);

/* An example with a user and an item. */
struct ranked_example {
	struct entries x;
	const float *v; /* the table */
	struct ranked_side user, item;
	double
	    target; /* 1: the drawn items shall have lower scores than the item; 0: higher ones */
};
/* The drawn item that an example is compared with, the loss, and its slope by x_ui - x_uj. */
struct ranked_comparison {
	struct ranked_side drawn;
	double loss, slope;
};
/* The loss of a model: compares the item with one that was drawn. False: there is no loss. */
typedef bool ranked_compare_fn(const struct model *m, const struct ranked_example *of,
    struct ranked_comparison *out);

/* The drawn item whose entries begin at `first`, an entry of the example. Its row lasts until the next
 * call. */
struct ranked_side ranked_drawn_at(const struct model *m, const struct ranked_example *of,
    size_t first);
/* x_ui */
double ranked_score(const struct model *m, const struct ranked_side *user,
    const struct ranked_side *item);

/* As model_kind.grad and model_kind.forward, with this loss. The score is that of the item, with which it
 * is ranked. */
double ranked_grad(struct model *m, ranked_compare_fn *compare, const struct batch *b,
    const float *const params[], float *const grads[]);
double ranked_forward(struct model *m, ranked_compare_fn *compare, const struct batch *b,
    const float *const params[], float *scores);
/* As model_kind.parts. The product of the user and the item belongs to each of the two by half, and there to
 * each entry by its own part of the sum. */
void ranked_parts(struct model *m, const struct batch *b, size_t r, const float *const params[],
    double *part, double *base);

#endif
