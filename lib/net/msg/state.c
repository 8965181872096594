/* SPDX-License-Identifier: ISC */
#include "msg/state.h"

#include <stdlib.h>

#include "core/fields.h"
#include "core/mem.h"

#define BEGIN(name)                          static const struct field fields_##name[] = {
#define INT(member, least, most, missing)    FIELDS_INT(member, least, most, missing, WRITE_VALUE),
#define INT_IF(member, least, most, missing) FIELDS_INT(member, least, most, missing, WRITE_IF_SET),
#define ID(member)                           FIELDS_OTHER(#member, FIELD_ID, NULL, WRITE_VALUE),
#define ID_HEAD(member)                      FIELDS_OTHER(#member, FIELD_ID, NULL, WRITE_HEAD),
#define FLAG(member)                         FIELDS_OTHER(#member, FIELD_FLAG, NULL, WRITE_VALUE),
#define FLAG_IF(member)                      FIELDS_OTHER(#member, FIELD_FLAG, NULL, WRITE_IF_SET),
#define TEXT(member)                         FIELDS_OTHER(#member, FIELD_TEXT, NULL, WRITE_VALUE),
#define WORD(member, words)                  FIELDS_WORD(member, words),
#define TEXT_AS(member, key)                 FIELDS_OTHER(key, FIELD_TEXT, NULL, WRITE_VALUE),
#define TEXT_IF(member)                      FIELDS_OTHER(#member, FIELD_TEXT, NULL, WRITE_IF_SET),
#define DOC(member)                          FIELDS_OTHER(#member, FIELD_DOC, NULL, WRITE_VALUE),
#define HELD(member)                         FIELDS_OTHER(#member, FIELD_HELD, NULL, WRITE_VALUE),
#define INTS(member, least, most, longest)   FIELDS_INTS(member, least, most, longest),
#define LIST(member, name, longest)          FIELDS_LIST(#member, longest, fields_##name, WRITE_VALUE),
#define LIST_IF(member, name, longest)       FIELDS_LIST(#member, longest, fields_##name, WRITE_IF_SET),
#define OBJECT(member, name)                 FIELDS_OTHER(#member, FIELD_OBJECT, fields_##name, WRITE_VALUE),
#define OBJECT_NULL(member, name)            FIELDS_OTHER(#member, FIELD_OBJECT, fields_##name, WRITE_NULL),
#define END(name) \
	FIELDS_OTHER(NULL, FIELD_DOC, NULL, WRITE_VALUE) \
	} \
	;
#include "msg/state.def"

static enum err_code decode_document(const struct field *f, const char *what, const json_t *json,
    void *out, struct err *e)
{
	struct err why = { 0 };

	if (!fields_decode(f, json, out, &why))
		return ERR_OK;
	fields_release(f, out);
	return err_because(e, ERR_FORMAT, why.cause, "%s was not written by a coordinator: %s",
	    what, why.msg);
}

enum err_code state_decode(const json_t *json, struct state *out, struct err *e)
{
	enum err_code rc;

	*out = (struct state){ 0 };
	rc = decode_document(fields_state, "the state", json, out, e);
	if (rc)
		*out = (struct state){ 0 };
	return rc;
}

json_t *state_encode(const struct state *s)
{
	return fields_encode(fields_state, s);
}

void state_release(struct state *s)
{
	fields_release(fields_state, s);
	*s = (struct state){ 0 };
}

void state_free(struct state *s)
{
	if (s)
		state_release(s);
	free(s);
}

enum err_code state_head_decode(const json_t *json, struct state_head *out, struct err *e)
{
	enum err_code rc;

	*out = (struct state_head){ 0 };
	rc = decode_document(fields_state_head, "the manifest", json, out, e);
	if (rc)
		*out = (struct state_head){ 0 };
	return rc;
}

json_t *state_head_encode(const struct state_head *s)
{
	return fields_encode(fields_state_head, s);
}

void state_head_release(struct state_head *s)
{
	fields_release(fields_state_head, s);
	*s = (struct state_head){ 0 };
}

enum err_code state_index_decode(const json_t *json, struct state_index *out, struct err *e)
{
	return decode_document(fields_state_index, "the state", json, out, e);
}

json_t *state_index_encode(const struct state_index *s)
{
	return fields_encode(fields_state_index, s);
}

enum err_code state_file_decode(const json_t *json, struct state_file *out, struct err *e)
{
	return decode_document(fields_state_file, "the name of a part", json, out, e);
}

json_t *state_file_encode(const struct state_file *s)
{
	return fields_encode(fields_state_file, s);
}

enum err_code state_seat_decode(const json_t *json, struct state_seat *out, struct err *e)
{
	return decode_document(fields_state_seat, "an address", json, out, e);
}

/* A copy of an array; NULL for an empty one. */
static void *copy_array(const void *list, uint64_t n, size_t size)
{
	void *copy = n ? mem_array(n, size) : NULL;

	if (n)
		memcpy(copy, list, n * size);
	return copy;
}

struct state_leases *state_leases_copy(const struct state_leases *t)
{
	struct state_leases *copy = mem_alloc(sizeof *copy);

	*copy = *t;
	copy->open = copy_array(t->open, t->nopen, sizeof *copy->open);
	copy->held = copy_array(t->held, t->nheld, sizeof *copy->held);
	copy->attempts = copy_array(t->attempts, t->nattempts, sizeof *copy->attempts);
	for (uint64_t i = 0; i < t->nattempts; i++)
		json_incref((json_t *)(uintptr_t)t->attempts[i].taken);
	copy->places = copy_array(t->places, t->nplaces, sizeof *copy->places);
	return copy;
}

void state_leases_free(struct state_leases *t)
{
	if (t)
		fields_release(fields_state_leases, t);
	free(t);
}
