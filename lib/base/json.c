#include "base/json.h"

#include <inttypes.h>
#include <math.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/num.h"
#include "base/suggest.h"

#define DEPTH_MAX 32

/* jansson recurses up to 2048 deep, more than a thread's stack may hold, so
 * the depth is counted first. */
static bool too_deep(const char *s, size_t n)
{
	int depth = 0;
	bool quoted = false;

	for (size_t i = 0; i < n; i++) {
		if (quoted) {
			if (s[i] == '\\')
				i++;
			else if (s[i] == '"')
				quoted = false;
		} else if (s[i] == '"') {
			quoted = true;
		} else if (s[i] == '{' || s[i] == '[') {
			if (++depth > DEPTH_MAX)
				return true;
		} else if (s[i] == '}' || s[i] == ']') {
			depth--;
		}
	}
	return false;
}

json_t *json_parse(const char *text, size_t n, size_t max, struct err *e)
{
	json_error_t why;
	json_t *v;

	if (n > max) {
		err_set(e, ERR_LIMIT, "JSON of %zu bytes, the limit is %zu", n, max);
		return NULL;
	}
	if (too_deep(text, n)) {
		err_set(e, ERR_FORMAT, "JSON nested deeper than %d levels", DEPTH_MAX);
		return NULL;
	}
	v = json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &why);
	if (!v)
		err_set(e, ERR_FORMAT, "line %d column %d: %s", why.line, why.column, why.text);
	return v;
}

json_t *json_parse_file(const char *path, size_t max, struct err *e)
{
	struct buf b = BUF_INIT;
	json_t *v = NULL;

	if (file_read(path, max, &b, e) == ERR_OK) {
		v = json_parse((const char *)b.data, b.len, max, e);
		if (!v)
			err_prefix(e, "%s", path);
	}
	buf_release(&b);
	return v;
}

/* ---- typed members ----------------------------------------------------------- */

static bool wrong(struct err *e, const char *path, const char *key, const char *what)
{
	err_set(e, ERR_CONFIG, "%s%s%s: must be %s", path, *path ? "." : "", key, what);
	return false;
}

static const json_t *member(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);

	return json_is_null(v) ? NULL : v;
}

bool json_want_str(const json_t *o, const char *path, const char *key, const char **out,
                   struct err *e)
{
	const json_t *v = member(o, key);

	if (!v)
		return false;
	if (!json_is_string(v))
		return wrong(e, path, key, "a string");
	*out = json_string_value(v);
	return true;
}

bool json_want_int(const json_t *o, const char *path, const char *key, int64_t min, int64_t max,
                   int64_t *out, struct err *e)
{
	const json_t *v = member(o, key);
	char what[96];

	if (!v)
		return false;
	if (!json_is_integer(v) || json_integer_value(v) < min || json_integer_value(v) > max) {
		snprintf(what, sizeof what, "an integer from %" PRId64 " to %" PRId64, min, max);
		return wrong(e, path, key, what);
	}
	*out = json_integer_value(v);
	return true;
}

bool json_want_num(const json_t *o, const char *path, const char *key, double *out, struct err *e)
{
	const json_t *v = member(o, key);

	if (!v)
		return false;
	if (!json_is_number(v))
		return wrong(e, path, key, "a number");
	*out = json_number_value(v);
	return true;
}

bool json_want_bool(const json_t *o, const char *path, const char *key, bool *out, struct err *e)
{
	const json_t *v = member(o, key);

	if (!v)
		return false;
	if (!json_is_boolean(v))
		return wrong(e, path, key, "true or false");
	*out = json_is_true(v);
	return true;
}

bool json_want_u64s(const json_t *o, const char *path, const char *key, uint64_t *out,
                    struct err *e)
{
	const json_t *v = member(o, key);

	if (!v)
		return false;
	if (!json_is_string(v) || !num_uint(json_string_value(v), UINT64_MAX, out))
		return wrong(e, path, key, "a string of decimal digits below 2^64");
	return true;
}

/* ---- with defaults ------------------------------------------------------------- */

const char *json_str(const json_t *o, const char *key, const char *deflt)
{
	const json_t *v = json_object_get(o, key);

	return json_is_string(v) ? json_string_value(v) : deflt;
}

int64_t json_int(const json_t *o, const char *key, int64_t deflt)
{
	const json_t *v = json_object_get(o, key);

	return json_is_integer(v) ? json_integer_value(v) : deflt;
}

