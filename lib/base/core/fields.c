/* SPDX-License-Identifier: ISC */
#include "core/fields.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/num.h"

static size_t member_bytes(const struct field *f)
{
	return f->type == FIELD_LIST || f->type == FIELD_INTS ? 16 : 8;
}

static size_t object_bytes(const struct field *f)
{
	size_t n = 0;

	for (; f->key; f++)
		n += member_bytes(f);
	return n;
}

static enum err_code refuse_member(const struct field *f, const char *want, struct err *e)
{
	return err_set(e, ERR_PROTO, "its \"%s\" must be %s", f->key, want);
}

static enum err_code decode_int(const struct field *f, const json_t *v, void *member, struct err *e)
{
	int64_t n = v ? json_integer_value(v) : f->missing;
	char want[64];

	if (v && (!json_is_integer(v) || n < f->least || n > f->most)) {
		snprintf(want, sizeof want, "an integer from %" PRId64 " to %" PRId64, f->least,
		    f->most);
		return refuse_member(f, want, e);
	}
	memcpy(member, &n, sizeof n);
	return ERR_OK;
}

/* Stores a new object, or NULL when the member is missing. An object that failed to decode is
 * stored as well, so that fields_release frees it. */
static enum err_code decode_object(const struct field *f, const json_t *v, void *member,
    struct err *e)
{
	void *object = NULL;
	enum err_code rc = ERR_OK;

	if (v && !json_is_object(v))
		return refuse_member(f, "an object", e);
	if (v) {
		object = mem_alloc(object_bytes(f->of));
		rc = fields_decode(f->of, v, object, e);
	}
	memcpy(member, &object, sizeof object);
	return rc;
}

/* Stores the pointer to the objects and, in the 8 bytes after it, their number. When the list
 * is refused as a whole, the member is left as it was. */
static enum err_code decode_list(const struct field *f, const json_t *v, char *member,
    struct err *e)
{
	void *list = NULL;
	uint64_t n = 0;
	enum err_code rc;

	if (v && (!json_is_array(v) || json_array_size(v) > f->longest)) {
		char want[64];

		snprintf(want, sizeof want, "a list of at most %zu", f->longest);
		return refuse_member(f, want, e);
	}
	rc = fields_decode_list(f->of, v, &list, &n, e);
	memcpy(member, &list, sizeof list);
	memcpy(member + 8, &n, sizeof n);
	return rc;
}

/* Stores the pointer to an int64_t array and, in the 8 bytes after it, its length. A missing or
 * empty list is NULL and 0. After an error, the array is stored with length 0, so that
 * fields_release frees it. */
static enum err_code decode_ints(const struct field *f, const json_t *v, char *member,
    struct err *e)
{
	int64_t *list = NULL, at;
	uint64_t n = json_array_size(v);
	bool good = !v || (json_is_array(v) && n <= f->longest);
	char want[96];

	if (good && n)
		list = mem_array(n, sizeof *list);
	for (uint64_t i = 0; good && i < n; i++) {
		const json_t *item = json_array_get(v, i);

		at = json_integer_value(item);
		good = json_is_integer(item) && at >= f->least && at <= f->most;
		list[i] = at;
	}
	if (!good)
		n = 0;
	memcpy(member, &list, sizeof list);
	memcpy(member + 8, &n, sizeof n);
	if (good)
		return ERR_OK;
	snprintf(want, sizeof want, "a list of at most %zu integers from %" PRId64 " to %" PRId64,
	    f->longest, f->least, f->most);
	return refuse_member(f, want, e);
}

/* Is it an array with one integer for each member of the tuple, all within their bounds? */
static bool is_tuple(const struct field *f, const json_t *tuple)
{
	size_t n = 0;

	if (!json_is_array(tuple))
		return false;
	for (; f[n].key; n++) {
		const json_t *v = json_array_get(tuple, n);

		if (!json_is_integer(v) || json_integer_value(v) < f[n].least ||
		    json_integer_value(v) > f[n].most)
			return false;
	}
	return json_array_size(tuple) == n;
}

static enum err_code check_tuples(const struct field *f, const json_t *v, struct err *e)
{
	bool good = !v || (json_is_array(v) && json_array_size(v) <= f->longest);
	char want[400];
	size_t n = 0, k = 0;

	for (size_t i = 0; good && i < json_array_size(v); i++)
		good = is_tuple(f->of, json_array_get(v, i));
	if (good)
		return ERR_OK;
	n = (size_t)snprintf(want, sizeof want,
	    "a list of at most %zu arrays of integers:", f->longest);
	for (; f->of[k].key && n < sizeof want; k++)
		n += (size_t)snprintf(want + n, sizeof want - n, "%s %s %" PRId64 " to %" PRId64,
		    k ? "," : "", f->of[k].key, f->of[k].least, f->of[k].most);
	return refuse_member(f, want, e);
}

