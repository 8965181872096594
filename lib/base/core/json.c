/* SPDX-License-Identifier: ISC */
/* This file calls jansson's functions by their own names. */
#define JSON_OWN_NAMES
#include "core/json.h"

#include "core/json_bytes.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>

#include "core/buf.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/suggest.h"
#include "core/utf8.h"

#define DEPTH_MAX 32

/* Counts the depth before parsing: jansson recurses up to 2048 levels, more than a thread's stack
 * may hold. */
static bool is_too_deep(const char *s, size_t n, int most)
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
			if (++depth > most)
				return true;
		} else if (s[i] == '}' || s[i] == ']') {
			depth--;
		}
	}
	return false;
}

json_t *json_parse(const char *text, size_t n, size_t max, struct err *e)
{
	return json_parse_to_depth(text, n, max, DEPTH_MAX, e);
}

json_t *json_parse_to_depth(const char *text, size_t n, size_t max, int depth, struct err *e)
{
	json_error_t why;
	json_t *v;

	if (n > max) {
		err_set(e, ERR_LIMIT, "JSON of %zu bytes, the limit is %zu", n, max);
		return NULL;
	}
	if (is_too_deep(text, n, depth)) {
		err_set(e, ERR_FORMAT, "JSON nested deeper than %d levels", depth);
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

/* ---- typed members ---- */

static bool fail_type(struct err *e, const char *path, const char *key, const char *what)
{
	err_set(e, ERR_CONFIG, "%s%s%s: must be %s", path, *path ? "." : "", key, what);
	return false;
}

static const json_t *find_member(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);

	return json_is_null(v) ? NULL : v;
}

bool json_want_str(const json_t *o, const char *path, const char *key, const char **out,
    struct err *e)
{
	const json_t *v = find_member(o, key);

	if (!v)
		return false;
	if (!json_is_string(v))
		return fail_type(e, path, key, "a string");
	*out = json_string_value(v);
	return true;
}

bool json_want_int(const json_t *o, const char *path, const char *key, int64_t min, int64_t max,
    int64_t *out, struct err *e)
{
	const json_t *v = find_member(o, key);
	char what[96];

	if (!v)
		return false;
	if (!json_is_integer(v) || json_integer_value(v) < min || json_integer_value(v) > max) {
		snprintf(what, sizeof what, "an integer from %" PRId64 " to %" PRId64, min, max);
		return fail_type(e, path, key, what);
	}
	*out = json_integer_value(v);
	return true;
}

bool json_want_num(const json_t *o, const char *path, const char *key, double *out, struct err *e)
{
	const json_t *v = find_member(o, key);

	if (!v)
		return false;
	if (!json_is_number(v))
		return fail_type(e, path, key, "a number");
	*out = json_number_value(v);
	return true;
}

bool json_want_bool(const json_t *o, const char *path, const char *key, bool *out, struct err *e)
{
	const json_t *v = find_member(o, key);

	if (!v)
		return false;
	if (!json_is_boolean(v))
		return fail_type(e, path, key, "true or false");
	*out = json_is_true(v);
	return true;
}

bool json_u64_value(const json_t *v, uint64_t *out)
{
	return json_is_string(v) && num_uint(json_string_value(v), UINT64_MAX, out);
}

bool json_want_u64s(const json_t *o, const char *path, const char *key, uint64_t *out,
    struct err *e)
{
	const json_t *v = find_member(o, key);

	if (!v)
		return false;
	if (!json_u64_value(v, out))
		return fail_type(e, path, key, "a string of decimal digits below 2^64");
	return true;
}

/* ---- with defaults ---- */

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

/* Reports the first key that is not in the list, which ends with NULL. path is the place of o in
 * the document and may be empty. */
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

/* ---- making ---- */

/* jansson returns NULL for valid arguments only when there is no memory. */
static json_t *require_value(json_t *v)
{
	if (!v)
		mem_fail();
	return v;
}

json_t *json_of_bytes(const char *s, size_t n)
{
	struct buf repaired = BUF_INIT;
	json_t *v;

	if (utf8_is_clean(s, n))
		return require_value(json_stringn_nocheck(s, n));
	utf8_repair(&repaired, s, n);
	v = require_value(json_stringn_nocheck((const char *)repaired.data, repaired.len));
	buf_release(&repaired);
	return v;
}

json_t *json_of_text(const char *s)
{
	return s ? json_of_bytes(s, strlen(s)) : NULL;
}

json_t *json_of_exact_bytes(const char *s, size_t n)
{
	return json_stringn(s, n);
}

json_t *json_of_format(const char *fmt, ...)
{
	char *text = NULL;
	va_list ap;
	json_t *v;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		mem_fail();
	va_end(ap);
	v = json_of_text(text);
	free(text);
	return v;
}

int json_put(json_t *o, const char *key, json_t *v)
{
	struct buf repaired = BUF_INIT;
	int rc;

	if (utf8_is_clean(key, strlen(key)))
		return json_object_set_new_nocheck(o, key, v);
	utf8_repair(&repaired, key, strlen(key));
	rc = json_object_set_new_nocheck(o, (const char *)repaired.data, v);
	buf_release(&repaired);
	return rc;
}

/* The rest of the format of json_build, and its arguments. */
struct packing {
	const char *at;
	va_list ap;
};

/* The next letter of the format; blanks, commas and colons are skipped. */
static char next_letter(struct packing *p)
{
	p->at += strspn(p->at, " ,:\t\n");
	return *p->at ? *p->at++ : 0;
}

static bool skip_mark(struct packing *p, char mark)
{
	if (*p->at != mark)
		return false;
	p->at++;
	return true;
}

static json_t *pack_one_value(struct packing *p, char letter);

static json_t *pack_object(struct packing *p)
{
	json_t *o = require_value(json_object());
	char letter;

	while ((letter = next_letter(p)) != '}') {
		const char *key;
		json_t *v;

		if (letter != 's')
			abort();
		key = va_arg(p->ap, const char *);
		v = pack_one_value(p, next_letter(p));
		if (v)
			json_put(o, key, v);
	}
	return o;
}

static json_t *pack_array(struct packing *p)
{
	json_t *a = require_value(json_array());
	char letter;

	while ((letter = next_letter(p)) != ']') {
		json_t *v = pack_one_value(p, letter);

		if (v)
			json_array_append_new(a, v);
	}
	return a;
}

/* NULL: the member or element is to be left out. */
static json_t *pack_one_value(struct packing *p, char letter)
{
	json_t *v;

	switch (letter) {
	case '{':
		return pack_object(p);
	case '[':
		return pack_array(p);
	case 's':
		v = json_of_text(va_arg(p->ap, const char *));
		skip_mark(p, '?');
		return v ? v : json_null();
	case 'o':
	case 'O':
		v = va_arg(p->ap, json_t *);
		if (letter == 'O')
			json_incref(v);
		if (skip_mark(p, '*'))
			return v;
		skip_mark(p, '?');
		return v ? v : json_null();
	case 'i':
		return require_value(json_integer(va_arg(p->ap, int)));
	case 'I':
		return require_value(json_integer(va_arg(p->ap, json_int_t)));
	case 'f':
		return require_value(json_of_num(va_arg(p->ap, double)));
	case 'b':
		return json_boolean(va_arg(p->ap, int));
	case 'n':
		return json_null();
	default:
		abort(); /* a bug of the caller, whose format is a literal */
	}
}

json_t *json_build(const char *fmt, ...)
{
	struct packing p = { .at = fmt };
	json_t *v;

	va_start(p.ap, fmt);
	v = pack_one_value(&p, next_letter(&p));
	va_end(p.ap);
	return v;
}

json_t *json_of_u64(uint64_t v)
{
	return json_of_format("%" PRIu64, v);
}

json_t *json_of_num(double v)
{
	return isfinite(v) ? json_real(v) : json_null();
}

json_t *json_event(const char *kind)
{
	char stamp[32];

	clock_stamp(stamp);
	return json_build("{s:i, s:s, s:s}", "v", 1, "ts", stamp, "kind", kind);
}

json_t *json_event_with(const char *kind, const json_t *object)
{
	json_t *line = json_event(kind);
	const json_t *ts = json_object_get(object, "ts");
	const char *name;
	json_t *value;

	if (json_is_string(ts))
		json_object_set(line, "ts", (json_t *)ts);
	json_object_foreach((json_t *)object, name, value)
		if (!json_object_get(line, name))
			json_object_set(line, name, value);
	return line;
}

void json_print_event(const char *kind, const json_t *object)
{
	json_t *line = json_event_with(kind, object);
	char *text = json_text(line);

	puts(text);
	fflush(stdout);
	free(text);
	json_decref(line);
}

/* ---- text ---- */

/* A writer of our own, because jansson writes reals with one fixed precision: too short to be read
 * back equal, or 0.1 as 0.10000000000000001. */
static void write_string(struct buf *b, const char *s, size_t n)
{
	static const char plain[] = "\b\f\n\r\t\"\\", letter[] = "bfnrt\"\\";
	size_t done = 0; /* bytes that have been written */
	const char *at;

	buf_append(b, "\"", 1);
	for (size_t i = 0; i < n; i++) {
		if ((unsigned char)s[i] >= 0x20 && s[i] != '"' && s[i] != '\\')
			continue;
		buf_append(b, s + done, i - done);
		done = i + 1;
		if (s[i] && (at = strchr(plain, s[i])))
			buf_printf(b, "\\%c", letter[at - plain]);
		else
			buf_printf(b, "\\u%04X", s[i]);
	}
	buf_append(b, s + done, n - done);
	buf_append(b, "\"", 1);
}

/* Does without printf, which is slow in a program that is linked with OpenBLAS: libquadmath
 * registers a modifier for formats, and glibc then looks it up in each of them. */
static void put_integer(struct buf *b, json_int_t v)
{
	char text[24], *at = text + sizeof text;
	uint64_t left = v < 0 ? -(uint64_t)v : (uint64_t)v;

	do
		*--at = (char)('0' + left % 10);
	while ((left /= 10) != 0);
	if (v < 0)
		*--at = '-';
	buf_append(b, at, (size_t)(text + sizeof text - at));
}

static void put_real(struct buf *b, double v)
{
	char text[32];

	num_format(v, text);
	buf_puts(b, text);
	/* Without a point it would be read back as an integer. */
	if (!strpbrk(text, ".e"))
		buf_puts(b, ".0");
}

static void write_value(struct buf *b, const json_t *v);

static void put_object(struct buf *b, const json_t *o)
{
	const char *key, *comma = "";
	json_t *v;

	buf_puts(b, "{");
	json_object_foreach((json_t *)o, key, v) {
		buf_puts(b, comma);
		write_string(b, key, strlen(key));
		buf_puts(b, ":");
		write_value(b, v);
		comma = ",";
	}
	buf_puts(b, "}");
}

static void put_array(struct buf *b, const json_t *a)
{
	buf_puts(b, "[");
	for (size_t i = 0; i < json_array_size(a); i++) {
		buf_puts(b, i ? "," : "");
		write_value(b, json_array_get(a, i));
	}
	buf_puts(b, "]");
}

static void write_value(struct buf *b, const json_t *v)
{
	switch (json_typeof(v)) {
	case JSON_OBJECT:
		put_object(b, v);
		break;
	case JSON_ARRAY:
		put_array(b, v);
		break;
	case JSON_STRING:
		write_string(b, json_string_value(v), json_string_length(v));
		break;
	case JSON_INTEGER:
		put_integer(b, json_integer_value(v));
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

	if (v)
		write_value(&b, v);
	else
		buf_puts(&b, "null");
	return (char *)b.data;
}
