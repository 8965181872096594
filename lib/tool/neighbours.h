/* SPDX-License-Identifier: ISC */
#ifndef TOOL_NEIGHBOURS_H
#define TOOL_NEIGHBOURS_H

#include "nearest/nearest.h"
#include "tool/tool.h"

/* The nearest rows of a table of a model (nearest/nearest.h), by the names that the model's data give to
 * rows.
 *
 * A query is the text of a row or of a vector:
 *
 *   king, user=7, city=Paris   the row of this name
 *   7, #7                      the row with this id; "7" may also be a name, which comes first
 *   [0.5, -1, 2] or 0.5,-1,2   a vector with as many numbers as the rows have
 *
 * Which numbers of a row are compared: where the model's table has a weight and then a vector in each row
 * (MODEL_AXIS_WEIGHT_VECTOR), the vector alone. Where the data have kinds of rows (data_kinds.h), rows of
 * one kind are compared: items with an item, and items with a user. For a user, the product also has the
 * item's weight, so that the order is that of the model's scores.
 *
 * Life: neighbours_open -> neighbours_rated, neighbours_exclude -> neighbours_ask ... -> neighbours_close.
 * The rows are those that the source had when it was opened. One thread. */
struct neighbours;

struct neighbours_spec {
	const char *table;
	const char *metric; /* "dot" or "cosine"; NULL: dot for users of items, and else cosine */
	const char
	    *among; /* the kind of the rows that are found; NULL: as the first query suggests */
	const char *first; /* the first query; NULL: it is a vector */
};

/* Reads the table. ERR_NOTFOUND: there is no such table, kind or row; ERR_USAGE; ERR_NOMEM; errors of the
 * source. m is borrowed. */
enum err_code neighbours_open(const struct tool_model *m, const struct neighbours_spec *spec,
    struct neighbours **out, struct err *e);
void neighbours_close(struct neighbours *x); /* NULL is fine */

/* Are the queries users, and items found for them? */
bool neighbours_of_users(const struct neighbours *x);
/* Items that the user has rated in these data are not found for it: all items that stand with the user in
 * a line, whatever the rating. ERR_USAGE: the queries are not users. Errors of the data's readers. */
enum err_code neighbours_rated(struct neighbours *x, const char *const *data, size_t ndata,
    struct err *e);
/* A row, by its text, that is not found. */
enum err_code neighbours_exclude(struct neighbours *x, const char *row, struct err *e);
/* Rows that were excluded are found again. */
void neighbours_exclude_none(struct neighbours *x);
/* Would neighbours_open with this query as the first one, and otherwise the same, open the same rows? */
bool neighbours_suit(const struct neighbours *x, const char *first);

/* Have tables of features of users and items changed since neighbours_open? */
bool neighbours_have_changed(const struct neighbours *x);

/* Called for each query in their order. hits: the best one first. The row of the query itself is not among
 * them. */
typedef enum err_code (*neighbours_fn)(void *ctx, const char *query, const struct nearest_hit *hit,
    size_t n, struct err *e);
/* Finds the k nearest rows for each of n queries, in one pass over the table for up to 64 of them.
 * ERR_NOTFOUND: a query is not a row; ERR_USAGE: a vector of another length. */
enum err_code neighbours_ask(struct neighbours *x, const char *const *query, size_t n, size_t k,
    neighbours_fn fn, void *ctx, struct err *e);

/* The rows that were found, as a new array of {"id": "7", "name": "king", "score": 0.5}; the name only where
 * the row has one. */
json_t *neighbours_json(const struct neighbours *x, const struct nearest_hit *hit, size_t n);
/* The name of a row, as a new string; NULL: it has none. */
char *neighbours_name(const struct neighbours *x, uint64_t id);

#endif
