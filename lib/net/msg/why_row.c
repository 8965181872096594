/* SPDX-License-Identifier: ISC */
#include "msg/why_row.h"

#include "core/fields.h"

#define BEGIN(name)          static const struct field fields_##name[] = {
#define TEXT(member)         FIELDS_OTHER(#member, FIELD_TEXT, NULL, WRITE_VALUE),
#define TEXT_AS(member, key) FIELDS_OTHER(key, FIELD_TEXT, NULL, WRITE_VALUE),
#define TEXT_IF(member)      FIELDS_OTHER(#member, FIELD_TEXT, NULL, WRITE_IF_SET),
#define DOC(member)          FIELDS_OTHER(#member, FIELD_DOC, NULL, WRITE_VALUE),
#define NUM(member)          FIELDS_OTHER(#member, FIELD_NUM, NULL, WRITE_VALUE),
#define END(name) \
	FIELDS_OTHER(NULL, FIELD_DOC, NULL, WRITE_VALUE) \
	} \
	;
#include "msg/why_row.def"

json_t *why_row_encode(const struct why_row *row, int64_t step)
{
	struct why_row all = *row;
	json_t *at = step < 0 ? json_null() : json_integer((json_int_t)step),
	       *json = json_event("why");

	all.step = at;
	fields_encode_to(fields_why_row, &all, json);
	json_decref(at);
	return json;
}
