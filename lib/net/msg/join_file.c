/* SPDX-License-Identifier: ISC */
#include "msg/join_file.h"

#include "core/fields.h"

#define BEGIN(name)                       static const struct field fields_##name[] = {
#define INT(member, least, most, missing) FIELDS_INT(member, least, most, missing, WRITE_VALUE),
#define TEXT(member)                      FIELDS_OTHER(#member, FIELD_TEXT, NULL, WRITE_VALUE),
#define TEXT_IF(member)                   FIELDS_OTHER(#member, FIELD_TEXT, NULL, WRITE_IF_SET),
#define END(name) \
	FIELDS_OTHER(NULL, FIELD_DOC, NULL, WRITE_VALUE) \
	} \
	;
#include "msg/join_file.def"

static const char *const keys[] = {
#define BEGIN(name)
#define INT(member, least, most, missing) #member,
#define TEXT(member)                      #member,
#define TEXT_IF(member)                   #member,
#define END(name)                         NULL
#include "msg/join_file.def"
};

enum err_code join_file_decode(const json_t *json, struct join_file *out, struct err *e)
{
	if (!json_only(json, "", keys, e))
		return ERR_CONFIG;
	return fields_decode(fields_join_file, json, out, e);
}

json_t *join_file_encode(const struct join_file *f)
{
	return fields_encode(fields_join_file, f);
}
