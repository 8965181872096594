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

static const struct {
	const char *name;
	bool harmless;
} why_rows[WHY_CODES] = {
#define WHY(id, name, harmless) { name, harmless },
#include "msg/why.def"
#undef WHY
};

const char *why_code_name(enum why_code code)
{
	return code < WHY_CODES ? why_rows[code].name : "";
}

enum why_code why_code_by_name(const char *name)
{
	unsigned i = 0;

	while (i < WHY_CODES && strcmp(name, why_rows[i].name) != 0)
		i++;
	return (enum why_code)i;
}

bool why_code_is_harmless(enum why_code code)
{
	return code < WHY_CODES && why_rows[code].harmless;
}

static const char *const event_names[EVENT_KINDS] = {
#define EVENT(kind) #kind,
#include "msg/event.def"
#undef EVENT
};

const char *event_kind_name(enum event_kind kind)
{
	return kind < EVENT_KINDS ? event_names[kind] : "";
}

enum event_kind event_kind_by_name(const char *name)
{
	unsigned i = 0;

	while (i < EVENT_KINDS && strcmp(name, event_names[i]) != 0)
		i++;
	return (enum event_kind)i;
}
