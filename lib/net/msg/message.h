/* SPDX-License-Identifier: ISC */
#ifndef MSG_MESSAGE_H
#define MSG_MESSAGE_H

/* Control messages between a process and the coordinator. They travel as JSON (ps-protocol(7));
 * this module is the only one that knows their keys. message.def has one entry a message, from
 * which come its struct, its encoder, its decoder with bounds, the roles that may send it, and its
 * places in the tables of handlers:
 *
 *    struct message m;
 *
 *    if (!message_decode(json, role, &m, &e) && m.kind == MESSAGE_ack)
 *            ... m.ack.rev ...
 *    agent_tell(agent, MESSAGE(ack, .rev = rev));
 *
 * A message that one process sends as a part of another's document, such as statistics, stays JSON
 * in a DOC member. The functions are pure and may run on any thread. */
#include <stdbool.h>
#include <stdint.h>

#include "auth/keyring.h"
#include "core/err.h"
#include "core/fields.h"
#include "core/json.h"
#include "core/steps.h"
#include "msg/words.h"

/* The greatest number in a message of another process, where the coordinator computes with it: the
 * sum over 4096 processes fits into an int64_t. */
#define MESSAGE_MOST (INT64_C(1) << 50)
/* The greatest batch: that of job.batch (conf/conf.def). */
#define BATCH_MOST 16777216

/* struct message_NAME for each message. Every member takes 8 bytes, so that the encoder and the
 * decoder find the k-th at 8 * k. */
#define BEGIN(name, op, senders, to)      struct message_##name {
#define INT(member, least, most, missing) int64_t member;
#define ID(member)                        uint64_t member;
#define FLAG(member)                      _Alignas(8) bool member;
#define TEXT(member)                      const char *member;
#define WORD(member, words)               int64_t member;
#define TEXT_AS(member, key)              const char *member;
#define DOC(member)                       const json_t *member;
#define LIST(member, name, longest)       const json_t *member;
#define MAP(member, least, most, keys)    const json_t *member;
#define TUPLE(name)                       BEGIN(name, , , )
#define END_TUPLE(name)                   END(name)
#define END(name) \
	} \
	;
#include "msg/message.def"

/* message_NAME_at: the i-th tuple of a list that was decoded. */
#define TUPLE(name) \
	static inline struct message_##name message_##name##_at(const json_t *list, size_t i) \
	{ \
		struct message_##name tuple; \
		fields_read_tuple(json_array_get(list, i), (int64_t *)&tuple, sizeof tuple / 8); \
		return tuple; \
	}
#include "msg/message.def"

enum message_kind {
#define BEGIN(name, op, senders, to) MESSAGE_##name,
#include "msg/message.def"
	MESSAGE_KINDS
};

/* A decoded message. Texts and documents in it belong to `json`. */
struct message {
	enum message_kind kind;
	/* The whole document: done, leave and fail have figures beside their members. */
	const json_t *json;
	union {
#define BEGIN(name, op, senders, to) struct message_##name name;
#include "msg/message.def"
	};
};

/* The sender of messages of the coordinator, beside the roles of keys. */
#define MESSAGE_COORDINATOR 0

/* Decode what a peer with this role (enum role, or MESSAGE_COORDINATOR) sent. json may be any
 * document; it must live as long as *out is used. ERR_PROTO: there is no such message, or a member
 * has the wrong type or is out of bounds. ERR_FORBIDDEN: the role may not send it. */
enum err_code message_decode(const json_t *json, unsigned role, struct message *out, struct err *e);
/* Encode a message; body: its struct. Returns a new reference; documents in it get one more. */
json_t *message_encode(enum message_kind kind, const void *body);
#define MESSAGE(name, ...) \
	message_encode(MESSAGE_##name, &(const struct message_##name){ __VA_ARGS__ })
/* Is it an integer from 0 to MESSAGE_MOST? For numbers in a document of another process. */
bool message_is_count(const json_t *v);
/* Replace a member that is an integer in a message that was encoded before. */
void message_set_int(json_t *message, const char *member, int64_t value);
/* Remove a member, if the message has it. */
void message_remove(json_t *message, const char *member);
/* May a key with this role (enum role, or MESSAGE_COORDINATOR) send it? */
bool message_may_send(unsigned role, enum message_kind kind);
/* The members of a kind, as message.def has them. */
const struct field *message_fields(enum message_kind kind);
/* The "op" of a kind. */
const char *message_op(enum message_kind kind);

#endif
