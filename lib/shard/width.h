#ifndef SHARD_WIDTH_H
#define SHARD_WIDTH_H

#include <string.h>

#include "kern/copy.h"
#include "shard/part.h"

/* Rows that are narrow before they are wide, where the table's policy says so: p->rows has of each row its first
 * columns, p->rest by the same ids the others of those that are wide.  A row in p->rows says how often it was updated,
 * up to the number that makes it wide, so who has one has the other.  Where no row is ever narrow p->rest is NULL, and
 * p->narrow all columns.  The partition's lock is held. */

/* Columns of a row in p->rest, and its floats: with the rule's state. */
static inline uint32_t width_cols(const struct part *p)
{
	return p->table->cols - p->narrow;
}

static inline uint32_t width_stride(const struct part *p)
{
	return width_cols(p) * (1 + p->by->rule->nslots);
}

/* How often the row was updated, up to table->policy.widen_after; there is p->rest. */
static inline uint32_t width_updates(const struct part *p, const float *row)
{
	uint32_t n;

	memcpy(&n, row + p->updates_at, sizeof n);
	return n;
}

static inline void width_set_updates(const struct part *p, float *row, uint64_t updates)
{
	uint64_t most = p->table->policy.widen_after;
	uint32_t n = (uint32_t)(updates < most ? updates : most);

	memcpy(row + p->updates_at, &n, sizeof n);
}

static inline bool width_is_wide(const struct part *p, const float *row)
{
	return p->rest && width_updates(p, row) >= p->table->policy.widen_after;
}

/* Memory for them, of this rule; none where no row is ever narrow. */
void width_alloc(struct part *p, const struct optim_rule *rule);

/* First values of columns first .. first + cols - 1, and the rule's state: of the rows by bits of `made`. */
void width_begin(const struct part *p, const uint8_t *ids, float *const *row, uint64_t made, uint32_t first, uint32_t cols);

/* Of n rows that are updated, no more than a block: place gets the numbers of those that were wide, *wide of them; the
 * others have one update more, and bit i of *widened is set where that makes row i wide.  False: no memory. */
bool width_turn(struct part *p, const uint8_t *ids, float *const *row, uint32_t n, uint32_t *place, uint32_t *wide,
    uint64_t *widened);

/* The rest of a row's values, to width_cols(p) floats: zeros of a narrow one, and of none (NULL). */
void width_rest(const struct part *p, uint64_t id, const float *row, float *out);
/* All values of a row. */
static inline void width_row(const struct part *p, uint64_t id, const float *row, float *out)
{
	copy_floats(out, row, p->narrow);
	if (p->rest)
		width_rest(p, id, row, out + p->narrow);
}
/* The rest of n rows, a block, into their places behind one another in out; NULL in row: there is none. */
void width_show(const struct part *p, const uint8_t *ids, float *const *row, uint32_t n, float *out);

/* Rows have gone from p->rows: so they do from p->rest. */
void width_sift(struct part *p);
/* How many wide rows p->rows speaks of; and is the rest of each there, and of no other? */
size_t width_count(const struct part *p);
bool width_is_sound(const struct part *p);
/* Bytes of both, and those of a row, with the places in their indexes. */
size_t width_bytes(const struct part *p);
size_t width_row_bytes(const struct part *p, const float *row);
/* Floats that are values. */
uint64_t width_values(const struct part *p);

#endif
