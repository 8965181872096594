/* SPDX-License-Identifier: ISC */
#ifndef MSG_ANSWER_H
#define MSG_ANSWER_H

/* The coordinator's answers to control messages, as structs. answer.def has one entry an answer,
 * and this module is the only one that knows their keys:
 *
 *    return ANSWER(worker_join, .rank = rank);
 *
 *    struct answer_worker_join a;
 *
 *    if (!answer_decode_worker_join(json, &a, &e))
 *            ... a.rank ...
 *
 * The functions are pure and may run on any thread. */
#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/json.h"

#define BEGIN(name)                       struct answer_##name {
#define INT(member, least, most, missing) int64_t member;
#define FLAG(member)                      _Alignas(8) bool member;
#define TEXT(member)                      const char *member;
#define LIST(member, name, most) \
	const struct name *member; \
	uint64_t n##member;
#define DOC_NULL(member)     const json_t *member;
#define OBJECT(member, name) const struct name *member;
#define END(name) \
	} \
	;
#include "msg/answer.def"

enum answer_kind {
#define BEGIN(name) ANSWER_##name,
#define INT(member, least, most, missing)
#define FLAG(member)
#define TEXT(member)
#define LIST(member, name, most)
#define DOC_NULL(member)
#define OBJECT(member, name)
#define END(name)
#include "msg/answer.def"
};

/* answer_decode_NAME() decodes an answer. Texts and documents in *out belong to `json`; objects and
 * lists are freed by answer_release_NAME(), which must be called after an error, too. ERR_PROTO: a
 * member has the wrong type or is out of bounds; the members from that one on have no value of the
 * answer. */
#define BEGIN(name) \
	enum err_code answer_decode_##name(const json_t *json, struct answer_##name *out, \
	    struct err *e); \
	void answer_release_##name(struct answer_##name *a);
#define INT(member, least, most, missing)
#define FLAG(member)
#define TEXT(member)
#define LIST(member, name, most)
#define DOC_NULL(member)
#define OBJECT(member, name)
#define END(name)
#include "msg/answer.def"

/* Encodes an answer; body: its struct. Returns a new reference; documents in it get one more. */
json_t *answer_encode(enum answer_kind kind, const void *body);
#define ANSWER(name, ...) answer_encode(ANSWER_##name, &(const struct answer_##name){ __VA_ARGS__ })

/* The answer to a message that was refused with this error. */
json_t *answer_of_error(const struct err *why);
/* Is the answer a refusal? Then *why gets its error. */
bool answer_is_refusal(const json_t *answer, struct err *why);

#endif
