/* SPDX-License-Identifier: ISC */
#include "msg/message.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/fields.h"

/* Bits by role number (auth/role.def); bit 0 is the coordinator. */
#define C (1u << MESSAGE_COORDINATOR)
#define W (1u << ROLE_WORKER)
#define S (1u << ROLE_SERVER)
#define R (1u << ROLE_RELAY)
#define M (1u << ROLE_MONITOR)
#define A (1u << ROLE_ADMIN)
#define E (1u << ROLE_READER)

#define BEGIN(name, op, senders, to)      static const struct field fields_##name[] = {
#define INT(member, least, most, missing) FIELDS_INT(member, least, most, missing, WRITE_VALUE),
#define ID(member)                        FIELDS_OTHER(#member, FIELD_ID, NULL, WRITE_VALUE),
#define FLAG(member)                      FIELDS_OTHER(#member, FIELD_FLAG, NULL, WRITE_VALUE),
#define TEXT(member)                      FIELDS_OTHER(#member, FIELD_TEXT, NULL, WRITE_VALUE),
#define WORD(member, words)               FIELDS_WORD(member, words),
#define TEXT_AS(member, key)              FIELDS_OTHER(key, FIELD_TEXT, NULL, WRITE_VALUE),
#define DOC(member)                       FIELDS_OTHER(#member, FIELD_DOC, NULL, WRITE_VALUE),
#define LIST(member, name, longest)       FIELDS_TUPLES(#member, longest, fields_##name),
#define MAP(member, least, most, keys)    FIELDS_MAP(member, least, most, keys),
#define TUPLE(name)                       BEGIN(name, , , )
#define END_TUPLE(name)                   END(name)
#define END(name) \
	FIELDS_OTHER(NULL, FIELD_DOC, NULL, WRITE_VALUE) \
	} \
	; \
	_Static_assert(sizeof(struct message_##name) == \
	        8 * (sizeof fields_##name / sizeof *fields_##name - 1), \
	    "each member of a message takes 8 bytes");
#include "msg/message.def"

static const struct kind {
	const char *op;
	unsigned senders;
	const struct field *field;
} kinds[] = {
#define BEGIN(name, op, senders, to) { op, senders, fields_##name },
#include "msg/message.def"
};

const char *message_op(enum message_kind kind)
{
	return kinds[kind].op;
}

const struct field *message_fields(enum message_kind kind)
{
	return kinds[kind].field;
}

bool message_may_send(unsigned role, enum message_kind kind)
{
	return kinds[kind].senders & 1u << role;
}

enum err_code message_decode(const json_t *json, unsigned role, struct message *out, struct err *e)
{
	const char *op = json_string_value(json_object_get(json, "op"));
	enum err_code rc;
	bool known = false;

	for (unsigned i = 0; op && i < MESSAGE_KINDS; i++) {
		const struct kind *k = &kinds[i];

		if (strcmp(k->op, op) != 0)
			continue;
		known = true;
		if (!message_may_send(role, (enum message_kind)i))
			continue;
		*out = (struct message){ .kind = (enum message_kind)i, .json = json };
		rc = fields_decode(k->field, json, &out->watch, e);
		if (rc)
			err_prefix(e, "message \"%s\"", op);
		return rc;
	}
	if (!op)
		return err_set(e, ERR_PROTO, "a control message without \"op\"");
	if (known)
		return err_set(e, ERR_FORBIDDEN, "a key with the role %s may not send \"%.40s\"",
		    role == MESSAGE_COORDINATOR ? "coordinator" : role_name((enum role)role), op);
	return err_set(e, ERR_PROTO, "there is no control message \"%.40s\"", op);
}

json_t *message_encode(enum message_kind kind, const void *body)
{
	const struct kind *k = &kinds[kind];
	json_t *json = json_pack("{s:s}", "op", k->op);

	fields_encode_to(k->field, body, json);
	return json;
}

bool message_is_count(const json_t *v)
{
	return json_is_integer(v) && json_integer_value(v) >= 0 &&
	    json_integer_value(v) <= MESSAGE_MOST;
}

void message_set_int(json_t *message, const char *member, int64_t value)
{
	json_object_set_new(message, member, json_integer(value));
}

void message_remove(json_t *message, const char *member)
{
	json_object_del(message, member);
}
