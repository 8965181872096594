/* SPDX-License-Identifier: ISC */
#ifndef MSG_WHY_CODE_H
#define MSG_WHY_CODE_H

#include <stdbool.h>

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

#endif
