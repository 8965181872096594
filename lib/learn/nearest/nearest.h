/* SPDX-License-Identifier: ISC */
#ifndef NEAREST_NEAREST_H
#define NEAREST_NEAREST_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

/* An index of rows of floats that finds the k rows with the largest product with a vector, or with the
 * largest cosine. The result is exact: it is that of comparing all rows in the order of their scores,
 * and of their ids where scores are equal.
 *
 * A search reads a copy of the rows with 8 bits a value and computes for each row an upper bound of its
 * score. Only rows whose bound reaches the k-th best score so far are compared by their floats. With
 * c the rounded values of a row r, s their step, and d, t those of the query q:
 *
 *   <r, q> <= s t <c, d> + |r - s c| |q| + |s c| |q - t d|
 *
 * by the inequality of Cauchy and Schwarz. The lengths are computed when the row is put; the last of
 * them is bounded by the number of bits of d. Several queries share the pass over the rows.
 *
 * Memory: about 5 bytes a value, and 24 to 32 bytes a row.
 *
 * Life: nearest_new -> nearest_put, nearest_remove, nearest_search ... -> nearest_free. Threads: any
 * number may search at the same time, while none changes the index. There is no lock. */
struct nearest;

enum nearest_metric {
	NEAREST_DOT,    /* the score is the product */
	NEAREST_COSINE, /* the product by both lengths; 0 where one of them is 0 */
};

/* Floats of a row, and rows of an index, at most. */
#define NEAREST_WIDTH_MAX ((size_t)1 << 20)
#define NEAREST_ROWS_MAX  ((size_t)UINT32_MAX - 64)

/* width: floats of a row, 1 .. NEAREST_WIDTH_MAX. */
struct nearest *nearest_new(size_t width, enum nearest_metric metric);
void nearest_free(struct nearest *x); /* NULL is fine */
/* Allocates memory for n rows in all. ERR_NOMEM; ERR_LIMIT: more than NEAREST_ROWS_MAX. */
enum err_code nearest_reserve(struct nearest *x, size_t n, struct err *e);
/* Adds a row, or replaces the one of this id. The floats are copied. ERR_NONFINITE; errors of
 * nearest_reserve. */
enum err_code nearest_put(struct nearest *x, uint64_t id, const float *row, struct err *e);
/* Removes a row, if there is one of this id. */
void nearest_remove(struct nearest *x, uint64_t id);
/* The number of rows. */
size_t nearest_count(const struct nearest *x);
/* The floats of a row, valid until the next change; NULL: there is no such row. */
const float *nearest_row(const struct nearest *x, uint64_t id);

struct nearest_hit {
	uint64_t id;
	double score;
};

struct nearest_query {
	const float *v; /* width finite floats */
	size_t k;
	/* ids of rows that are not wanted, in ascending order; they need not exist */
	const uint64_t *without;
	size_t nwithout;
	struct nearest_hit *hit; /* k of them; filled from the best one on */
	size_t nhits;            /* filled: fewer than k where there are no more rows */
	size_t compared;         /* rows that were compared by their floats */
};

/* Answers n queries in one pass over the rows. A query of 16 others costs far less than one alone.
 * ERR_NONFINITE: a query has a value that is not finite. ERR_NOMEM. */
enum err_code nearest_search(const struct nearest *x, struct nearest_query *query, size_t n,
    struct err *e);

#endif
