/* SPDX-License-Identifier: ISC */
#ifndef LAYOUT_VALUES_H
#define LAYOUT_VALUES_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/rng.h"
#include "layout/layout.h"

/* The initial values of tables. They are a function of table, seed and place alone, so that every
 * server that gets a partition makes the same values, and a reader of a saved model knows the
 * values of rows that the model does not have. They are rounded to the type of the table's rows, so
 * a row that is made has the values that were shown before. Pure. */

/* Writes the initial values of n elements from place `first` on. */
void init_fill(const struct table *t, uint64_t first, size_t n, float *out);
/* For many rows of one table: init_base is computed once, and init_fill_by uses it. */
uint64_t init_base(const struct table *t);
/* Writes n values from place `first` on, with `base` from init_base of the same table. */
void init_fill_by(const struct table *t, uint64_t base, uint64_t first, size_t n, float *out);
/* Returns the place of the row's first element, id * cols, so that a row has the same initial
 * values at every server and in every order of creation. */
uint64_t init_row_place(const struct table *t, uint64_t id);

/* Sets rows of a sparse table, n * cols floats, that still have their random initial values to 0: no
 * example has trained them, so their values say nothing, and a score shall not depend on them. Tables
 * with other initial values keep them. */
void init_clear_untrained(const struct table *t, const uint64_t *ids, size_t n, float *rows);

/* The key by which the values of a table's rows are rounded (element_round): values_row_key for
 * each row that changes in an update, with base from values_round_base of the table and of the
 * partition's version before the update. Equal on all servers. */
uint64_t values_round_base(const struct table *t);
static inline uint64_t values_row_key(uint64_t base, uint64_t version, uint64_t id)
{
	return rng_mix(rng_mix(base + version) ^ id);
}

/* Checks that parameters are finite numbers, for whoever reads them first. A layer may hide one
 * that is not: relu makes 0 of NaN. ERR_NONFINITE: the message names the table, the row and the
 * value. */

/* n elements of a dense table of this width, from element `first` on. */
enum err_code values_check_dense(const char *table, uint32_t cols, uint64_t first, const float *w,
    size_t n, struct err *e);
/* n rows of a sparse table of this width. */
enum err_code values_check_rows(const char *table, uint32_t cols, const uint64_t *ids,
    const float *w, size_t n, struct err *e);

#endif
