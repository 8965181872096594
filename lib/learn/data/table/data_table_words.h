/* SPDX-License-Identifier: ISC */
#ifndef DATA_DATA_TABLE_WORDS_H
#define DATA_DATA_TABLE_WORDS_H

#include <stdbool.h>

/* Calls take for each word of a text, and for each pair of neighbours, "new york". A word is made of
 * letters, digits and all signs beyond ASCII; ASCII letters become small. Words of more than 63 bytes
 * are cut. The token lives as long as the call. Pure. */
void data_table_words(const char *text, void (*take)(void *ctx, const char *token, bool pair),
    void *ctx);

#endif
