/* SPDX-License-Identifier: ISC */
#ifndef DATA_DATA_RATINGS_H
#define DATA_DATA_RATINGS_H

#include <stdbool.h>
#include <stddef.h>

/* Tables of ratings (data_ratings.c). */

/* Finds the columns of users, items and ratings among n names by the usual ones, such as userId, movie
 * and stars: at[0], at[1] and at[2] are their numbers, or DATA_RATINGS_NONE. True if all three are
 * found. */
#define DATA_RATINGS_NONE SIZE_MAX
bool data_ratings_find(const char *const *name, size_t n, size_t at[static 3]);

#endif
