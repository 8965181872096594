/* SPDX-License-Identifier: ISC */
#include "data/table/data_table_words.h"

#include <stddef.h>
#include <stdio.h>

#define WORD_BYTES 64

static bool is_of_word(unsigned char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	    c >= 0x80;
}

/* Copies the next word of *p, in small letters, and moves *p after it. False: there is none. */
static bool next_word(const char **p, char out[static WORD_BYTES])
{
	size_t n = 0;

	while (**p && !is_of_word((unsigned char)**p))
		++*p;
	for (; is_of_word((unsigned char)**p); ++*p)
		if (n + 1 < WORD_BYTES)
			out[n++] = (char)(**p >= 'A' && **p <= 'Z' ? **p + 32 : **p);
	out[n] = '\0';
	return n > 0;
}

void data_table_words(const char *text, void (*take)(void *ctx, const char *token, bool pair),
    void *ctx)
{
	char word[WORD_BYTES], before[WORD_BYTES] = "", pair[2 * WORD_BYTES];

	while (next_word(&text, word)) {
		take(ctx, word, false);
		if (*before) {
			snprintf(pair, sizeof pair, "%s %s", before, word);
			take(ctx, pair, true);
		}
		snprintf(before, sizeof before, "%s", word);
	}
}
