/* SPDX-License-Identifier: ISC */
#include "msg/fields.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"

static size_t member_bytes(const struct field *f)
{
	return f->type == FIELD_LIST ? 16 : 8;
}

static size_t object_bytes(const struct field *f)
{
	size_t n = 0;

	for (; f->key; f++)
		n += member_bytes(f);
	return n;
}

static enum err_code refuse_member(const char *what, const struct field *f, const char *want,
    struct err *e)
{
	return err_set(e, ERR_PROTO, "message \"%s\": its \"%s\" must be %s", what, f->key, want);
}

static enum err_code decode_int(const char *what, const struct field *f, const json_t *v,
    void *member, struct err *e)
{
	int64_t n = v ? json_integer_value(v) : f->missing;
	char want[64];

	if (v && (!json_is_integer(v) || n < f->least || n > f->most)) {
		snprintf(want, sizeof want, "an integer from %" PRId64 " to %" PRId64, f->least,
		    f->most);
		return refuse_member(what, f, want, e);
	}
	memcpy(member, &n, sizeof n);
	return ERR_OK;
}

static enum err_code decode_object(const char *what, const struct field *f, const json_t *v,
    void *member, struct err *e)
{
	void *object = NULL;
	enum err_code rc = ERR_OK;

	if (v && !json_is_object(v))
		return refuse_member(what, f, "an object", e);
	if (v) {
		object = mem_alloc(object_bytes(f->of));
		rc = fields_decode(what, f->of, v, object, e);
	}
	memcpy(member, &object, sizeof object);
	return rc;
}

static enum err_code decode_list(const char *what, const struct field *f, const json_t *v,
    char *member, struct err *e)
{
	void *list = NULL;
	uint64_t n = 0;
	enum err_code rc;

	if (v && (!json_is_array(v) || json_array_size(v) > (size_t)f->most)) {
		char want[64];

		snprintf(want, sizeof want, "a list of at most %" PRId64, f->most);
		return refuse_member(what, f, want, e);
	}
	rc = fields_decode_list(what, f->of, v, &list, &n, e);
	memcpy(member, &list, sizeof list);
	memcpy(member + 8, &n, sizeof n);
	return rc;
}

static enum err_code decode_member(const char *what, const struct field *f, const json_t *v,
    void *member, struct err *e)
{
	const char *text = v ? json_string_value(v) : "";
	uint64_t id = 0;

	switch (f->type) {
	case FIELD_INT:
		return decode_int(what, f, v, member, e);
	case FIELD_ID:
		if (v && !json_u64_value(v, &id))
			return refuse_member(what, f, "a text of decimal digits below 2^64", e);
		memcpy(member, &id, sizeof id);
		return ERR_OK;
	case FIELD_FLAG:
		if (v && !json_is_boolean(v))
			return refuse_member(what, f, "true or false", e);
		*(bool *)member = json_is_true(v);
		return ERR_OK;
	case FIELD_TEXT:
		if (v && !text)
			return refuse_member(what, f, "a text", e);
		memcpy(member, &text, sizeof text);
		return ERR_OK;
	case FIELD_DOC:
		memcpy(member, &v, sizeof v);
		return ERR_OK;
	case FIELD_LIST:
		return decode_list(what, f, v, member, e);
	case FIELD_OBJECT:
		return decode_object(what, f, v, member, e);
	}
	abort();
}

enum err_code fields_decode(const char *what, const struct field *f, const json_t *json, void *out,
    struct err *e)
{
	char *at = out;
	enum err_code rc = json_is_object(json)
	    ? ERR_OK
	    : err_set(e, ERR_PROTO, "message \"%s\": it is no object", what);

	for (; f->key && !rc; at += member_bytes(f), f++) {
		const json_t *v = json_object_get(json, f->key);

		rc = decode_member(what, f, json_is_null(v) ? NULL : v, at, e);
	}
	return rc;
}

enum err_code fields_decode_list(const char *what, const struct field *f, const json_t *json,
    void **list, uint64_t *n, struct err *e)
{
	size_t each = object_bytes(f), i;
	const json_t *v;
	enum err_code rc = ERR_OK;

	*n = json_array_size(json);
	*list = *n ? mem_array(*n, each) : NULL;
	json_array_foreach(json, i, v) {
		if (!rc && !json_is_object(v))
			rc = err_set(e, ERR_PROTO, "message \"%s\": a list has what is no object",
			    what);
		if (!rc)
			rc = fields_decode(what, f, v, (char *)*list + i * each, e);
	}
	return rc;
}

void fields_release(const struct field *f, void *object)
{
	char *at = object;

	for (; f->key; at += member_bytes(f), f++) {
		void *p;
		uint64_t n;

		if (f->type != FIELD_LIST && f->type != FIELD_OBJECT)
			continue;
		memcpy(&p, at, sizeof p);
		if (f->type == FIELD_LIST) {
			memcpy(&n, at + 8, sizeof n);
			fields_release_list(f->of, p, n);
		} else if (p) {
			fields_release(f->of, p);
			free(p);
		}
	}
}

void fields_release_list(const struct field *f, void *list, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		fields_release(f, (char *)list + i * object_bytes(f));
	free(list);
}
