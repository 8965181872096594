/* SPDX-License-Identifier: ISC */
#include "core/fill_words.h"

#include <stdbool.h>
#include <string.h>

#include "core/buf.h"

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
