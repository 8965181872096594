/* SPDX-License-Identifier: ISC */
#include "msg/words.h"

#include <stddef.h>
#include <string.h>

#define SET(name)      const char *const words_##name[] = {
#define WORD(id, text) [id] = text,
#define END_SET(name) \
	NULL \
	} \
	;
#include "msg/words.def"

const char *words_text(const char *const *words, int64_t value)
{
	return value < 0 ? "?" : words[value];
}

int64_t words_find(const char *const *words, const char *text)
{
	for (int64_t i = 0; words[i]; i++)
		if (strcmp(words[i], text) == 0)
			return i;
	return -1;
}

int64_t words_member(const char *const *words, const json_t *object, const char *key)
{
	return words_find(words, json_str(object, key, ""));
}
