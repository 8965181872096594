/* SPDX-License-Identifier: ISC */
#include "serving/v2_request.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/endian.h"
#include "core/log.h"
#include "core/mem.h"
#include "math/half.h"

#define INPUTS_MAX 65536u
#define NAME_SHOWN 60

const char *const v2_type_name[V2_NTYPES] = {
#define TYPE(name, bytes) [V2_##name] = #name,
	V2_TYPES(TYPE)
#undef TYPE
};

static const uint8_t type_bytes[V2_NTYPES] = {
#define TYPE(name, bytes) [V2_##name] = (bytes),
	V2_TYPES(TYPE)
#undef TYPE
};

/* A name from the request as printable text of limited length. */
static const char *shown(const char *name, char out[static 4 * NAME_SHOWN + 1])
{
	size_t n = strlen(name);

	log_escape(out, 4 * NAME_SHOWN + 1, name, n < NAME_SHOWN ? n : NAME_SHOWN);
	return out;
}

static enum err_code fail_input(const struct v2_tensor *t, struct err *e, const char *what)
{
	char text[4 * NAME_SHOWN + 1];

	return err_set(e, ERR_FORMAT, "input \"%s\": %s", shown(t->name, text), what);
}

static bool find_type(const char *name, enum v2_type *out)
{
	for (size_t i = 0; i < V2_NTYPES; i++)
		if (strcmp(name, v2_type_name[i]) == 0) {
			*out = (enum v2_type)i;
			return true;
		}
	return false;
}

static enum err_code read_shape(const json_t *shape, struct v2_tensor *t, struct err *e)
{
	size_t rank = json_array_size(shape), size[2] = { 0, 1 };
	const json_t *x;
	size_t i;

	if (rank < 1 || rank > 2)
		return fail_input(t, e, "\"shape\" must be [n] or [n, k]: one example a row");
	json_array_foreach(shape, i, x) {
		if (!json_is_integer(x) || json_integer_value(x) < 0)
			return fail_input(t, e, "\"shape\" must have integers of at least 0");
		size[i] = (size_t)json_integer_value(x);
	}
	t->rows = size[0];
	t->cols = size[1];
	t->flat = rank == 1;
	return ERR_OK;
}

/* ---- values in the JSON ---- */

/* Is an item of the type of the tensor? */
static bool item_suits(const json_t *x, enum v2_type type)
{
	if (json_is_null(x))
		return true;
	switch (type) {
	case V2_BYTES:
		return json_is_string(x);
	case V2_BOOL:
		return json_is_boolean(x) || json_is_number(x);
	case V2_FP16:
	case V2_FP32:
	case V2_FP64:
		return json_is_number(x);
	default:
		return json_is_integer(x);
	}
}

/* Appends the items of an array, or of arrays within it. False: there are more than n, or they are
 * nested too deeply. */
static bool flatten(const json_t *a, unsigned depth, const json_t **item, size_t *at, size_t n)
{
	const json_t *x;
	size_t i;

	json_array_foreach(a, i, x) {
		if (json_is_array(x) && depth == 0)
			return false;
		if (json_is_array(x) && !flatten(x, depth - 1, item, at, n))
			return false;
		if (json_is_array(x))
			continue;
		if (*at == n)
			return false;
		item[(*at)++] = x;
	}
	return true;
}

/* An upper bound of the number of items, so that no more memory is taken than the body justifies. */
static size_t count_items(const json_t *a)
{
	const json_t *x;
	size_t i, n = 0;

	json_array_foreach(a, i, x)
		n += json_is_array(x) ? json_array_size(x) : 1;
	return n;
}

static enum err_code read_items(const json_t *data, struct v2_tensor *t, struct err *e)
{
	size_t n = t->rows * t->cols, at = 0;

