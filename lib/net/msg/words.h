/* SPDX-License-Identifier: ISC */
#ifndef MSG_WORDS_H
#define MSG_WORDS_H

/* The enumerations of words.def. A struct of a .def file holds such a value in an int64_t, and -1 for
 * a word that is absent or that this version does not know. words_NAME[] ends with NULL. Constant: any
 * thread. */
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

#endif