static enum err_code check_map(const struct field *f, const json_t *v, struct err *e)
{
	bool good = !v || (json_is_object(v) && json_object_size(v) <= f->longest);
	const char *key;
	json_t *item;
	char want[128];

	json_object_foreach((json_t *)(uintptr_t)v, key, item) {
		uint64_t number;

		good = good && num_uint(key, f->longest - 1, &number) && json_is_integer(item) &&
		    json_integer_value(item) >= f->least && json_integer_value(item) <= f->most;
	}
	if (good)
		return ERR_OK;
	snprintf(want, sizeof want,
	    "an object with keys below %zu and integers from %" PRId64 " to %" PRId64, f->longest,
	    f->least, f->most);
	return refuse_member(f, want, e);
}

void fields_read_tuple(const json_t *tuple, int64_t *out, size_t n)
{
	for (size_t i = 0; i < n; i++)
		out[i] = json_integer_value(json_array_get(tuple, i));
}

/* Stores the number of the word. */
static enum err_code decode_word(const struct field *f, const json_t *v, void *member,
    struct err *e)
{
	const char *text = json_string_value(v);
	int64_t n = 0;

	if (v && !text)
		return refuse_member(f, "a text", e);
	while (text && f->words[n] && strcmp(text, f->words[n]) != 0)
		n++;
	if (!text || !f->words[n])
		n = -1;
	memcpy(member, &n, sizeof n);
	return ERR_OK;
}

/* Decodes one member; v NULL means that the document does not have it. A missing number is NAN,
 * an id 0, a flag false, and a text "" (NULL with WRITE_IF_SET). FIELD_TEXT and FIELD_DOC point
 * into the document, which must outlive them; FIELD_HELD takes a reference of its own. */
static enum err_code decode_member(const struct field *f, const json_t *v, void *member,
    struct err *e)
{
	const char *text = v ? json_string_value(v) : f->write == WRITE_IF_SET ? NULL : "";
	uint64_t id = 0;
	double number;

	switch (f->type) {
	case FIELD_INT:
		return decode_int(f, v, member, e);
	case FIELD_NUM:
		if (v && !json_is_number(v))
			return refuse_member(f, "a number", e);
		number = v ? json_number_value(v) : (double)NAN;
		memcpy(member, &number, sizeof number);
		return ERR_OK;
	case FIELD_ID:
		if (v && !json_u64_value(v, &id))
			return refuse_member(f, "a text of decimal digits below 2^64", e);
		memcpy(member, &id, sizeof id);
		return ERR_OK;
	case FIELD_FLAG:
		if (v && !json_is_boolean(v))
			return refuse_member(f, "true or false", e);
		*(bool *)member = json_is_true(v);
		return ERR_OK;
	case FIELD_TEXT:
		if (v && !text)
			return refuse_member(f, "a text", e);
		memcpy(member, &text, sizeof text);
		return ERR_OK;
	case FIELD_WORD:
		return decode_word(f, v, member, e);
	case FIELD_HELD:
		json_incref((json_t *)(uintptr_t)v);
		memcpy(member, &v, sizeof v);
		return ERR_OK;
	case FIELD_DOC:
		memcpy(member, &v, sizeof v);
		return ERR_OK;
	case FIELD_TUPLES:
		memcpy(member, &v, sizeof v);
		return check_tuples(f, v, e);
	case FIELD_MAP:
		memcpy(member, &v, sizeof v);
		return check_map(f, v, e);
	case FIELD_INTS:
		return decode_ints(f, v, member, e);
	case FIELD_LIST:
		return decode_list(f, v, member, e);
	case FIELD_OBJECT:
		return decode_object(f, v, member, e);
	}
	abort();
}

enum err_code fields_decode(const struct field *f, const json_t *json, void *out, struct err *e)
{
	char *at = out;
	enum err_code rc = json_is_object(json) ? ERR_OK
	                                        : err_set(e, ERR_PROTO, "it is not an object");

	for (; f->key && !rc; at += member_bytes(f), f++) {
		const json_t *v = json_object_get(json, f->key);

		rc = decode_member(f, json_is_null(v) ? NULL : v, at, e);
	}
	return rc;
}