	if (!json_is_array(data))
		return fail_input(t, e, "\"data\" is missing, or not an array");
	if (count_items(data) != n)
		return fail_input(t, e, "\"data\" has another number of values than \"shape\"");
	t->item = mem_try_array(n + 1, sizeof *t->item);
	if (!t->item)
		return err_set(e, ERR_NOMEM, "no memory for %zu values", n);
	if (!flatten(data, 1, t->item, &at, n) || at != n)
		return fail_input(t, e,
		    "\"data\" must be an array of values, or of one array a row");
	for (size_t i = 0; i < n; i++)
		if (!item_suits(t->item[i], t->type)) {
			char text[4 * NAME_SHOWN + 1];

			return err_set(e, ERR_FORMAT,
			    "input \"%s\": row %zu, column %zu of \"data\" does not fit type %s",
			    shown(t->name, text), i / t->cols + 1, i % t->cols + 1,
			    v2_type_name[t->type]);
		}
	return ERR_OK;
}

/* ---- raw values ---- */

/* Takes the tensor's bytes from the beginning of *p. */
static enum err_code take_raw(int64_t size, struct v2_tensor *t, const uint8_t **p, size_t *left,
    struct err *e)
{
	size_t n = t->rows * t->cols, bytes = type_bytes[t->type];

	if (size < 0 || (uint64_t)size > *left)
		return fail_input(t, e, "\"binary_data_size\" is more than the body has");
	t->raw = *p;
	t->nraw = (size_t)size;
	*p += size;
	*left -= (size_t)size;
	if (bytes)
		return t->nraw / bytes == n && t->nraw % bytes == 0
		    ? ERR_OK
		    : fail_input(t, e,
		          "\"binary_data_size\" is not that of \"shape\" and \"datatype\"");
	/* Each text must lie within the bytes. */
	p = &t->raw;
	for (size_t at = 0; n; n--) {
		uint32_t len;

		if (t->nraw - at < 4)
			return fail_input(t, e, "the binary data end within a text");
		len = get_le32(t->raw + at);
		if (len > t->nraw - at - 4)
			return fail_input(t, e, "the binary data end within a text");
		at += 4 + (size_t)len;
		if (n == 1 && at != t->nraw)
			return fail_input(t, e, "the binary data have more texts than \"shape\"");
	}
	return t->nraw && !t->rows
	    ? fail_input(t, e, "the binary data have more texts than \"shape\"")
	    : ERR_OK;
}

/* ---- the request ---- */

static enum err_code read_input(const json_t *x, struct v2_request *r, struct v2_tensor *t,
    const uint8_t **p, size_t *left, size_t most, struct err *e)
{
	const char *name = json_string_value(json_object_get(x, "name")),
	           *type = json_string_value(json_object_get(x, "datatype"));
	const json_t *size = json_object_get(json_object_get(x, "parameters"), "binary_data_size");
	size_t n;
	enum err_code rc;

	if (!name)
		return err_set(e, ERR_FORMAT,
		    "each of \"inputs\" must be an object with a \"name\"");
	t->name = name;
	if (!type || !find_type(type, &t->type))
		return fail_input(t, e,
		    "\"datatype\" must be BOOL, INT8 to INT64, UINT8 to UINT64, FP16, FP32, FP64 or "
		    "BYTES");
	rc = read_shape(json_object_get(x, "shape"), t, e);
	if (rc)
		return rc;
	if (t->rows > most)
		return err_set(e, ERR_LIMIT, "a request may have %zu rows, and this one has %zu",
		    most, t->rows);
	if (__builtin_mul_overflow(t->rows, t->cols, &n) || n > SIZE_MAX / 16)
		return fail_input(t, e, "\"shape\" is too large");
	if (t == r->in)
		r->rows = t->rows;
	if (t->rows != r->rows)
		return fail_input(t, e, "has another number of rows than the first input");
	if (!size)
		return read_items(json_object_get(x, "data"), t, e);
	if (!json_is_integer(size))
		return fail_input(t, e, "\"binary_data_size\" must be an integer");
	if (json_object_get(x, "data"))
		return fail_input(t, e, "has both \"data\" and \"binary_data_size\"");
	return take_raw(json_integer_value(size), t, p, left, e);
}

