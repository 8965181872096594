/* SPDX-License-Identifier: ISC */
#ifndef MSG_WHY_ROW_H
#define MSG_WHY_ROW_H

/* A row of GET /v1/why as a struct; why_row.def has the members, and this module is the only one
 * that writes their keys. Pure; any thread. */
#include "core/json.h"

#define BEGIN(name)          struct name {
#define TEXT(member)         const char *member;
#define TEXT_AS(member, key) const char *member;
#define TEXT_IF(member)      const char *member;
#define DOC(member)          const json_t *member;
#define NUM(member)          double member;
#define END(name) \
	} \
	;
#include "msg/why_row.def"

/* Encodes a row that waits at this step (-1: at none), whatever row->step is. A new reference. */
json_t *why_row_encode(const struct why_row *row, int64_t step);

#endif
