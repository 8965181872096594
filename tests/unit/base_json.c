/* SPDX-License-Identifier: ISC */
/* JSON that strangers write: limits, typed reads, unknown keys, text. */
#include <math.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"
#include "tap.h"

#define MAX 100000

static json_t *parse(const char *text, struct err *e)
{
	*e = (struct err){ 0 };
	return json_parse(text, strlen(text), MAX, e);
}

static void refused(const char *text, enum err_code code, const char *part, const char *what)
{
	struct err e;
	json_t *v = parse(text, &e);

	ok(!v && e.code == code && strstr(e.msg, part), "%s: %s", what, e.msg);
	json_decref(v);
}

/* `depth` brackets of a kind around a value. */
static json_t *nested(int depth, const char *open, const char *close, struct err *e)
{
	struct buf b = BUF_INIT;
	json_t *v;

	for (int i = 0; i < depth; i++)
		buf_puts(&b, open);
	buf_puts(&b, "1");
	for (int i = 0; i < depth; i++)
		buf_puts(&b, close);
	v = json_parse((char *)b.data, b.len, 10000000, e);
	buf_release(&b);
	return v;
}

static void test_parse(void)
{
	struct err e;
	json_t *v;

	v = parse("{\"a\": [1, 2.5, null, true, \"x\\u00e9\"]}", &e);
	ok(v && json_array_size(json_object_get(v, "a")) == 5, "an object is read");
	json_decref(v);
	v = parse(" 7 ", &e);
	ok(json_integer_value(v) == 7, "a bare value is read");
	json_decref(v);
	refused("", ERR_FORMAT, "line 1", "empty text");
	refused("{\"a\":1,\"a\":2}", ERR_FORMAT, "duplicate", "duplicate keys");
	refused("{\"o\":{\"a\":1,\"\\u0061\":2}}", ERR_FORMAT, "duplicate",
	    "duplicates by escape, deeper down");
	refused("{} {}", ERR_FORMAT, "end of file", "trailing text");
	refused("{}x", ERR_FORMAT, "line 1 column 3", "trailing letter");
	refused("{\n \"a\": 1,\n \"b\" 2\n}", ERR_FORMAT, "line 3 column", "the line is named");
	refused("{\"a\":1,}", ERR_FORMAT, "line 1", "trailing comma");
	refused("[1", ERR_FORMAT, "line 1", "unfinished array");
	refused("\"abc", ERR_FORMAT, "line 1", "unfinished string");
	refused("\"abc\\", ERR_FORMAT, "line 1", "text that ends in a backslash");
	refused("[NaN]", ERR_FORMAT, "line 1", "NaN");
	refused("[1e999]", ERR_FORMAT, "line 1", "a real out of range");
	refused("[18446744073709551616]", ERR_FORMAT, "line 1", "an integer out of range");
	refused("[\"\\u0000\"]", ERR_FORMAT, "line 1", "NUL in a string");
	refused("[\"\xff\xfe\"]", ERR_FORMAT, "line 1", "bytes that are not UTF-8");
	v = json_parse("[1]  ", 5, 4, &e);
	ok(!v && e.code == ERR_LIMIT && strstr(e.msg, "5 bytes"), "over the limit by one: %s",
	    e.msg);
	v = json_parse("[1] ", 4, 4, &e);
	ok(v, "at the limit");
	json_decref(v);
	v = json_parse("[1]garbage", 3, 10, &e);
	ok(v, "nothing behind n is read");
	json_decref(v);
	ok(!json_parse("{", 1, 10, NULL), "no error wanted");
}

