/* SPDX-License-Identifier: ISC */
#include "msg/setting.h"

#include <stdlib.h>

#include "core/buf.h"
#include "core/mem.h"

const struct field fields_setting[] = {
	FIELDS_INT(step, 0, INT64_MAX, 0, WRITE_VALUE),
	FIELDS_INT(number, 0, UINT32_MAX, 0, WRITE_VALUE),
	FIELDS_OTHER("set", FIELD_DOC, NULL, WRITE_VALUE),
	FIELDS_OTHER("who", FIELD_TEXT, NULL, WRITE_IF_SET),
	FIELDS_OTHER(NULL, FIELD_DOC, NULL, WRITE_VALUE),
};

struct setting setting_copy(const struct setting *from)
{
	struct setting copy = *from;

	copy.set = json_deep_copy(from->set);
	copy.who = from->who ? mem_strdup(from->who) : NULL;
	return copy;
}

void setting_release(struct setting *s)
{
	json_decref((json_t *)(uintptr_t)s->set);
	free((void *)(uintptr_t)s->who);
	*s = (struct setting){ 0 };
}

json_t *setting_to_json(const struct setting *s)
{
	return fields_encode(fields_setting,
	    &(struct setting){ .step = s->step, .number = s->number, .set = s->set });
}

char *setting_sentence(const json_t *set)
{
	struct buf b = BUF_INIT;
	const char *name;
	json_t *v;

	json_object_foreach((json_t *)(uintptr_t)set, name, v)
		buf_printf(&b, "%s%s=%.80s", b.len ? " " : "", name, json_string_value(v));
	return b.data ? (char *)b.data : mem_strdup("");
}
