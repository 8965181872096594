/* SPDX-License-Identifier: ISC */
#include "core/suggest.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "core/buf.h"

#define WORD_MAX 48

/* Optimal string alignment distance (Damerau-Levenshtein without repeated
 * edits of one place). */
static unsigned edit_distance(const char *a, const char *b)
{
	unsigned row[3][WORD_MAX + 1], *before = row[0], *last = row[1], *cur = row[2], *t;
	size_t la = strlen(a), lb = strlen(b);

	if (la > WORD_MAX || lb > WORD_MAX)
		return UINT32_MAX;
	for (size_t j = 0; j <= lb; j++)
		last[j] = (unsigned)j;
	for (size_t i = 1; i <= la; i++) {
		cur[0] = (unsigned)i;
		for (size_t j = 1; j <= lb; j++) {
			unsigned d = last[j - 1] + (a[i - 1] != b[j - 1]);

			if (last[j] + 1 < d)
				d = last[j] + 1;
			if (cur[j - 1] + 1 < d)
				d = cur[j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    before[j - 2] + 1 < d)
				d = before[j - 2] + 1;
			cur[j] = d;
		}
		t = before;
		before = last;
		last = cur;
		cur = t;
	}
	return last[lb];
}

const char *suggest(const char *word, const char *const *names, size_t n)
{
	const char *best = NULL;
	unsigned least = UINT32_MAX;

	for (size_t i = 0; i < n; i++) {
		unsigned d = edit_distance(word, names[i]);

		if (d < least) {
			least = d;
			best = names[i];
		}
	}
	/* Up to a mistake in four letters it is a typing error; more is another word. */
	return best && least <= 1 + strlen(word) / 4 && least < strlen(best) ? best : NULL;
}

static bool is_word_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	    c == '_';
}

char *fill_words(const char *text, const struct fill_word *list, size_t n)
{
	struct buf out = BUF_INIT;
	bool inside = false;

	buf_puts(&out, "");
	while (*text) {
		size_t i = 0, len = 1;

		for (; i < n; i++) {
			len = strlen(list[i].word);
			if (!inside && list[i].value && strncmp(text, list[i].word, len) == 0 &&
			    !is_word_char(text[len]))
				break;
		}
		if (i < n) {
			buf_puts(&out, list[i].value);
			text += len;
			continue;
		}
		inside = is_word_char(*text);
		buf_append(&out, text++, 1);
	}
	return (char *)out.data;
}