static void test_depth(void)
{
	struct err e = { 0 };
	json_t *v;

	v = nested(32, "[", "]", &e);
	ok(v, "32 levels of arrays are read");
	json_decref(v);
	v = nested(33, "[", "]", &e);
	ok(!v && e.code == ERR_FORMAT && strstr(e.msg, "32 levels"), "33 are not: %s", e.msg);
	v = nested(32, "{\"k\":", "}", &e);
	ok(v, "32 levels of objects are read");
	json_decref(v);
	ok(!nested(33, "{\"k\":", "}", &e), "33 are not");
	ok(!nested(17, "[{\"k\":", "}]", &e), "mixed levels count together");
	ok(!nested(1000000, "[", "", &e) && strstr(e.msg, "32 levels"),
	    "a million levels do not recurse");
	v = parse("\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"", &e);
	ok(v, "brackets in a string are no levels");
	json_decref(v);
	v = parse("[\"\\\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"]", &e);
	ok(v, "nor after an escaped quote");
	json_decref(v);
	refused("[\"\\\\\",[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]",
	    ERR_FORMAT, "32 levels", "an escaped backslash ends its string");
	v = parse(
	    "[[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],"
	    "[],[],[],[],[],[],[],[]]",
	    &e);
	ok(v, "brackets that close are no levels");
	json_decref(v);
	refused("]]]]]]]][[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", ERR_FORMAT, "line 1",
	    "closing first");
}

static void test_file(void)
{
	char dir[] = "/tmp/base-json-XXXXXX", *path;
	struct err e = { 0 };
	json_t *v;

	if (!ok(mkdtemp(dir) != NULL, "a directory to work in"))
		return;
	path = path_join(dir, "a.json");
	ok(!json_parse_file(path, MAX, &e) && e.code == ERR_NOTFOUND && strstr(e.msg, path),
	    "absent: %s", e.msg);
	ok(file_replace(path, "{\"a\":1}\n", 8, 0600, &e) == ERR_OK, "written");
	v = json_parse_file(path, MAX, &e);
	ok(json_int(v, "a", 0) == 1, "read from a file");
	json_decref(v);
	ok(!json_parse_file(path, 7, &e) && e.code == ERR_LIMIT, "longer than allowed: %s", e.msg);
	file_replace(path, "{\"a\":1", 6, 0600, NULL);
	ok(!json_parse_file(path, MAX, &e) && e.code == ERR_FORMAT && strstr(e.msg, path) &&
	        strstr(e.msg, "line 1"),
	    "malformed: %s", e.msg);
	file_replace(path, "", 0, 0600, NULL);
	ok(!json_parse_file(path, MAX, &e) && e.code == ERR_FORMAT, "an empty file: %s", e.msg);
	free(path);
	file_remove_tree(dir, NULL);
}

static void test_want(void)
{
	struct err e;
	json_t *o = parse(
	    "{\"s\":\"x\",\"i\":5,\"r\":2.5,\"t\":true,\"f\":false,\"u\":\"18446744073709551615\","
	    "\"v\":\"18446744073709551616\",\"n\":null,\"a\":[]}",
	    &e);
	const char *s = "old";
	int64_t i = 42;
	double d = 42;
	bool b = true;
	uint64_t u = 42;

	ok(json_want_str(o, "", "s", &s, &e) && strcmp(s, "x") == 0, "a string");
	ok(json_want_int(o, "", "i", 5, 5, &i, &e) && i == 5, "an integer at its bounds");
	ok(json_want_num(o, "", "r", &d, &e) && d == 2.5, "a number");
	ok(json_want_num(o, "", "i", &d, &e) && d == 5, "an integer is a number");
	ok(json_want_bool(o, "", "f", &b, &e) && !b, "false");
	ok(json_want_bool(o, "", "t", &b, &e) && b, "true");
	ok(json_want_u64s(o, "", "u", &u, &e) && u == UINT64_MAX, "2^64 - 1 as a string");
	s = "old";
	ok(!json_want_str(o, "", "zz", &s, &e) && e.code == ERR_OK && strcmp(s, "old") == 0,
	    "absent: no error");
	ok(!json_want_int(o, "", "n", 0, 9, &i, &e) && e.code == ERR_OK && i == 5,
	    "null is as absent");

	ok(!json_want_str(o, "job", "i", &s, &e) && strcmp(e.msg, "job.i: must be a string") == 0,
	    "%s", e.msg);
	ok(!json_want_str(o, "", "i", &s, &e) && strcmp(e.msg, "i: must be a string") == 0, "%s",
	    e.msg);
	ok(e.code == ERR_CONFIG && strcmp(s, "old") == 0, "the value is left alone");
	ok(!json_want_int(o, "", "i", 6, 9, &i, &e) && strstr(e.msg, "from 6 to 9"), "%s", e.msg);
	ok(!json_want_int(o, "", "i", 0, 4, &i, &e), "above the bound");
	ok(!json_want_int(o, "", "r", 0, 9, &i, &e) && !json_want_int(o, "", "t", 0, 9, &i, &e) &&
	        i == 5,
	    "a real and true are no integers");
	ok(!json_want_num(o, "", "s", &d, &e) && strstr(e.msg, "a number"), "%s", e.msg);
	ok(!json_want_bool(o, "", "i", &b, &e) && strstr(e.msg, "true or false"), "%s", e.msg);
	u = 42;
	ok(!json_want_u64s(o, "", "v", &u, &e) && !json_want_u64s(o, "", "i", &u, &e) &&
	        !json_want_u64s(o, "", "s", &u, &e) && u == 42,
	    "%s", e.msg);
	ok(!json_want_str(o, "", "a", &s, NULL), "no error wanted");
	json_decref(o);
}

static void test_defaults(void)
{
	struct err e;
	json_t *o = parse("{\"s\":\"x\",\"i\":-5,\"r\":2.5,\"t\":true,\"u\":\"7\",\"v\":\"-7\"}",
	    &e);

	ok(strcmp(json_str(o, "s", "d"), "x") == 0 && strcmp(json_str(o, "i", "d"), "d") == 0 &&
	        !json_str(o, "zz", NULL),
	    "json_str");
	ok(json_int(o, "i", 3) == -5 && json_int(o, "r", 3) == 3 && json_int(o, "zz", 3) == 3,
	    "json_int");
	ok(json_num(o, "r", 1) == 2.5 && json_num(o, "i", 1) == -5 && json_num(o, "s", 1) == 1,
	    "json_num");
	ok(json_flag(o, "t") && !json_flag(o, "i") && !json_flag(o, "zz"), "json_flag");
	ok(json_u64s(o, "u", 1) == 7 && json_u64s(o, "v", 1) == 1 && json_u64s(o, "i", 1) == 1,
	    "json_u64s");
	ok(json_int(NULL, "i", 3) == 3 && json_str(NULL, "s", "d"), "no object: the default");
	json_decref(o);
}

static void test_only(void)
{
	static const char *const keys[] = { "workers", "servers", "batch", NULL };
	struct err e;
	json_t *o = parse("{\"servers\":1,\"workers\":2}", &e);

	ok(json_only(o, "", keys, &e), "known keys alone");
	json_object_set_new(o, "worker", json_true());
	ok(!json_only(o, "job", keys, &e) && e.code == ERR_CONFIG &&
	        strcmp(e.msg, "job.worker: unknown key; did you mean \"workers\"?") == 0,
	    "%s", e.msg);
	json_object_del(o, "worker");
	json_object_set_new(o, "zebra", json_true());
	ok(!json_only(o, "", keys, &e) && strcmp(e.msg, "zebra: unknown key") == 0, "%s", e.msg);
	ok(!json_only(o, "", keys, NULL), "no error wanted");
	json_object_clear(o);
	ok(json_only(o, "", keys, &e), "an empty object");
	json_decref(o);
}

static void text_is(json_t *v, const char *want, const char *what)
{
	char *text = json_text(v);

	ok(strcmp(text, want) == 0, "%s: %s", what, text);
	free(text);
	json_decref(v);
}

static void test_text(void)
{
	struct err e;

	text_is(parse("{ \"z\" : 1, \"a\" : [ true, false, null ], \"m\" : {} }", &e),
	    "{\"z\":1,\"a\":[true,false,null],\"m\":{}}", "compact, in the order given");
	text_is(json_pack("[f,f,f,f]", 0.1, 1.0, 1e300, -2.5e-7), "[0.1,1.0,1e+300,-2.5e-07]",
	    "the shortest text of a real, which stays a real");
	text_is(json_integer(INT64_MIN), "-9223372036854775808", "the least integer");
	text_is(json_string_nocheck("a\"b\\c\n\t\r\b\f/\x01\x1f\x7f\xc3\xa9"),
	    "\"a\\\"b\\\\c\\n\\t\\r\\b\\f/\\u0001\\u001F\x7f\xc3\xa9\"",
	    "escapes, and UTF-8 as it is");
	text_is(json_stringn_nocheck("a\0b", 3), "\"a\\u0000b\"", "NUL in a string");
	text_is(json_array(), "[]", "an empty array");
	text_is(json_of_u64(UINT64_MAX), "\"18446744073709551615\"", "json_of_u64");
	text_is(json_of_num(NAN), "null", "NaN");
	text_is(json_of_num(-INFINITY), "null", "infinity");
	text_is(json_of_num(0.25), "0.25", "json_of_num");
}

/* What json_text writes, jansson reads back equal; and so it wrote it itself. */
static void test_round(void)
{
	static const double num[] = { 0, 1.0 / 3, 0.1 + 0.2, 1e22, 5e-324, 1.7976931348623157e308,
		-1234567.875 };
	json_t *doc = json_object(), *list = json_array(), *back;
	char *text, *theirs;
	struct err e;

	for (size_t i = 0; i < sizeof num / sizeof *num; i++)
		json_array_append_new(list, json_real(num[i]));
	json_object_set_new(doc, "reals\n\t", list);
	json_object_set_new(doc, "n", json_integer(INT64_MAX));
	text = json_text(doc);
	back = json_parse(text, strlen(text), MAX, &e);
	ok(back && json_equal(doc, back), "read back equal: %s", text);
	free(text);
	json_object_del(doc, "reals\n\t");
	json_object_set_new(doc, "s", json_string_nocheck("\x01\x0b\x1f \xe2\x82\xac \"\\/"));
	text = json_text(doc);
	theirs = json_dumps(doc, JSON_COMPACT);
	ok(strcmp(text, theirs) == 0, "but for reals as jansson writes it: %s", text);
	free(theirs);
	free(text);
	json_decref(back);
	json_decref(doc);
}

static void test_event(void)
{
	json_t *v = json_event("step");
	char *text = json_text(v);

	ok(strncmp(text, "{\"v\":1,\"ts\":\"20", 15) == 0 && strstr(text, "Z\",\"kind\":\"step\"}"),
	    "%s", text);
	free(text);
	json_decref(v);
}

int main(void)
{
	test_parse();
	test_depth();
	test_file();
	test_want();
	test_defaults();
	test_only();
	test_text();
	test_round();
	test_event();
	return tap_done();
}
