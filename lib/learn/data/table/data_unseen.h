/* SPDX-License-Identifier: ISC */
#ifndef DATA_UNSEEN_H
#define DATA_UNSEEN_H

#include <stdint.h>

#include "core/log.h"

/* Collects what the training data of a model lack and its evaluation data or the rows to be predicted have:
 * values of categories, which have no features and are left out, and numbers far from all that the model
 * was trained on, for which its predictions are a guess. Readers note the values, and the owner of the
 * data has them logged once. All functions accept NULL; those that note may be called by any thread. */
struct data_unseen;

/* A number is far if it is more than this many units away from where its column is 0 when it is scaled
 * (standard deviations, or ranges with the scaling minmax). */
#define DATA_UNSEEN_FAR 20.0

struct data_unseen *data_unseen_new(void);
void data_unseen_free(struct data_unseen *u);

/* A category of the column has a value that the model lacks. */
void data_unseen_category(struct data_unseen *u, const char *column, const char *text);
/* A number of the column is far: `mean` is the mean of the training data. */
void data_unseen_number(struct data_unseen *u, const char *column, double v, double mean);

/* Logs a warning for each kind that was noted and not logged yet; it begins with `which`, such as "the
 * evaluation data". No other thread may note at this time. */
void data_unseen_log(struct data_unseen *u, const char *which, struct log *log);

#endif
