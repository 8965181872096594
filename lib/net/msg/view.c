/* SPDX-License-Identifier: ISC */
#include "msg/view.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "core/fields.h"
#include "core/mem.h"

#define BEGIN(name)                       static const struct field fields_##name[] = {
#define INT(member, least, most, missing) FIELDS_INT(member, least, most, missing, WRITE_VALUE),
#define ID(member)                        FIELDS_OTHER(#member, FIELD_ID, NULL, WRITE_VALUE),
#define FLAG(member)                      FIELDS_OTHER(#member, FIELD_FLAG, NULL, WRITE_VALUE),
#define TEXT(member)                      FIELDS_OTHER(#member, FIELD_TEXT, NULL, WRITE_VALUE),
#define WORD(member, words)               FIELDS_WORD(member, words),
#define TEXT_AS(member, key)              FIELDS_OTHER(key, FIELD_TEXT, NULL, WRITE_VALUE),
#define DOC(member)                       FIELDS_OTHER(#member, FIELD_DOC, NULL, WRITE_VALUE),
#define LIST(member, name, most)          FIELDS_LIST(#member, most, fields_##name, WRITE_VALUE),
#define OBJECT(member, name)              FIELDS_OTHER(#member, FIELD_OBJECT, fields_##name, WRITE_VALUE),
#define END(name) \
	FIELDS_OTHER(NULL, FIELD_DOC, NULL, WRITE_VALUE) \
	} \
	;
#include "msg/view.def"

/* A view with what it is made of. The view comes first, so a pointer to one is a pointer to
 * this. */
struct shared_view {
	struct view view;
	_Atomic unsigned refs;
	json_t *json;
};

enum err_code view_decode(const json_t *json, const struct view **out, struct err *e)
{
	struct shared_view *s = mem_alloc(sizeof *s);
	enum err_code rc;

	atomic_init(&s->refs, 1);
	s->json = json_incref((json_t *)(uintptr_t)json);
	rc = fields_decode(fields_view, json, &s->view, e);
	*out = &s->view;
	if (!rc)
		return ERR_OK;
	err_prefix(e, "message \"view\"");
	view_release(*out);
	*out = NULL;
	return rc;
}

const struct view *view_ref(const struct view *v)
{
	if (v)
		atomic_fetch_add(&((struct shared_view *)(uintptr_t)v)->refs, 1);
	return v;
}

void view_release(const struct view *v)
{
	struct shared_view *s = (struct shared_view *)(uintptr_t)v;

	if (!v || atomic_fetch_sub(&s->refs, 1) > 1)
		return;
	fields_release(fields_view, &s->view);
	json_decref(s->json);
	free(s);
}

const json_t *view_document(const struct view *v)
{
	return ((const struct shared_view *)v)->json;
}

bool view_phase_is(const struct view *v, enum phase phase)
{
	return v && v->phase == (int64_t)phase;
}

void view_cut(const json_t *view, struct view_cut *out)
{
	const json_t *rev = json_object_get(view, "rev");

	out->rev = (uint64_t)json_integer_value(rev);
	out->workers = json_incref(json_object_get(view, "workers"));
	out->common = json_copy((json_t *)(uintptr_t)view);
	json_object_del(out->common, "rev");
	json_object_del(out->common, "workers");
	json_object_del(out->common, "keys");
	json_object_del(out->common, "keys_made");
	out->guest = json_copy(out->common);
	json_object_del(out->guest, "ring");
}

void view_cut_release(struct view_cut *c)
{
	json_decref(c->workers);
	json_decref(c->common);
	json_decref(c->guest);
}

char *view_complete_text(const char *cut, uint64_t rev, const char *worker)
{
	struct buf b = BUF_INIT;

	/* All but the closing brace. */
	buf_append(&b, cut, strlen(cut) - 1);
	buf_printf(&b, ",\"rev\":%llu", (unsigned long long)rev);
	if (worker) {
		buf_puts(&b, ",\"worker\":");
		buf_puts(&b, worker);
	}
	buf_puts(&b, "}");
	return (char *)b.data;
}

enum err_code view_decode_keys(const json_t *json, struct view_key **out, uint64_t *n,
    struct err *e)
{
	void *list;
	enum err_code rc = fields_decode_list(fields_view_key, json, &list, n, e);

	*out = list;
	if (rc) {
		err_prefix(e, "message \"keys\"");
		free(list);
		*out = NULL;
	}
	return rc;
}
