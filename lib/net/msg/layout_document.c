/* SPDX-License-Identifier: ISC */
#include "msg/layout_document.h"

#include "core/fields.h"

#define BEGIN(name)                        static const struct field fields_##name[] = {
#define INT(member, least, most, missing)  FIELDS_INT(member, least, most, missing, WRITE_VALUE),
#define FLAG(member)                       FIELDS_OTHER(#member, FIELD_FLAG, NULL, WRITE_VALUE),
#define FLAG_IF(member)                    FIELDS_OTHER(#member, FIELD_FLAG, NULL, WRITE_IF_SET),
#define DOC(member)                        FIELDS_OTHER(#member, FIELD_DOC, NULL, WRITE_VALUE),
#define INTS(member, least, most, longest) FIELDS_INTS(member, least, most, longest),
#define END(name) \
	FIELDS_OTHER(NULL, FIELD_DOC, NULL, WRITE_VALUE) \
	} \
	;
#include "msg/layout_document.def"

enum err_code layout_document_decode(const json_t *json, struct layout_document *out, struct err *e)
{
	return fields_decode(fields_layout_document, json, out, e);
}

enum err_code layout_past_decode(const json_t *table, struct layout_past *out, struct err *e)
{
	return fields_decode(fields_layout_past, table, out, e);
}

enum err_code layout_place_decode(const json_t *table, struct layout_place *out, struct err *e)
{
	return fields_decode(fields_layout_place, table, out, e);
}

enum err_code layout_parts_decode(const json_t *table, struct layout_parts *out, struct err *e)
{
	return fields_decode(fields_layout_parts, table, out, e);
}

enum err_code layout_trial_decode(const json_t *json, struct layout_trial *out, struct err *e)
{
	*out = (struct layout_trial){ 0 };
	return fields_decode(fields_layout_trial, json, out, e);
}

void layout_trial_release(struct layout_trial *t)
{
	fields_release(fields_layout_trial, t);
}

json_t *layout_document_encode(const struct layout_document *d)
{
	return fields_encode(fields_layout_document, d);
}

void layout_past_encode(const struct layout_past *p, json_t *table)
{
	fields_encode_to(fields_layout_past, p, table);
}

void layout_place_encode(const struct layout_place *p, json_t *table)
{
	fields_encode_to(fields_layout_place, p, table);
}

json_t *layout_trial_encode(const struct layout_trial *t)
{
	return fields_encode(fields_layout_trial, t);
}
