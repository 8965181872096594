/* SPDX-License-Identifier: ISC */
#include "msg/answer.h"

#include <string.h>

#include "core/fields.h"

#define BEGIN(name)                       static const struct field fields_answer_##name[] = {
#define INT(member, least, most, missing) FIELDS_INT(member, least, most, missing, WRITE_VALUE),
#define FLAG(member)                      FIELDS_OTHER(#member, FIELD_FLAG, NULL, WRITE_VALUE),
#define TEXT(member)                      FIELDS_OTHER(#member, FIELD_TEXT, NULL, WRITE_VALUE),
#define LIST(member, name, most)          FIELDS_LIST(#member, most, fields_##name, WRITE_IF_SET),
#define DOC_NULL(member)                  FIELDS_OTHER(#member, FIELD_DOC, NULL, WRITE_NULL),
#define OBJECT(member, name)              FIELDS_OTHER(#member, FIELD_OBJECT, fields_##name, WRITE_VALUE),
#define END(name) \
	FIELDS_OTHER(NULL, FIELD_DOC, NULL, WRITE_VALUE) \
	} \
	;
#include "msg/answer.def"

static const struct field *const tables[] = {
#define BEGIN(name) fields_answer_##name,
#define INT(member, least, most, missing)
#define FLAG(member)
#define TEXT(member)
#define LIST(member, name, most)
#define DOC_NULL(member)
#define OBJECT(member, name)
#define END(name)
#include "msg/answer.def"
};

static enum err_code decode_answer(const struct field *f, const json_t *json, void *out,
    size_t size, struct err *e)
{
	enum err_code rc;

	memset(out, 0, size);
	rc = fields_decode(f, json, out, e);
	if (rc)
		err_prefix(e, "the coordinator's answer");
	return rc;
}

#define BEGIN(name) \
	enum err_code answer_decode_##name(const json_t *json, struct answer_##name *out, \
	    struct err *e) \
	{ \
		return decode_answer(fields_answer_##name, json, out, sizeof *out, e); \
	} \
	void answer_release_##name(struct answer_##name *a) \
	{ \
		fields_release(fields_answer_##name, a); \
	}
#define INT(member, least, most, missing)
#define FLAG(member)
#define TEXT(member)
#define LIST(member, name, most)
#define DOC_NULL(member)
#define OBJECT(member, name)
#define END(name)
#include "msg/answer.def"

json_t *answer_encode(enum answer_kind kind, const void *body)
{
	return fields_encode(tables[kind], body);
}

json_t *answer_of_error(const struct err *why)
{
	const struct answer_refusal error = { .code = err_name(why->code),
		.message = why->msg,
		.cause = why->cause ? err_cause_name(why->cause) : NULL };

	return ANSWER(refused, .error = &error);
}

bool answer_is_refusal(const json_t *answer, struct err *why)
{
	struct answer_refused a;
	bool refused = answer_decode_refused(answer, &a, why) != ERR_OK || a.error;

	if (a.error)
		err_because(why, err_by_name(a.error->code), err_cause_by_name(a.error->cause),
		    "%s", a.error->message);
	answer_release_refused(&a);
	return refused;
}
