/* SPDX-License-Identifier: ISC */
#ifndef MSG_LAYOUT_DOCUMENT_H
#define MSG_LAYOUT_DOCUMENT_H

/* The layout as a document, and what of a table is written with it, as structs; layout_document.def
 * has the members, and this module is the only one that knows their keys. The layout itself is in
 * layout/layout.h, which also reads and checks the lists. The functions are pure and may run on any
 * thread. */
#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/json.h"

#define BEGIN(name)                       struct name {
#define INT(member, least, most, missing) int64_t member;
#define FLAG(member)                      _Alignas(8) bool member;
#define FLAG_IF(member)                   _Alignas(8) bool member;
#define DOC(member)                       const json_t *member;
#define INTS(member, least, most, longest) \
	int64_t *member; \
	uint64_t n##member;
#define END(name) \
	} \
	;
#include "msg/layout_document.def"

/* Decode an object. Documents in *out belong to `json`. ERR_PROTO: a member has the wrong type or
 * is out of bounds. */
enum err_code layout_document_decode(const json_t *json, struct layout_document *out,
    struct err *e);
enum err_code layout_past_decode(const json_t *table, struct layout_past *out, struct err *e);
enum err_code layout_place_decode(const json_t *table, struct layout_place *out, struct err *e);
enum err_code layout_parts_decode(const json_t *table, struct layout_parts *out, struct err *e);
/* layout_trial_release frees its list, and must be called after an error, too. */
enum err_code layout_trial_decode(const json_t *json, struct layout_trial *out, struct err *e);
void layout_trial_release(struct layout_trial *t);
/* Encode an object: a new reference, or members for the object of a table. */
json_t *layout_document_encode(const struct layout_document *d);
void layout_past_encode(const struct layout_past *p, json_t *table);
void layout_place_encode(const struct layout_place *p, json_t *table);
json_t *layout_trial_encode(const struct layout_trial *t);

#endif