double json_num(const json_t *o, const char *key, double deflt)
{
	const json_t *v = json_object_get(o, key);

	return json_is_number(v) ? json_number_value(v) : deflt;
}

bool json_flag(const json_t *o, const char *key)
{
	return json_is_true(json_object_get(o, key));
}

uint64_t json_u64s(const json_t *o, const char *key, uint64_t deflt)
{
	const json_t *v = json_object_get(o, key);
	uint64_t out;

	return json_is_string(v) && num_uint(json_string_value(v), UINT64_MAX, &out) ? out : deflt;
}

bool json_keep(json_t **place, const json_t *o, const char *key)
{
	json_t *v = json_object_get(o, key);

	if (!v)
		return false;
	json_decref(*place);
	*place = json_incref(v);
	return true;
}

bool json_only(const json_t *o, const char *path, const char *const *keys, struct err *e)
{
	const char *key, *near;
	json_t *v;
	size_t n = 0;

	while (keys[n])
		n++;
	json_object_foreach((json_t *)o, key, v) {
		size_t i = 0;

		while (i < n && strcmp(key, keys[i]) != 0)
			i++;
		if (i < n)
			continue;
		near = suggest(key, keys, n);
		err_set(e, ERR_CONFIG, "%s%s%s: unknown key%s%s%s", path, *path ? "." : "", key,
		    near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
		return false;
	}
	return true;
}

/* ---- making -------------------------------------------------------------------- */

json_t *json_of_u64(uint64_t v)
{
	return json_sprintf("%" PRIu64, v);
}

json_t *json_of_num(double v)
{
	return isfinite(v) ? json_real(v) : json_null();
}

json_t *json_event(const char *kind)
{
	char stamp[32];

	clock_stamp(stamp);
	return json_pack("{s:i, s:s, s:s}", "v", 1, "ts", stamp, "kind", kind);
}

/* ---- text ---------------------------------------------------------------------- */

/* jansson writes reals with one fixed precision: too short to be read back
 * equal, or 0.1 as 0.10000000000000001.  Hence a writer of our own. */
static void put_string(struct buf *b, const char *s, size_t n)
{
	static const char plain[] = "\b\f\n\r\t\"\\", letter[] = "bfnrt\"\\";
	const char *at;

	buf_puts(b, "\"");
	for (size_t i = 0; i < n; i++) {
		if (s[i] && (at = strchr(plain, s[i])))
			buf_printf(b, "\\%c", letter[at - plain]);
		else if ((unsigned char)s[i] < 0x20)
			buf_printf(b, "\\u%04X", s[i]);
		else
			buf_append(b, s + i, 1);
	}
	buf_puts(b, "\"");
}

static void put_real(struct buf *b, double v)
{
	char text[32];

	num_format(v, text);
	/* Else it would be read back as an integer. */
	buf_printf(b, "%s%s", text, strpbrk(text, ".e") ? "" : ".0");
}

static void put_value(struct buf *b, const json_t *v);

static void put_object(struct buf *b, const json_t *o)
{
	const char *key, *comma = "";
	json_t *v;

	buf_puts(b, "{");
	json_object_foreach((json_t *)o, key, v) {
		buf_puts(b, comma);
		put_string(b, key, strlen(key));
		buf_puts(b, ":");
		put_value(b, v);
		comma = ",";
	}
	buf_puts(b, "}");
}

static void put_array(struct buf *b, const json_t *a)
{
	buf_puts(b, "[");
	for (size_t i = 0; i < json_array_size(a); i++) {
		buf_puts(b, i ? "," : "");
		put_value(b, json_array_get(a, i));
	}
	buf_puts(b, "]");
}

static void put_value(struct buf *b, const json_t *v)
{
	switch (json_typeof(v)) {
	case JSON_OBJECT:
		put_object(b, v);
		break;
	case JSON_ARRAY:
		put_array(b, v);
		break;
	case JSON_STRING:
		put_string(b, json_string_value(v), json_string_length(v));
		break;
	case JSON_INTEGER:
		buf_printf(b, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
		break;
	case JSON_REAL:
		put_real(b, json_real_value(v));
		break;
	case JSON_TRUE:
	case JSON_FALSE:
		buf_puts(b, json_is_true(v) ? "true" : "false");
		break;
	case JSON_NULL:
		buf_puts(b, "null");
		break;
	}
}

char *json_text(const json_t *v)
{
	struct buf b = BUF_INIT;

	if (!v)
		abort();        /* only for lack of memory: the documents are our own */
	put_value(&b, v);
	return (char *)b.data;
}
