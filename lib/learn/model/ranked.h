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

/* The side of the entries from `first` on that are in one field. place: the number of its row of the
 * scratch memory, 0 to 2, which lasts until the next call with this number. */
struct ranked_side ranked_side_at(const struct model *m, const struct entries *x, size_t first,
    const float *v, unsigned place);
/* The first two sides of an example, in rows 0 and 1. False: it has no user or no item. */
bool ranked_pair_at(const struct model *m, const struct entries *x, const float *v,
    struct ranked_side *user, struct ranked_side *item);
/* x_ui */
double ranked_score(const struct model *m, const struct ranked_side *user,
    const struct ranked_side *item);
/* Adds the gradient of x_ui - x_uj times delta to g, which has the layout of v; i is the item and j the
 * drawn one. */
void ranked_spread(const struct model *m, const struct entries *x, const struct ranked_side *user,
    const struct ranked_side *item, const struct ranked_side *drawn, float delta, float *g);

/* As model_kind.parts. The product of the user and the item belongs to each of the two by half, and there to
 * each entry by its own part of the sum. */
void ranked_parts(struct model *m, const struct batch *b, size_t r, const float *const params[],
    double *part, double *base);

#endif
