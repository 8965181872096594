/* SPDX-License-Identifier: ISC */
#ifndef SHARD_ROW_LAYOUT_H
#define SHARD_ROW_LAYOUT_H

/* The layout of a row of a sparse partition, as the partition reads and changes it: first the
 * values and the update rule's state of them, as floats, and then the words below (u32) that the
 * table needs. Offsets and sizes are bytes. The words that all replicas have in common come first,
 * so that a state transfer sends the first row_layout_copied() bytes of a row. A row is untyped
 * memory, aligned for floats: the functions below read and write its words by memcpy. No locks: the
 * partition's lock covers the rows. */

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum row_word {
	ROW_SEEN,    /* lower half of the step at which the row was updated last; in all replicas */
	ROW_CHANGED, /* number of the update that changed its values last; local to this replica */
	ROW_WORDS,
};

struct row_layout {
	uint32_t values;        /* parameters: the table's width */
	uint32_t floats;        /* values and optimizer state */
	uint32_t bytes;         /* of a whole row */
	uint32_t at[ROW_WORDS]; /* offset of each word; 0: rows have no such word */
};

/* state: floats of optimizer state. seen, changed: rows have these words. */
static inline struct row_layout row_layout_make(uint32_t values, uint32_t state, bool seen,
    bool changed)
{
	struct row_layout l = { .values = values, .floats = values + state };

	l.bytes = l.floats * (uint32_t)sizeof(float);
	for (int word = 0; word < ROW_WORDS; word++)
		if (word == ROW_SEEN ? seen : changed) {
			l.at[word] = l.bytes;
			l.bytes += (uint32_t)sizeof(uint32_t);
		}
	return l;
}

static inline bool row_layout_has(const struct row_layout *l, enum row_word word)
{
	return l->at[word] != 0;
}

/* Bytes of a row that all replicas have in common. */
static inline uint32_t row_layout_copied(const struct row_layout *l)
{
	return row_layout_has(l, ROW_CHANGED) ? l->at[ROW_CHANGED] : l->bytes;
}

/* Reads and sets a word that the rows have. */
static inline uint32_t row_layout_get(const struct row_layout *l, const void *row,
    enum row_word word)
{
	uint32_t v;

	memcpy(&v, (const uint8_t *)row + l->at[word], sizeof v);
	return v;
}

static inline void row_layout_set(const struct row_layout *l, void *row, enum row_word word,
    uint32_t v)
{
	memcpy((uint8_t *)row + l->at[word], &v, sizeof v);
}

#endif
