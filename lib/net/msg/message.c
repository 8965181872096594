/* SPDX-License-Identifier: ISC */
#include "msg/message.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"

/* Bits by role number (auth/role.def); bit 0 is the coordinator. */
#define C (1u << MESSAGE_COORDINATOR)
#define W (1u << ROLE_WORKER)
#define S (1u << ROLE_SERVER)
#define R (1u << ROLE_RELAY)
#define M (1u << ROLE_MONITOR)
#define A (1u << ROLE_ADMIN)
#define E (1u << ROLE_READER)

enum field_type { FIELD_INT, FIELD_ID, FIELD_FLAG, FIELD_TEXT, FIELD_DOC };

/* A member of a message: its key on the wire and, for integers, its bounds.  The k-th member is at
 * 8 * k in the struct. */
struct field {
	const char *key; /* NULL ends the list */
	enum field_type type;
	int64_t least, most, missing;
};

#define BEGIN(name, op, senders)          static const struct field fields_##name[] = {
#define INT(member, least, most, missing) { #member, FIELD_INT, least, most, missing },
#define ID(member)                        { #member, FIELD_ID, 0, 0, 0 },
#define FLAG(member)                      { #member, FIELD_FLAG, 0, 0, 0 },
#define TEXT(member)                      { #member, FIELD_TEXT, 0, 0, 0 },
#define TEXT_AS(member, key)              { key, FIELD_TEXT, 0, 0, 0 },
#define DOC(member)                       { #member, FIELD_DOC, 0, 0, 0 },
#define END(name) \
	{ \
		NULL, FIELD_DOC, 0, 0, 0 \
	} \
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
#define BEGIN(name, op, senders) { op, senders, fields_##name },
#define INT(member, least, most, missing)
#define ID(member)
#define FLAG(member)
#define TEXT(member)
#define TEXT_AS(member, key)
#define DOC(member)
#define END(name)
#include "msg/message.def"
};

const char *message_op(enum message_kind kind)
{
	return kinds[kind].op;
}

static enum err_code refuse_member(const struct kind *k, const struct field *f, const char *want,
    struct err *e)
{
	return err_set(e, ERR_PROTO, "message \"%s\": its \"%s\" must be %s", k->op, f->key, want);
}

static enum err_code decode_int(const struct kind *k, const struct field *f, const json_t *v,
    void *member, struct err *e)
{
	int64_t n = v ? json_integer_value(v) : f->missing;
	char want[64];

	if (v && (!json_is_integer(v) || n < f->least || n > f->most)) {
		snprintf(want, sizeof want, "an integer from %" PRId64 " to %" PRId64, f->least,
		    f->most);
		return refuse_member(k, f, want, e);
	}
	memcpy(member, &n, sizeof n);
	return ERR_OK;
}

static enum err_code decode_member(const struct kind *k, const struct field *f, const json_t *json,
    void *member, struct err *e)
{
	const json_t *v = json_object_get(json, f->key);
	const char *text = v ? json_string_value(v) : "";
	uint64_t id = 0;

	if (json_is_null(v))
		v = NULL;
	switch (f->type) {
	case FIELD_INT:
		return decode_int(k, f, v, member, e);
	case FIELD_ID:
		if (v && !json_want_u64s(json, k->op, f->key, &id, e))
			return refuse_member(k, f, "a text of decimal digits below 2^64", e);
		memcpy(member, &id, sizeof id);
		return ERR_OK;
	case FIELD_FLAG:
		if (v && !json_is_boolean(v))
			return refuse_member(k, f, "true or false", e);
		*(bool *)member = json_is_true(v);
		return ERR_OK;
	case FIELD_TEXT:
		if (v && !text)
			return refuse_member(k, f, "a text", e);
		text = v ? text : "";
		memcpy(member, &text, sizeof text);
		return ERR_OK;
	case FIELD_DOC:
		memcpy(member, &v, sizeof v);
		return ERR_OK;
	}
	abort();
}

enum err_code message_decode(const json_t *json, unsigned role, struct message *out, struct err *e)
{
	const char *op = json_string_value(json_object_get(json, "op"));
	bool known = false;

	for (unsigned i = 0; op && i < MESSAGE_KINDS; i++) {
		const struct kind *k = &kinds[i];
		enum err_code rc = ERR_OK;

		if (strcmp(k->op, op) != 0)
			continue;
		known = true;
		if (!(k->senders & 1u << role))
			continue;
		*out = (struct message){ .kind = (enum message_kind)i, .json = json };
		for (unsigned m = 0; !rc && k->field[m].key; m++)
			rc = decode_member(k, &k->field[m], json, (char *)&out->watch + 8 * m, e);
		return rc;
	}
	if (!op)
		return err_set(e, ERR_PROTO, "a control message without \"op\"");
	if (known)
		return err_set(e, ERR_FORBIDDEN, "a key with the role %s may not send \"%.40s\"",
		    role == MESSAGE_COORDINATOR ? "coordinator" : role_name((enum role)role), op);
	return err_set(e, ERR_PROTO, "there is no control message \"%.40s\"", op);
}

static json_t *encode_member(const struct field *f, const void *member)
{
	const json_t *doc;
	const char *text;
	int64_t n;
	uint64_t id;

	switch (f->type) {
	case FIELD_INT:
		memcpy(&n, member, sizeof n);
		return json_integer(n);
	case FIELD_ID:
		memcpy(&id, member, sizeof id);
		return json_of_u64(id);
	case FIELD_FLAG:
		return json_boolean(*(const bool *)member);
	case FIELD_TEXT:
		memcpy(&text, member, sizeof text);
		return text ? json_of_text(text) : NULL;
	case FIELD_DOC:
		memcpy(&doc, member, sizeof doc);
		return json_incref((json_t *)(uintptr_t)doc);
	}
	abort();
}

json_t *message_encode(enum message_kind kind, const void *body)
{
	const struct kind *k = &kinds[kind];
	json_t *json = json_pack("{s:s}", "op", k->op), *v;

	for (unsigned m = 0; k->field[m].key; m++)
		if ((v = encode_member(&k->field[m], (const char *)body + 8 * m)))
			json_object_set_new(json, k->field[m].key, v);
	return json;
}

void message_set_int(json_t *message, const char *member, int64_t value)
{
	json_object_set_new(message, member, json_integer(value));
}