static enum err_code read_inputs(const json_t *inputs, struct v2_request *r, const uint8_t *p,
    size_t left, size_t most, struct err *e)
{
	size_t n = json_array_size(inputs), i;
	const json_t *x;
	enum err_code rc = ERR_OK;

	if (!n || n > INPUTS_MAX)
		return err_set(e, ERR_FORMAT, "\"inputs\" must be an array of 1 to %u tensors",
		    INPUTS_MAX);
	r->in = mem_array(n, sizeof *r->in);
	json_array_foreach(inputs, i, x) {
		r->nin = i + 1;
		rc = read_input(x, r, &r->in[i], &p, &left, most, e);
		if (rc)
			return rc;
		v2_rewind(&r->in[i]);
	}
	return left
	    ? err_set(e, ERR_FORMAT, "%zu bytes after the tensors belong to none of them", left)
	    : ERR_OK;
}

static bool is_true_parameter(const json_t *x, const char *name, bool otherwise)
{
	const json_t *v = json_object_get(json_object_get(x, "parameters"), name);

	return json_is_boolean(v) ? json_is_true(v) : otherwise;
}

static enum err_code read_outputs(const json_t *outputs, struct v2_request *r, struct err *e)
{
	const json_t *x;
	size_t i;

	if (!outputs)
		return ERR_OK;
	if (!json_is_array(outputs) || json_array_size(outputs) > INPUTS_MAX)
		return err_set(e, ERR_FORMAT, "\"outputs\" must be an array");
	r->out = mem_array(json_array_size(outputs) + 1, sizeof *r->out);
	json_array_foreach(outputs, i, x) {
		const char *name = json_string_value(json_object_get(x, "name"));

		if (!name)
			return err_set(e, ERR_FORMAT,
			    "each of \"outputs\" must be an object with a \"name\"");
		r->out[r->nout++] = (struct v2_output){ name,
			is_true_parameter(x, "binary_data", r->binary_outputs) };
	}
	return ERR_OK;
}

void v2_head_release(struct v2_head *h)
{
	free(h->text);
	json_decref(h->json);
	*h = (struct v2_head){ 0 };
}

/* A new reference to the tree of the JSON. NULL: it is malformed. */
static json_t *parse_head(const char *body, size_t len, struct v2_head *last, struct err *e)
{
	json_error_t why;
	char text[2 * JSON_ERROR_TEXT_LENGTH];
	json_t *json;

	if (last && last->json && last->len == len && memcmp(last->text, body, len) == 0)
		return json_incref(last->json);
	json = json_loadb(body, len, JSON_REJECT_DUPLICATES, &why);
	if (!json) {
		log_escape(text, sizeof text, why.text, strlen(why.text));
		err_set(e, ERR_FORMAT, "the body:%d:%d: %s", why.line, why.column, text);
	} else if (last && len <= V2_HEAD_KEPT) {
		v2_head_release(last);
		*last = (struct v2_head){ mem_array(len + 1, 1), len, json_incref(json) };
		memcpy(last->text, body, len);
	}
	return json;
}

enum err_code v2_request_parse(const char *body, size_t n, int64_t head, size_t most,
    struct v2_head *last, struct v2_request *out, struct err *e)
{
	size_t len = head < 0 ? n : (size_t)head;
	enum err_code rc;

	*out = (struct v2_request){ 0 };
	if (head > 0 && (uint64_t)head > n)
		return err_set(e, ERR_FORMAT,
		    "Inference-Header-Content-Length is more than the body has");
	out->json = parse_head(body, len, head < 0 ? NULL : last, e);
	if (!out->json)
		return ERR_FORMAT;
	if (!json_is_object(out->json))
		return err_set(e, ERR_FORMAT, "the body must be an object with \"inputs\"");
	out->id = json_object_get(out->json, "id");
	if (out->id && !json_is_string(out->id))
		return err_set(e, ERR_FORMAT, "\"id\" must be a text");
	out->binary_outputs = is_true_parameter(out->json, "binary_data_output", false);
	rc = read_inputs(json_object_get(out->json, "inputs"), out, (const uint8_t *)body + len,
	    n - len, most, e);
	return rc ? rc : read_outputs(json_object_get(out->json, "outputs"), out, e);
}

