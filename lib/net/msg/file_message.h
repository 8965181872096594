/* SPDX-License-Identifier: ISC */
#ifndef MSG_FILE_MESSAGE_H
#define MSG_FILE_MESSAGE_H

/* Messages of the sessions in which servers and the coordinator exchange files of checkpoints, as
 * structs: the JSON in records file_put, file_get and file_end (ps-protocol(7)). file_message.def
 * has the members, and this module is the only one that knows their keys. The functions are pure
 * and may run on any thread. */
#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/json.h"

#define BEGIN(name)                       struct name {
#define INT(member, least, most, missing) int64_t member;
#define TEXT(member)                      const char *member;
#define END(name) \
	} \
	;
#include "msg/file_message.def"

/* Decode a message. Texts in *out belong to `json`. ERR_PROTO: a member has the wrong type or is
 * out of bounds. */
enum err_code file_put_decode(const json_t *json, struct file_put *out, struct err *e);
enum err_code file_end_decode(const json_t *json, struct file_end *out, struct err *e);
enum err_code file_get_decode(const json_t *json, struct file_get *out, struct err *e);
/* Encode a message. A new reference. */
json_t *file_put_encode(const struct file_put *m);
json_t *file_end_encode(const struct file_end *m);
json_t *file_get_encode(const struct file_get *m);

#endif
