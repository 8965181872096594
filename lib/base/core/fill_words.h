/* SPDX-License-Identifier: ISC */
#ifndef CORE_FILL_WORDS_H
#define CORE_FILL_WORDS_H

#include <stddef.h>

/* Fills in the placeholders of advice, as "ps-serve -C DIR": words of which the value is known. Pure. */

struct fill_word {
	const char *word, *value; /* value NULL: it is not known, and the word stays */
};

/* The text with each whole word of the list replaced by its value, as a new string. A word ends at any other
 * character than a letter, a digit or "_". */
char *fill_words(const char *text, const struct fill_word *list, size_t n);

#endif
