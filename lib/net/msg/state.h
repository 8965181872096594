/* SPDX-License-Identifier: ISC */
#ifndef MSG_STATE_H
#define MSG_STATE_H

/* The saved state of the coordinator as a struct: struct state. This module is the
 * only one that knows its keys, and state.def has its members. The layout, the shape of a requested
 * table, configurations and figures in it stay documents of other modules. struct state_head, the
 * coordinator's part of a checkpoint's manifest, is described here, too, because both have the
 * leases of data.
 *
 * A struct is decoded from a document, or filled by hand and encoded. Its lists and objects are
 * allocated (core/mem.h), its texts and documents are borrowed, except for those that state.def
 * marks HELD. The functions are pure and may run on any thread. */
#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/json.h"
#include "msg/words.h"

#define BEGIN(name)                          struct name {
#define INT(member, least, most, missing)    int64_t member;
#define INT_IF(member, least, most, missing) int64_t member;
#define ID(member)                           uint64_t member;
#define ID_HEAD(member)                      uint64_t member;
#define FLAG(member)                         _Alignas(8) bool member;
#define FLAG_IF(member)                      _Alignas(8) bool member;
#define TEXT(member)                         const char *member;
#define WORD(member, words)                  int64_t member;
#define TEXT_AS(member, key)                 const char *member;
#define TEXT_IF(member)                      const char *member;
#define DOC(member)                          const json_t *member;
#define HELD(member)                         const json_t *member;
#define INTS(member, least, most, longest) \
	int64_t *member; \
	uint64_t n##member;
#define LIST(member, name, longest) \
	struct name *member; \
	uint64_t n##member;
#define LIST_IF(member, name, longest) LIST(member, name, longest)
#define OBJECT(member, name)           struct name *member;
#define OBJECT_NULL(member, name)      struct name *member;
#define END(name) \
	} \
	;
#include "msg/state.def"

/* Version 1 had all its members in one document; version 2 has parts (state_part.h). */
#define STATE_VERSION 2

/* Decode a saved state. json may be any document; it must live as long as *out is used. *out is to
 * be released, and is all zeros after an error. ERR_FORMAT: a member has the wrong type or is out
 * of bounds. */
enum err_code state_decode(const json_t *json, struct state *out, struct err *e);
/* Encode a state; a new reference. */
json_t *state_encode(const struct state *s);
/* Free the lists and objects; all members become zeros. state_free frees an allocated struct, too;
 * NULL is fine. */
void state_release(struct state *s);
void state_free(struct state *s);

/* As those above, for the coordinator's part of a manifest. */
enum err_code state_head_decode(const json_t *json, struct state_head *out, struct err *e);
json_t *state_head_encode(const struct state_head *s);
void state_head_release(struct state_head *s);

/* Decode and encode what state.json has beside the first part, and what it says of the file of a
 * part; all members are borrowed. ERR_FORMAT. */
enum err_code state_index_decode(const json_t *json, struct state_index *out, struct err *e);
json_t *state_index_encode(const struct state_index *s);
enum err_code state_file_decode(const json_t *json, struct state_file *out, struct err *e);
json_t *state_file_encode(const struct state_file *s);

/* Decode the addresses of a process, as in the message "worker_join". ERR_FORMAT. */
enum err_code state_seat_decode(const json_t *json, struct state_seat *out, struct err *e);

/* Copy and free leases that are in no other struct. state_leases_free(NULL) is fine. */
struct state_leases *state_leases_copy(const struct state_leases *t);
void state_leases_free(struct state_leases *t);

#endif
