/* SPDX-License-Identifier: ISC */
#ifndef DATA_DATA_FEATURES_H
#define DATA_DATA_FEATURES_H

#include "core/err.h"
#include "data/table/data_names.h"

/* The features of users or items of ratings (data_ratings.c), from a table of their own: a line each, whose
 * first cell is the user or the item, and whose other cells are its features. A feature is a column and a
 * text: the text of a cell, or each of several between bars, as in "drama|crime". Empty cells and "0" are
 * none. In training, a feature that only one user or item has is left out (data_features_is_shared), because
 * the row of the user or item itself has the same use.
 *
 * The number of a feature is a hash of column and text, in the upper half of the numbers of users and
 * items, where no hash of a word is.
 *
 * Nothing changes after data_features_read, so that any thread may read. */
struct data_features;

/* Users or items: what the numbers of their features belong to. */
enum data_features_kind { DATA_FEATURES_USERS, DATA_FEATURES_ITEMS };

/* Gets the table at a path or URI, whose first line has the names of the columns, unless its first cell is
 * a number. The process keeps the tables that were used last, and reads one again only if
 * its file has changed since. Errors of data_open, but ERR_IO for a missing file;
 * ERR_FORMAT: with the line. */
enum err_code data_features_read(const char *path, enum data_features_kind kind,
    struct data_features **out, struct err *e);
/* Gives the table back, which any thread may do. NULL is fine. */
void data_features_free(struct data_features *f);
/* Has its file changed since it was read? An object at a URI never does. */
bool data_features_has_changed(const struct data_features *f);

/* The features of the user or item of this number: *n, ascending numbers, shared or not; NULL: it has no
 * line. */
const uint64_t *data_features_of(const struct data_features *f, uint64_t number, size_t *n);
/* Do several users or items have the feature? */
bool data_features_is_shared(const struct data_features *f, uint64_t feature);
/* The name of a feature of the table as a new string, "user.age=24"; NULL: the table does not have it. */
char *data_features_find_name(const struct data_features *f, uint64_t feature);
/* Is it the number of a feature, and not of a user or an item? */
bool data_features_is_number(uint64_t number);

/* Gives the shared features their names, "user.age=24" or "item.genre=drama", by their rows: the numbers
 * times 2, plus 1 for items. */
void data_features_name(const struct data_features *f, struct data_names *names);
/* Describes them: "3 features of items from movies.csv, without 4 that only one item has". A new string. */
char *data_features_describe(const struct data_features *f);

#endif
