/* SPDX-License-Identifier: ISC */
#ifndef CORE_SUGGEST_H
#define CORE_SUGGEST_H

#include <stddef.h>

/* For "did you mean": the nearest of n names by edit distance (insert, delete, replace, swap), or
 * NULL when none is near enough. Pure. */
const char *suggest(const char *word, const char *const *names, size_t n);

#endif
