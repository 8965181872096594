/* SPDX-License-Identifier: ISC */
#ifndef SHARD_ROW_CHANGES_H
#define SHARD_ROW_CHANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The ids of the rows of one sparse partition that were updated lately, in the order of the steps
 * of their updates. A scan for the rows that changed since a step looks at these instead of all
 * rows.
 *
 *    off --row_changes_begin--> on --row_changes_forget, or no memory--> off
 *
 * `off` costs nothing: the first scan that asks for changes begins the list. A row is in the list
 * once for each step that updated it, and stays in it when it is removed; its removal is a change,
 * too. So the rows that were removed since a step are the ones in the list from that step on that
 * do not exist. The scan that begins the list finds earlier updates in the rows, but no earlier
 * removals. When the list is full, it forgets its older half, and then knows fewer steps. Local to
 * this replica. No locks: the partition's lock covers it. */
struct row_change {
	uint64_t id, step;
};

struct row_changes {
	struct row_change *at; /* by step, ascending */
	size_t n, cap;
	uint64_t from;      /* the list has every update of this step and of later ones */
	uint64_t gone_from; /* and every removal of this step and of later ones */
	bool on;
};

/* The length at which a list forgets its older half, for a partition of this number of rows: about
 * two bytes for each row. */
static inline size_t row_changes_most(size_t rows)
{
	return 4096 + rows / 8;
}

/* Begins the list again with n updates, in any order, which are all of step `from` and later.
 * removed: no row was removed at this step or later. Takes the array over, which must come from
 * malloc. */
void row_changes_begin(struct row_changes *c, uint64_t from, uint64_t removed,
    struct row_change *at, size_t n);
/* Notes an update or a removal. `step` is not less than the previous one's. most:
 * row_changes_most. */
void row_changes_note(struct row_changes *c, uint64_t id, uint64_t step, size_t most);
/* Does the list have all updates of this step and of later ones? */
bool row_changes_reach(const struct row_changes *c, uint64_t since);
/* Does the list have all removals of this step and of later ones? */
bool row_changes_reach_removals(const struct row_changes *c, uint64_t since);
/* The first change of this step or a later one, and in *n the number of changes from it on. */
const struct row_change *row_changes_since(const struct row_changes *c, uint64_t since, size_t *n);
/* Frees the list, which is off then. */
void row_changes_forget(struct row_changes *c);

#endif
