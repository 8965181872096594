/* SPDX-License-Identifier: ISC */
#ifndef CORE_SUGGEST_H
#define CORE_SUGGEST_H

#include <stddef.h>

/* For "did you mean": the nearest of n names by edit distance (insert, delete, replace, swap), or
 * NULL when none is near enough. Pure. */
const char *suggest(const char *word, const char *const *names, size_t n);

/* A placeholder of advice, as DIR in "ps-serve -C DIR". */
struct fill_word {
	const char *word, *value; /* value NULL: it is not known, and the word stays */
};

/* Returns the text with each whole word of the list replaced by its value, as a new string. A word
 * ends at any other character than a letter, a digit or "_". Pure. */
char *fill_words(const char *text, const struct fill_word *list, size_t n);

#endif
