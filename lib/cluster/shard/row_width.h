/* SPDX-License-Identifier: ISC */
#ifndef SHARD_ROW_WIDTH_H
#define SHARD_ROW_WIDTH_H

#include <string.h>

#include "math/copy.h"
#include "shard/part.h"

/* Rows that begin narrow and are widened after some updates, where the table's policy says so.
 * p->rows has the first p->narrow columns of each row; p->rest has, under the same id, the other
 * columns of wide rows. Where no row is ever narrow, p->rest is NULL and p->narrow is all columns.
 *
 * A row: narrow --update number policy.widen_after--> wide. A row in p->rows counts its updates up
 * to that number, and it has a row in p->rest exactly when the count has reached it. The
 * partition's lock is held. */

/* Columns of a row in p->rest; and its floats, with the rule's state. */
static inline uint32_t row_width_rest_cols(const struct part *p)
{
	return p->table->cols - p->narrow;
}

static inline uint32_t row_width_rest_stride(const struct part *p)
{
	return row_width_rest_cols(p) * (1 + p->by->rule->nslots);
}

/* The row's updates, counted up to table->policy.widen_after. p->rest must not be NULL. */
static inline uint32_t row_width_updates(const struct part *p, const float *row)
{
	uint32_t n;

	memcpy(&n, row + p->updates_at, sizeof n);
	return n;
}

/* Sets that count; larger numbers are stored as policy.widen_after. */
static inline void row_width_set_updates(const struct part *p, float *row, uint64_t updates)
{
	uint64_t most = p->table->policy.widen_after;
	uint32_t n = (uint32_t)(updates < most ? updates : most);

	memcpy(row + p->updates_at, &n, sizeof n);
}

/* Is the row wide? False where no row is ever narrow. */
static inline bool row_width_is_wide(const struct part *p, const float *row)
{
	return p->rest && row_width_updates(p, row) >= p->table->policy.widen_after;
}

/* Makes p->rest for rows with the state of this rule, or leaves it NULL where no row is ever
 * narrow. */
void row_width_alloc(struct part *p, const struct optim_rule *rule);

/* Writes the initial values of columns first .. first + cols - 1 and the rule's initial state to
 * the rows whose bits are set in `made`. */
void row_width_init_columns(const struct part *p, const uint8_t *ids, float *const *row,
    uint64_t made, uint32_t first, uint32_t cols);

/* Counts an update of n rows (at most ROWS_BLOCK). place gets the numbers of the *wide rows that
 * were wide before; the others count one update more, and bit i of *widened is set where that makes
 * row i wide. False: no memory. */
bool row_width_count_updates(struct part *p, const uint8_t *ids, float *const *row, uint32_t n,
    uint32_t *place, uint32_t *wide, uint64_t *widened);

/* Writes the columns behind the narrow ones, row_width_rest_cols(p) floats: zeros for a row that is narrow
 * or does not exist (NULL). */
void row_width_copy_rest(const struct part *p, uint64_t id, const float *row, float *out);
/* Writes all columns of a row. */
static inline void row_width_copy_row(const struct part *p, uint64_t id, const float *row,
    float *out)
{
	copy_floats(out, row, p->narrow);
	if (p->rest)
		row_width_copy_rest(p, id, row, out + p->narrow);
}
/* Writes the columns behind the narrow ones of n rows (at most ROWS_BLOCK, NULL for those that do
 * not exist) into n whole rows at out. */
void row_width_show_rest(const struct part *p, const uint8_t *ids, float *const *row, uint32_t n,
    float *out);

/* Removes the rows from p->rest that were removed from p->rows. */
void row_width_sift(struct part *p);
/* row_width_count: the number of rows in p->rows that are wide by their counts. row_width_is_sound: has
 * p->rest exactly their rows? */
size_t row_width_count(const struct part *p);
bool row_width_is_sound(const struct part *p);
/* Bytes of p->rows and p->rest; bytes of one row, with its places in the indexes. */
size_t row_width_bytes(const struct part *p);
size_t row_width_row_bytes(const struct part *p, const float *row);
/* Number of parameter values in all rows, without state. */
uint64_t row_width_values(const struct part *p);

#endif
