/* SPDX-License-Identifier: ISC */
#ifndef MODEL_GRAPH_PARTS_H
#define MODEL_GRAPH_PARTS_H

#include "model/graph.h"
#include "model/model_kind.h"
#include "model/tower.h"

/* Parts of graphs that several models have. Each function adds operators and returns their result.
 * Tables are named by their numbers in the model. */

/* An operator of two values. */
static inline const char *graph_join(const struct graph *g, const char *op, const char *a,
    const char *b)
{
	return onnx_op(g->onnx, op, a, b, NULL);
}

/* The sum over an axis, which goes away unless `stays`. */
const char *graph_sum(const struct graph *g, const char *x, int64_t axis, bool stays);
/* x with these dimensions; one of them may be -1, and 0 is that of x. */
const char *graph_reshape(const struct graph *g, const char *x, const int64_t *dims, size_t rank);
/* x with one more axis, of length 1. */
const char *graph_widen(const struct graph *g, const char *x, int64_t axis);
/* Columns first .. first+n-1 of the last axis of a tensor of this rank. */
const char *graph_columns(const struct graph *g, const char *x, size_t rank, size_t first,
    size_t n);
/* The numbers 0 .. n-1 as int64, (1, n). */
const char *graph_first_numbers(const struct graph *g, size_t n);
/* Which of the numbers 0 .. n-1 each element of x, int64 and (., K), is: (., K, n) of 0 and 1. Other
 * numbers are none of them. */
const char *graph_one_hot(const struct graph *g, const char *x, size_t n);

/* The values of the entries, (N, K). */
const char *graph_entry_values(const struct graph *g);
/* The rows of a table that the entries have, times their values: (N, K, cols). */
const char *graph_entries(const struct graph *g, const struct model *m, size_t table);
/* The sum of the rows of a table that the entries have, times their values: (N, cols). */
const char *graph_linear(const struct graph *g, const struct model *m, size_t table);
/* Sums vectors of the entries, (N, K, width), field by field: (N, fields * width). Without fields
 * there is one sum. */
const char *graph_by_field(const struct graph *g, const struct model *m, const char *vectors,
    size_t width);
/* Half of the square of the sum of vectors, (N, K, k), less half of the sum of their squares: (N, 1).
 * It is the sum of the products of all pairs (model/factors.h). */
const char *graph_pairs(const struct graph *g, const char *vectors);

/* The activation of hidden layers. */
const char *graph_activate(const struct graph *g, const struct model *m, const char *x);
/* A tower (model/tower.h) from a table on. in: (N, width); NULL: the entries. Returns (N, outputs). */
const char *graph_tower(const struct graph *g, const struct model *m, const struct tower *t,
    size_t table, const char *in);

#endif
