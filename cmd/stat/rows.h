/* SPDX-License-Identifier: ISC */
#ifndef CMD_STAT_ROWS_H
#define CMD_STAT_ROWS_H

#include "cmd/stat/view.h"

/* Operations on the rows of a view: arrays of JSON objects with an "id". */

/* The row with the same id, or NULL. */
const json_t *rows_find_same(const json_t *rows, const json_t *row);
/* Sort the rows by a column: numbers in descending order, texts in alphabetical order with the
 * numbers in them by value, rows without a value last. Rates are relative to the rows `before`,
 * `seconds` ago. */
void rows_sort(json_t *rows, const struct column *by, const json_t *before, double seconds);
/* Append a row "total", in which each column of v is combined as its enum column_total says. */
void rows_total(json_t *rows, const struct stat_view *v);

#endif