enum err_code fields_decode_list(const struct field *f, const json_t *json, void **list,
    uint64_t *n, struct err *e)
{
	size_t each = object_bytes(f), i;
	const json_t *v;
	enum err_code rc = ERR_OK;

	*n = json_array_size(json);
	*list = *n ? mem_array(*n, each) : NULL;
	json_array_foreach(json, i, v) {
		if (!rc && !json_is_object(v))
			rc = err_set(e, ERR_PROTO, "a list has an item that is not an object");
		if (!rc)
			rc = fields_decode(f, v, (char *)*list + i * each, e);
	}
	return rc;
}

/* ---- encoding ---- */

static json_t *encode_ints(const int64_t *list, uint64_t n)
{
	json_t *array = json_array();

	for (uint64_t i = 0; i < n; i++)
		json_array_append_new(array, json_integer(list[i]));
	return array;
}

static json_t *encode_list(const struct field *f, const char *list, uint64_t n)
{
	json_t *array = json_array();

	for (uint64_t i = 0; i < n; i++)
		json_array_append_new(array, fields_encode(f, list + i * object_bytes(f)));
	return array;
}

/* Returns NULL for a member that has no value in JSON: a text, document or object that is NULL. */
static json_t *encode_member(const struct field *f, const void *member)
{
	const void *p;
	double number;
	int64_t n;
	uint64_t id;

	memcpy(&p, member, sizeof p);
	memcpy(&n, member, sizeof n);
	memcpy(&id, member, sizeof id);
	switch (f->type) {
	case FIELD_INT:
		return json_integer(n);
	case FIELD_NUM:
		memcpy(&number, member, sizeof number);
		return json_of_num(number);
	case FIELD_ID:
		return json_of_u64(id);
	case FIELD_FLAG:
		return json_boolean(*(const bool *)member);
	case FIELD_TEXT:
		return json_of_text(p);
	case FIELD_WORD:
		return n < 0 ? NULL : json_string(f->words[n]);
	case FIELD_DOC:
	case FIELD_TUPLES:
	case FIELD_MAP:
	case FIELD_HELD:
		return json_incref((json_t *)(uintptr_t)p);
	case FIELD_OBJECT:
		return p ? fields_encode(f->of, p) : NULL;
	case FIELD_INTS:
		memcpy(&id, (const char *)member + 8, sizeof id);
		return encode_ints(p, id);
	case FIELD_LIST:
		memcpy(&id, (const char *)member + 8, sizeof id);
		return encode_list(f->of, p, id);
	}
	abort();
}

static bool is_set(const struct field *f, const void *member)
{
	double number;
	uint64_t n;

	if (f->type == FIELD_FLAG)
		return *(const bool *)member;
	if (f->type == FIELD_NUM) {
		memcpy(&number, member, sizeof number);
		return !isnan(number);
	}
	memcpy(&n, (const char *)member + (member_bytes(f) - 8), sizeof n);
	return n != 0;
}

#ifdef LOCK_CHECK
/* Aborts if our own decoder refuses the document. */
static void check_decodes(const struct field *f, const json_t *json)
{
	void *object = mem_alloc(object_bytes(f));
	struct err e = { 0 };

	if (fields_decode(f, json, object, &e)) {
		fprintf(stderr, "a document was written that cannot be decoded: %s\n", e.msg);
		abort();
	}
	fields_release(f, object);
	free(object);
}
#else
#define check_decodes(f, json) ((void)0)
#endif

static void encode_members(const struct field *f, const void *object, json_t *json)
{
	const char *at = object;

	for (; f->key; at += member_bytes(f), f++) {
		bool set = is_set(f, at);

		if (!set && f->write == WRITE_HEAD)
			return;
		if (set || f->write == WRITE_VALUE)
			json_put(json, f->key, encode_member(f, at));
		else if (f->write == WRITE_NULL)
			json_put(json, f->key, json_null());
	}
}

void fields_encode_to(const struct field *f, const void *object, json_t *json)
{
	encode_members(f, object, json);
	check_decodes(f, json);
}

json_t *fields_encode(const struct field *f, const void *object)
{
	json_t *json = json_object();

	fields_encode_to(f, object, json);
	return json;
}

/* ---- releasing ---- */

void fields_release(const struct field *f, void *object)
{
	char *at = object;

	for (; f->key; at += member_bytes(f), f++) {
		void *p;
		uint64_t n;

		if (f->type < FIELD_HELD)
			continue;
		memcpy(&p, at, sizeof p);
		if (f->type == FIELD_HELD) {
			json_decref(p);
		} else if (f->type == FIELD_INTS) {
			free(p);
		} else if (f->type == FIELD_LIST) {
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
