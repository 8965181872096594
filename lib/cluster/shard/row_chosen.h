/* SPDX-License-Identifier: ISC */
#ifndef SHARD_ROW_CHOSEN_H
#define SHARD_ROW_CHOSEN_H

#include "shard/rows.h"

/* For row stores that keep their rows in memory: the rows that a snapshot has. */
struct chosen_row {
	uint64_t id;
	const void *row;
};

/* Lists the rows that wants() chooses (NULL: all), in ascending order of ids, *n of them. The caller
 * frees the list. NULL: no memory. */
struct chosen_row *row_chosen_list(const struct rows *rows, rows_keeps_fn *wants, void *ctx,
    size_t *n);
/* Copies n chosen rows of this many bytes, and their ids. The caller frees both. False: no memory,
 * and *ids and *to are NULL. */
bool row_chosen_copy(const struct chosen_row *chosen, size_t n, size_t bytes, uint64_t **ids,
    uint8_t **to);

#endif
