/* SPDX-License-Identifier: ISC */
#ifndef MSG_WORDS_H
#define MSG_WORDS_H

/* The enumerations of words.def. A struct of a .def file holds such a value in an int64_t, and -1
 * for a word that is absent or that this version does not know. words_NAME[] ends with NULL.
 * Constant: any thread. */
#include <stdbool.h>
#include <stdint.h>

#include "core/json.h"

#define SET(name)      enum name {
#define WORD(id, text) id,
#define END_SET(name) \
	} \
	;
#include "msg/words.def"

/* The word, or "?" for -1. */
const char *words_text(const char *const *words, int64_t value);
/* The value of a text, or of the text that a member of an object is. -1: there is none, or it is
 * not known here. */
int64_t words_find(const char *const *words, const char *text);
int64_t words_member(const char *const *words, const json_t *object, const char *key);

#define SET(name) extern const char *const words_##name[];
#define WORD(id, text)
#define END_SET(name)
#include "msg/words.def"

/* Kinds of waits, from why.def. Any thread. */
enum why_code {
#define WHY(id, name, harmless) WHY_##id,
#include "msg/why.def"
#undef WHY
	WHY_CODES /* their number; also any code that this version does not know */
};

/* The name of a code: "not-joined". */
const char *why_code_name(enum why_code code);
/* WHY_CODES: the name is not known here. */
enum why_code why_code_by_name(const char *name);
/* Does this wait end without any action? False for WHY_CODES. */
bool why_code_is_harmless(enum why_code code);

/* Kinds of events, from event.def. Any thread. */
enum event_kind {
#define EVENT(kind) EVENT_##kind,
#include "msg/event.def"
#undef EVENT
	EVENT_KINDS /* their number; also any kind that this version does not know */
};

/* The name of a kind: "worker_lost". "" for EVENT_KINDS. */
const char *event_kind_name(enum event_kind kind);
/* EVENT_KINDS: the name is not known here. */
enum event_kind event_kind_by_name(const char *name);

#endif
