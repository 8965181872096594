/* SPDX-License-Identifier: ISC */
#ifndef DATA_DATA_FEATURES_H
#define DATA_DATA_FEATURES_H

#include "core/err.h"
#include "data/table/data_names.h"

/* The features of users or items of ratings (data_ratings.c), from a table of their own: a line each, whose
 * first cell is the user or the item, and whose other cells are its features. A feature is a column and a
 * text: the text of a cell, or each of several between bars, as in "drama|crime". Empty cells and "0" are
 * none. A feature that only one user or item has is left out, because the row of the user or item itself has
 * the same use.
 *
 * The number of a feature is a hash of column and text, in the upper half of the numbers of users and
 * items, where no hash of a word is.
 *
 * Nothing changes after data_features_read, so that any thread may read. */
struct data_features;

/* Users or items: what the numbers of their features belong to. */
enum data_features_kind { DATA_FEATURES_USERS, DATA_FEATURES_ITEMS };

/* Reads the table at a path or URI, whose first line has the names of the columns, unless its first cell is
 * a number. Errors as data_open; ERR_FORMAT: with the line. */
enum err_code data_features_read(const char *path, enum data_features_kind kind,
    struct data_features **out, struct err *e);
void data_features_free(struct data_features *f); /* NULL is fine */

/* The features of the user or item of this number: *n, ascending numbers; NULL: it has no line. */
const uint64_t *data_features_of(const struct data_features *f, uint64_t number, size_t *n);
/* Is it the number of a feature, and not of a user or an item? */
bool data_features_is_number(uint64_t number);

/* Gives the features their names, "user.age=24" or "item.genre=drama"; `rows` of features are the numbers
 * times 2, plus 1 for items. */
void data_features_name(const struct data_features *f, struct data_names *names);
/* Describes them: "3 features of items from movies.csv, without 4 that only one item has". A new string. */
char *data_features_describe(const struct data_features *f);

#endif
