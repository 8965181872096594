/* SPDX-License-Identifier: ISC */
#include "msg/owner.h"

#include "core/fields.h"

#define BEGIN(name)                       static const struct field fields_##name[] = {
#define INT(member, least, most, missing) FIELDS_INT(member, least, most, missing, WRITE_VALUE),
#define ID(member)                        FIELDS_OTHER(#member, FIELD_ID, NULL, WRITE_VALUE),
#define FLAG(member)                      FIELDS_OTHER(#member, FIELD_FLAG, NULL, WRITE_VALUE),
#define TEXT(member)                      FIELDS_OTHER(#member, FIELD_TEXT, NULL, WRITE_VALUE),
#define END(name) \
	FIELDS_OTHER(NULL, FIELD_DOC, NULL, WRITE_VALUE) \
	} \
	;
#include "msg/owner.def"

void owner_decode(const json_t *record, struct owner *out)
{
	if (fields_decode(fields_owner, record, out, NULL))
		*out = (struct owner){ .host = "", .boot_id = "", .pid_namespace = "" };
}

json_t *owner_encode(const struct owner *o)
{
	return fields_encode(fields_owner, o);
}

void beat_decode(const json_t *record, struct beat *out)
{
	if (fields_decode(fields_beat, record, out, NULL))
		*out = (struct beat){ 0 };
}

json_t *beat_encode(const struct beat *b)
{
	return fields_encode(fields_beat, b);
}

void standby_decode(const json_t *record, struct standby *out)
{
	if (fields_decode(fields_standby, record, out, NULL))
		*out = (struct standby){ .data = "", .http = "", .host = "", .run_dir = "" };
}

json_t *standby_encode(const struct standby *s)
{
	return fields_encode(fields_standby, s);
}
