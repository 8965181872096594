/* SPDX-License-Identifier: ISC */
#ifndef MSG_JOIN_FILE_H
#define MSG_JOIN_FILE_H

/* A join file as a struct; join_file.def has the members, and this module is the only one that
 * knows their keys. The functions are pure and may run on any thread. */
#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/json.h"

#define BEGIN(name)                       struct name {
#define INT(member, least, most, missing) int64_t member;
#define TEXT(member)                      const char *member;
#define TEXT_IF(member)                   const char *member;
#define END(name) \
	} \
	;
#include "msg/join_file.def"

/* Decodes a join file, which *out borrows from. ERR_CONFIG, ERR_PROTO: it has an unknown member, or
 * one of the wrong type. */
enum err_code join_file_decode(const json_t *json, struct join_file *out, struct err *e);
/* Encodes a join file. A new reference. */
json_t *join_file_encode(const struct join_file *f);

#endif
