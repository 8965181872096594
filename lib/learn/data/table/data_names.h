/* SPDX-License-Identifier: ISC */
#ifndef DATA_NAMES_H
#define DATA_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/json.h"

/* The names of features whose numbers are hashes of words: of the hashed categories of a table
 * (data_schema.h), and of users and items that are words (data_ratings.c). A name is "column=word". A
 * feature may have several names, because words may have the same hash.
 *
 * The names go with the facts of the training data (data_facts.h) to the coordinator and into each
 * checkpoint, so their number is bounded. Words that come when a bound is reached get no name.
 *
 * One thread adds names; afterwards any thread may read. */
struct data_names;

/* Names of a column, and of a feature, at most. */
#define DATA_NAMES_MAX  16384u
#define DATA_NAMES_SAME 64u
/* Bytes of all names as JSON at most: a small share of DESCRIPTION_MAX (msg/large_description.h). */
#define DATA_NAMES_BYTES (3u << 20)

struct data_names *data_names_new(void);
/* Frees n; NULL is fine. */
void data_names_free(struct data_names *n);
struct data_names *data_names_copy(const struct data_names *n);
/* The number of the column with this name, which is added if it is new. */
size_t data_names_column(struct data_names *n, const char *name);
/* Gives a feature the name "column=text", unless it has it or a bound is reached. */
void data_names_add(struct data_names *n, size_t column, const char *text, uint64_t feature);
/* The name of a feature as a new string, several of them joined by "|"; NULL: it has none. */
char *data_names_find(const struct data_names *n, uint64_t feature);

/* Has a feature a name? */
bool data_names_have(const struct data_names *n, uint64_t feature);
/* Has a bound been reached, so that features in the columns whose names begin with `prefix` may have no
 * names? */
bool data_names_are_full(const struct data_names *n, const char *prefix);

/* As JSON, and back: {"user": {"alice": 4, ..}, "item": {..}}, an object with the features of its words
 * for each column that has any. A new reference. From a document that is no such object: NULL. */
json_t *data_names_to_json(const struct data_names *n);
struct data_names *data_names_from_json(const json_t *o);

#endif
