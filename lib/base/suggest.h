#ifndef BASE_SUGGEST_H
#define BASE_SUGGEST_H

#include <stddef.h>

/* The nearest of n names by edit distance (insert, delete, replace, swap), or
 * NULL when none is near enough to be worth saying. */
const char *suggest(const char *word, const char *const *names, size_t n);

#endif
