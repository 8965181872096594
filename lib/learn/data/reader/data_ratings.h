/* SPDX-License-Identifier: ISC */
#ifndef DATA_DATA_RATINGS_H
#define DATA_DATA_RATINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Tables of ratings (data_ratings.c). */

/* Finds the columns of users, items and ratings among n names by their parts (data_ratings_header.c), as in
 * userId, movieTitle and stars: at[0], at[1] and at[2] are their numbers, or DATA_RATINGS_NONE. True if
 * all three are found. Pure. */
#define DATA_RATINGS_NONE SIZE_MAX
bool data_ratings_find(const char *const *name, size_t n, size_t at[static 3]);

/* Reads the number of a user or an item: a whole number below 2^62, or the 61 bits of a word's hash. False:
 * the cell is empty, or a number of another form (-1, 1.5, too many digits), which is a mistake and no word.
 * STREAM_PAD bytes may be read after the cell. Pure. */
bool data_ratings_number(const char *cell, bool item, uint64_t *out, bool *word);

#endif
