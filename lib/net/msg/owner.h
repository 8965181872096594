/* SPDX-License-Identifier: ISC */
#ifndef MSG_OWNER_H
#define MSG_OWNER_H

/* The record of the coordinator's process that owns a run directory, as a struct; owner.def has the
 * members, and this module is the only one that knows their keys. The functions are pure and may
 * run on any thread. */
#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/json.h"

#define BEGIN(name)                       struct name {
#define INT(member, least, most, missing) int64_t member;
#define ID(member)                        uint64_t member;
#define FLAG(member)                      _Alignas(8) bool member;
#define TEXT(member)                      const char *member;
#define END(name) \
	} \
	;
#include "msg/owner.def"

/* Decodes a record, which *out borrows from. NULL, or a record in which a member has the wrong type
 * or is out of bounds, counts as one without members. */
void owner_decode(const json_t *record, struct owner *out);
/* Encodes a record. A new reference. */
json_t *owner_encode(const struct owner *o);
/* Decodes and encodes the other records in the same way. */
void beat_decode(const json_t *record, struct beat *out);
json_t *beat_encode(const struct beat *b);
void standby_decode(const json_t *record, struct standby *out);
json_t *standby_encode(const struct standby *s);

#endif
