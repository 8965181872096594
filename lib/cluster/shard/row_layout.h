/* SPDX-License-Identifier: ISC */
#ifndef SHARD_ROW_LAYOUT_H
#define SHARD_ROW_LAYOUT_H

/* The layout of a row in a sparse partition: its values, the update rule's state of them (both
 * floats), and then those of the words below (u32) that the table needs. The words that all replicas
 * have in common come first, so that a state transfer sends the first row_layout_copied() places of a
 * row. A place is 4 bytes. Words are read and written by memcpy, because the places are declared as
 * floats. No locks: the partition's lock covers the rows. */

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum row_word {
	ROW_SEEN,    /* lower half of the step at which the row was updated last; in all replicas */
	ROW_CHANGED, /* number of the update that changed its values last; local to this replica */
	ROW_WORDS,
};

struct row_layout {
	uint32_t floats;        /* values and optimizer state */
	uint32_t stride;        /* places of a whole row */
	uint32_t at[ROW_WORDS]; /* place of each word; 0: rows have no such word */
};

static inline struct row_layout row_layout_make(uint32_t floats, bool seen, bool changed)
{
	return (struct row_layout){ floats, floats + seen + changed,
		{ seen ? floats : 0, changed ? floats + seen : 0 } };
}

static inline bool row_layout_has(const struct row_layout *l, enum row_word word)
{
	return l->at[word] != 0;
}

static inline uint32_t row_layout_copied(const struct row_layout *l)
{
	return l->stride - row_layout_has(l, ROW_CHANGED);
}

/* Reads and sets a word that the rows have. */
static inline uint32_t row_layout_get(const struct row_layout *l, const float *row,
    enum row_word word)
{
	uint32_t v;

	memcpy(&v, row + l->at[word], sizeof v);
	return v;
}

static inline void row_layout_set(const struct row_layout *l, float *row, enum row_word word,
    uint32_t v)
{
	memcpy(row + l->at[word], &v, sizeof v);
}

#endif