void v2_request_release(struct v2_request *r)
{
	for (size_t i = 0; i < r->nin; i++)
		free(r->in[i].item);
	free(r->in);
	free(r->out);
	json_decref(r->json);
	*r = (struct v2_request){ 0 };
}

/* ---- the values ---- */

void v2_rewind(struct v2_tensor *t)
{
	t->at = t->raw;
	t->next = 0;
}

static struct v2_value number_value(double v)
{
	return isnan(v) ? (struct v2_value){ .kind = V2_MISSING }
	                : (struct v2_value){ .kind = V2_NUMBER, .number = v };
}

static struct v2_value integer_value(int64_t v)
{
	return (struct v2_value){ .kind = V2_INTEGER, .integer = v, .number = (double)v };
}

static struct v2_value item_value(const json_t *x)
{
	switch (json_typeof(x)) {
	case JSON_STRING:
		return (struct v2_value){ .kind = V2_TEXT,
			.text = json_string_value(x),
			.len = json_string_length(x) };
	case JSON_INTEGER:
		return integer_value(json_integer_value(x));
	case JSON_REAL:
		return number_value(json_real_value(x));
	case JSON_TRUE:
	case JSON_FALSE:
		return integer_value(json_is_true(x));
	default:
		return (struct v2_value){ .kind = V2_MISSING };
	}
}

static double get_double(const uint8_t *p)
{
	uint64_t bits = get_le64(p);
	double v;

	memcpy(&v, &bits, sizeof v);
	return v;
}

static float get_float(const uint8_t *p)
{
	uint32_t bits = get_le32(p);
	float v;

	memcpy(&v, &bits, sizeof v);
	return v;
}

static struct v2_value raw_value(const uint8_t *p, enum v2_type type)
{
	switch (type) {
	case V2_BOOL:
		return integer_value(*p != 0);
	case V2_UINT8:
		return integer_value(*p);
	case V2_UINT16:
		return integer_value(get_le16(p));
	case V2_UINT32:
		return integer_value(get_le32(p));
	case V2_UINT64:
		return get_le64(p) <= INT64_MAX ? integer_value((int64_t)get_le64(p))
		                                : number_value((double)get_le64(p));
	case V2_INT8:
		return integer_value((int8_t)*p);
	case V2_INT16:
		return integer_value((int16_t)get_le16(p));
	case V2_INT32:
		return integer_value((int32_t)get_le32(p));
	case V2_INT64:
		return integer_value((int64_t)get_le64(p));
	case V2_FP16:
		return number_value((double)half_from_f16(get_le16(p)));
	case V2_FP32:
		return number_value((double)get_float(p));
	case V2_FP64:
		return number_value(get_double(p));
	default:
		return (struct v2_value){ .kind = V2_TEXT,
			.text = (const char *)p + 4,
			.len = get_le32(p) };
	}
}

struct v2_value v2_next(struct v2_tensor *t)
{
	struct v2_value v;

	if (t->item)
		return item_value(t->item[t->next++]);
	v = raw_value(t->at, t->type);
	t->at += t->type == V2_BYTES ? 4 + v.len : type_bytes[t->type];
	t->next++;
	return v;
}

bool v2_next_number(struct v2_tensor *t, double *out)
{
	struct v2_value v;

	if (t->raw && t->type == V2_FP32) {
		*out = (double)get_float(t->at);
		t->at += 4;
		return !isnan(*out);
	}
	if (t->raw && t->type == V2_FP64) {
		*out = get_double(t->at);
		t->at += 8;
		return !isnan(*out);
	}
	v = v2_next(t);
	*out = v.number;
	return v.kind <= V2_INTEGER;
}

bool v2_next_integer(struct v2_tensor *t, int64_t *out)
{
	struct v2_value v;

	if (t->raw && t->type == V2_INT64) {
		*out = (int64_t)get_le64(t->at);
		t->at += 8;
		return true;
	}
	if (t->raw && t->type == V2_INT32) {
		*out = (int32_t)get_le32(t->at);
		t->at += 4;
		return true;
	}
	v = v2_next(t);
	*out = v.integer;
	return v.kind == V2_INTEGER;
}
