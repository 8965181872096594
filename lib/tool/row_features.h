/* SPDX-License-Identifier: ISC */
#ifndef TOOL_ROW_FEATURES_H
#define TOOL_ROW_FEATURES_H

#include "layout/param_source.h"
#include "data/data.h"

/* The features of users and items of a model that ranks items (data_features.h): the vector of a user or an
 * item is the sum of its row and of the rows of its features. One thread. */
struct row_features;

/* Reads the tables of features that the description of the training data names, and the rows of all features.
 * *out: NULL, where users and items have none. Errors of data_features_read and of the source. */
enum err_code row_features_read(const struct dataset *d, struct param_source *s,
    const struct table *t, struct row_features **out, struct err *e);
void row_features_free(struct row_features *f); /* NULL is fine */
/* Have the tables of features changed since? f NULL: no. */
bool row_features_have_changed(const struct row_features *f);

/* Is it the row of a feature, and not of a user or an item? f NULL: no. */
bool row_features_have(const struct row_features *f, uint64_t id);
/* Adds the rows of the features of user or item `id` to its row. f NULL: there are none. */
void row_features_add(const struct row_features *f, uint64_t id, float *row);

#endif
