/* SPDX-License-Identifier: ISC */
#ifndef DATA_PAIRS_H
#define DATA_PAIRS_H

#include "data/data.h"
#include "data/batch/data_split.h"

/* Observations, pairs of a user and an item, as examples for ranking (Rendle et al., "BPR: Bayesian
 * Personalized Ranking from Implicit Feedback", 2009). An example has the user, the item, and one item or
 * more that are drawn at random and should have lower scores: items of the training data that were not
 * observed for the user. Each draw depends on the pass, the user and the item alone.
 *
 * Evaluation data become a ranked set: for each user the observed items, with the target 1, and all
 * items of the training data that are observed for the user in neither of the two, with the target 0.
 * There an item with the target 0 gets a drawn one with the target 1.
 *
 * Users and items may have features (data_features.h): further entries of a row, after that of the user or
 * the item, in the same field. A drawn item gets the features that it has in the training rows.
 *
 * Training data in memory know their own observations. A chunk of data in blocks (data_blocks.h) knows
 * those of all blocks by data_observations.h. */
struct data_pairs;
struct data_observations;

/* The fields of a batch's entries. The k-th drawn item, from 0, is in field DATA_PAIRS_DRAWN + k. */
enum data_pairs_field { DATA_PAIRS_USER, DATA_PAIRS_ITEM, DATA_PAIRS_DRAWN };
/* A ranked set has at most this many examples, unless a single user has more: a random sample of the users,
 * with all their items. */
#define DATA_PAIRS_RANKED ((size_t)1 << 20)

/* An observation, by the features that the data have for the user and the item. */
struct data_pair {
	uint64_t user, item;
};

/* The observations that are held out (job.validate): those for which a hash of the user, the item and the
 * seed says so. Observations that come twice are on one side, and the data are divided in the same way in
 * memory and in blocks, where the observations of a user may all be in one block. share 0: none. */
struct data_pairs_share {
	uint64_t seed;
	double share;
};
/* Pure. */
bool data_pairs_is_held_out(const struct data_pairs_share *s, struct data_pair p);
/* Is the user in the random sample of the share 2^-thinned? Each sample is a part of the larger
 * ones. Pure. */
bool data_pairs_is_sampled(uint64_t user, unsigned thinned);
/* The observation of example r, which data of ratings or ranked data have. */
struct data_pair data_pairs_of(const struct dataset *d, size_t r);
/* The number that its item has in d. */
uint32_t data_pairs_item(const struct dataset *d, size_t r);

/* ERR_CONFIG: the data are not ratings. */
enum err_code data_pairs_check(const struct dataset *d, struct err *e);

/* Makes examples for ranking of the observations *d: where train is NULL, training data for which `draws`
 * items are drawn, and else a ranked set in their place. Both are of ratings. ERR_CONFIG: other data.
 * ERR_UNSUPPORTED: only a description of the training data is known. ERR_NOMEM. After an error *d is as
 * it was. */
enum err_code data_pairs_make(struct dataset **d, const struct dataset *train, size_t draws,
    struct err *e);
void data_pairs_free(struct data_pairs *p); /* NULL is fine */
/* The number of items that may be drawn. */
size_t data_pairs_items(const struct data_pairs *p);

/* Holds out a share, above 0, of the training data d: the examples to train on are split->train, and d draws
 * items as if it had no others. *ranked: the ranked set of the others. ERR_CONFIG: all are on one side.
 * ERR_NOMEM. */
enum err_code data_pairs_hold_out(struct dataset *d, const struct data_pairs_share *s,
    struct data_split *split, struct dataset **ranked, struct err *e);
/* The ranked set of n observations that are not among the training data. ERR_NOMEM. */
enum err_code data_pairs_rank(const struct data_pair *pair, size_t n, const struct dataset *train,
    struct dataset **ranked, struct err *e);

/* Makes training examples of some of the observations o, such as a chunk or the head. For each of them
 * `draws` items are drawn from all items of o, which is borrowed until d is freed. ERR_CONFIG: d is not of
 * ratings. ERR_NOMEM. */
enum err_code data_pairs_join(struct dataset *d, const struct data_observations *o, size_t draws,
    struct err *e);

/* Makes the batch's entries for the n examples at index, in pass b->epoch: the user's, the item's, and
 * those of the drawn items, unless there are none to draw. `col` gets feature numbers of the dataset. False:
 * no memory, or too many entries. Any thread. */
bool data_pairs_gather(const struct dataset *d, const uint32_t *index, size_t n, struct batch *b);

#endif
