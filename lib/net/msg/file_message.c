/* SPDX-License-Identifier: ISC */
#include "msg/file_message.h"

#include "core/fields.h"

#define BEGIN(name)                       static const struct field fields_##name[] = {
#define INT(member, least, most, missing) FIELDS_INT(member, least, most, missing, WRITE_VALUE),
#define TEXT(member)                      FIELDS_OTHER(#member, FIELD_TEXT, NULL, WRITE_VALUE),
#define END(name) \
	FIELDS_OTHER(NULL, FIELD_DOC, NULL, WRITE_VALUE) \
	} \
	;
#include "msg/file_message.def"

enum err_code file_put_decode(const json_t *json, struct file_put *out, struct err *e)
{
	return fields_decode(fields_file_put, json, out, e);
}

enum err_code file_end_decode(const json_t *json, struct file_end *out, struct err *e)
{
	return fields_decode(fields_file_end, json, out, e);
}

enum err_code file_get_decode(const json_t *json, struct file_get *out, struct err *e)
{
	return fields_decode(fields_file_get, json, out, e);
}

json_t *file_put_encode(const struct file_put *m)
{
	return fields_encode(fields_file_put, m);
}

json_t *file_end_encode(const struct file_end *m)
{
	return fields_encode(fields_file_end, m);
}

json_t *file_get_encode(const struct file_get *m)
{
	return fields_encode(fields_file_get, m);
}
