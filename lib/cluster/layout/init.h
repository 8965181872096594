/* SPDX-License-Identifier: ISC */
#ifndef LAYOUT_INIT_H
#define LAYOUT_INIT_H

#include <stddef.h>
#include <stdint.h>

#include "layout/layout.h"

/* The initial values of tables. They are a function of table, seed and place alone, so that every
 * server that gets a partition makes the same values, and a reader of a saved model knows those of
 * rows that the model does not have. Pure. */

/* Writes the initial values of n elements from place `first` on. */
void init_fill(const struct table *t, uint64_t first, size_t n, float *out);
/* For many rows of one table: init_base is computed once, and init_fill_by uses it. */
uint64_t init_base(const struct table *t);
/* Writes n values from place `first` on, with `base` from init_base of the same table. */
void init_fill_by(const struct table *t, uint64_t base, uint64_t first, size_t n, float *out);
/* Returns the place of the row's first element, id * cols, so that a row has the same initial
 * values at every server and in every order of creation. */
uint64_t init_row_place(const struct table *t, uint64_t id);

#endif
