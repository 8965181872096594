/* SPDX-License-Identifier: ISC */
#ifndef MSG_TRAINING_FACTS_H
#define MSG_TRAINING_FACTS_H

/* The facts of training data as a struct; training_facts.def has the members, and this module is
 * the only one that knows their keys. The functions are pure and may run on any thread. */
#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/json.h"

#define BEGIN(name)                       struct name {
#define INT(member, least, most, missing) int64_t member;
#define FLAG(member)                      _Alignas(8) bool member;
#define TEXT(member)                      const char *member;
#define DOC(member)                       const json_t *member;
#define END(name) \
	} \
	;
#include "msg/training_facts.def"

/* Decodes facts, which *out borrows from. ERR_PROTO: a member is missing, has the wrong type or is
 * out of bounds. */
enum err_code training_facts_decode(const json_t *json, struct training_facts *out, struct err *e);
/* Encodes facts, without documents that are NULL. A new reference. */
json_t *training_facts_encode(const struct training_facts *f);

#endif
