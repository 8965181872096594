/* SPDX-License-Identifier: ISC */
#ifndef DATA_PAIRS_H
#define DATA_PAIRS_H

#include "data/data.h"

/* Observations, pairs of a user and an item, as examples for ranking (Rendle et al., "BPR: Bayesian
 * Personalized Ranking from Implicit Feedback", 2009). An example has the user, the item, and an item
 * drawn at random that shall have a lower score: one of the training data that was not observed for the
 * user. Each draw depends on the pass, the user and the item alone.
 *
 * Evaluation data become a ranked set: for each user the observed items, with the target 1, and all
 * items of the training data that are observed for the user in neither of the two, with the target 0.
 * There an item with the target 0 gets a drawn one with the target 1. */
struct data_pairs;

/* The fields of a batch's entries. */
enum data_pairs_field { DATA_PAIRS_USER, DATA_PAIRS_ITEM, DATA_PAIRS_DRAWN, DATA_PAIRS_FIELDS };
/* A ranked set has at most so many examples, unless a single user has more: a random sample of the users,
 * with all their items. */
#define DATA_PAIRS_RANKED ((size_t)1 << 20)

/* Makes examples for ranking of the observations *d: where train is NULL, training data, and else a ranked
 * set in their place. Both are of ratings. ERR_CONFIG: other data. ERR_UNSUPPORTED: only a description of
 * the training data is known. ERR_NOMEM. After an error *d is as it was. */
enum err_code data_pairs_make(struct dataset **d, const struct dataset *train, struct err *e);
void data_pairs_free(struct data_pairs *p); /* NULL is fine */

/* Makes the batch's entries for the n examples at index, in pass b->epoch: the user's, the item's, and
 * that of the drawn item, unless there is none to draw. `col` gets feature numbers of the dataset. Room
 * needed: n times DATA_PAIRS_FIELDS entries. Any thread. */
void data_pairs_gather(const struct dataset *d, const uint32_t *index, size_t n, struct batch *b);

#endif
