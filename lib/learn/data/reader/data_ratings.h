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

#endif
