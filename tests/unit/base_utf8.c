/* SPDX-License-Identifier: ISC */
/* Texts of strangers: valid characters, cuts between characters, repairs. */
#include <string.h>

#include "core/err.h"
#include "core/json.h"
#include "core/utf8.h"
#include "core/utf8_bytes.h"
#include "tap.h"

#define FFFD "\xef\xbf\xbd"

static void step_is(const char *s, size_t want, const char *what)
{
	size_t got = utf8_step(s, strlen(s));

	ok(got == want, "%s: %zu bytes", what, got);
}

static void test_step(void)
{
	step_is("a", 1, "ASCII");
	step_is("\xc3\xa9", 2, "two bytes");
	step_is("\xe2\x82\xac", 3, "three bytes");
	step_is("\xf0\x9f\x98\x80", 4, "four bytes");
	step_is("\xf4\x8f\xbf\xbf", 4, "U+10FFFF");
	step_is("\xed\x9f\xbf", 3, "the last one before the surrogates");
	step_is("", 0, "nothing");
	step_is("\x80", 0, "a byte that continues nothing");
	step_is("\xc0\x80", 0, "an overlong NUL");
	step_is("\xc1\xbf", 0, "an overlong form of two bytes");
	step_is("\xe0\x9f\xbf", 0, "an overlong form of three bytes");
	step_is("\xf0\x8f\xbf\xbf", 0, "an overlong form of four bytes");
	step_is("\xed\xa0\x80", 0, "a surrogate");
	step_is("\xf4\x90\x80\x80", 0, "above U+10FFFF");
	step_is("\xf5\x80\x80\x80", 0, "a first byte that does not exist");
	step_is("\xe2\x82", 0, "a character that is cut");
	step_is("\xe2\x82"
	        "a",
	    0, "a character that another one interrupts");
}

static void test_whole(void)
{
	static const char *const full[] = { "a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80" };
	char text[16];

	for (size_t i = 0; i < 4; i++) {
		size_t n = strlen(full[i]);

		snprintf(text, sizeof text, "xy%s", full[i]);
		ok(utf8_whole(text, n + 2) == n + 2, "a complete character of %zu bytes stays", n);
		for (size_t k = 1; k < n; k++)
			ok(utf8_whole(text, k + 2) == 2, "%zu of its bytes go", k);
	}
	ok(utf8_whole("", 0) == 0, "nothing is left of nothing");
	ok(utf8_whole("a\x80\x80\x80\x80", 5) == 5, "bytes that no character began stay");
	ok(utf8_whole("a\xff", 2) == 2 && utf8_whole("a\xe0\x80", 3) == 3,
	    "bytes that no character can have stay");
}

static void repaired(const char *s, size_t n, const char *want, const char *what)
{
	json_t *v = json_of_bytes(s, n), *back;
	char *text = json_text(v);
	struct err e = { 0 };

	back = json_parse(text, strlen(text), 1000, &e);
	ok(strcmp(json_string_value(v), want) == 0 && back && json_equal(v, back), "%s: %s", what,
	    text);
	json_decref(back);
	json_decref(v);
	free(text);
}

static void test_repair(void)
{
	repaired("caf\xc3\xa9\t1\n", 8, "caf\xc3\xa9\t1\n", "a clean text is as it was");
	repaired("caf\xe9!", 5, "caf" FFFD "!", "a byte of another alphabet");
	repaired("a\xe2\x82", 3, "a" FFFD FFFD, "a character that is cut");
	repaired("a\0b", 3, "a" FFFD "b", "a NUL");
	repaired("\x1b[2J\x7f", 5, FFFD "[2J" FFFD, "an escape sequence");
	repaired("\xc2\x9b"
	         "2J\xc2\xa0",
	    6, FFFD "2J\xc2\xa0", "an escape sequence of C1");
	repaired("", 0, "", "an empty text");
}

/* The text of an error ends with a complete character, whatever it quotes. */
static void test_errors(void)
{
	static const char *const letter[] = { "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80" };
	bool set = true, prefixed = true, shorter = true;
	char name[2048];
	struct err e;

	for (size_t l = 0; l < 3; l++) {
		for (size_t before = 0; before < 8; before++) {
			size_t n = before;

			memset(name, 'x', before);
			for (; n + 5 < sizeof name; n += strlen(letter[l]))
				memcpy(name + n, letter[l], strlen(letter[l]));
			name[n] = 0;
			err_set(&e, ERR_CONFIG, "\"%s\" is unknown", name);
			set &= utf8_is_clean(e.msg, strlen(e.msg));
			shorter &= strlen(e.msg) > sizeof e.msg - 5;
			err_prefix(&e, "%s", name);
			prefixed &= utf8_is_clean(e.msg, strlen(e.msg));
			err_set(&e, ERR_CONFIG, "%.*s", (int)(100 + before), "reason");
			err_prefix(&e, "%s", name);
			prefixed &= utf8_is_clean(e.msg, strlen(e.msg)) &&
			    strstr(e.msg, ": reason");
		}
	}
	ok(set && shorter,
	    "a long error is cut between characters, and no shorter than it must be");
	ok(prefixed, "and with a long prefix, too");
}

static bool text_is(json_t *v, const char *want)
{
	char *text = json_text(v);
	bool same = strcmp(text, want) == 0;

	if (!same)
		printf("# %s\n", text);
	free(text);
	json_decref(v);
	return same;
}

static void test_build(void)
{
	json_t *v = json_string("kept");

	ok(text_is(json_pack("{s:s, s:i, s:I, s:f, s:b, s:n}", "s", "x", "i", -1, "I",
	               (json_int_t)1 << 40, "f", 0.5, "b", 1, "n"),
	       "{\"s\":\"x\",\"i\":-1,\"I\":1099511627776,\"f\":0.5,\"b\":true,\"n\":null}"),
	    "values of each kind");
	ok(text_is(json_pack("{s:{s:[I, I]}, s:[], s:[s,o]}", "a", "b", (json_int_t)1,
	               (json_int_t)2, "c", "d", "e", json_array()),
	       "{\"a\":{\"b\":[1,2]},\"c\":[],\"d\":[\"e\",[]]}"),
	    "objects and arrays within one another");
	ok(text_is(json_pack("{s:s?, s:o?, s:O?, s:o*, s:O}", "a", NULL, "b", NULL, "c", NULL, "d",
	               NULL, "e", v),
	       "{\"a\":null,\"b\":null,\"c\":null,\"e\":\"kept\"}"),
	    "values that may be missing");
	ok(v->refcount == 1, "O takes a reference of its own");
	ok(text_is(json_pack("{s:s, s:f, s:s}", "bad", "\xff", "nan", 0.0 / 0.0, "good", "x"),
	       "{\"bad\":\"" FFFD "\",\"nan\":null,\"good\":\"x\"}"),
	    "what JSON does not have costs no other member");
	ok(text_is(json_pack("{s:i}", "k\xe9y", 1), "{\"k" FFFD "y\":1}"),
	    "a key is repaired, too");
	ok(text_is(json_sprintf("%s-%d", "\xc3", 7), "\"" FFFD "-7\""),
	    "and a text that is made by a format");
	ok(!json_string(NULL), "no text is no string");
	json_decref(v);
}

/* Is a name the same after it was written as JSON and read back? */
static bool comes_back(const char *name)
{
	char *escaped = utf8_escape_bytes(name), *back = NULL;
	json_t *v = json_string(escaped);
	char *text = json_text(v);
	json_t *again = json_loads(text, JSON_DECODE_ANY, NULL);
	bool good;

	back = utf8_unescape_bytes(json_string_value(again));
	good = utf8_is_clean(escaped, strlen(escaped)) && back && strcmp(back, name) == 0 &&
	    !strstr(escaped, FFFD);
	json_decref(v);
	json_decref(again);
	free(escaped);
	free(back);
	free(text);
	return good;
}

static void test_bytes(void)
{
	char all[256], *escaped = utf8_escape_bytes("K\xc3\xb6ln \xe2\x82\xac");

	for (int i = 0; i < 255; i++)
		all[i] = (char)(i + 1);
	all[255] = '\0';
	ok(comes_back(all) && comes_back("K\xf6ln") && comes_back("\xf4\x8f") && comes_back(""),
	    "names of any bytes come back from JSON");
	ok(comes_back("\xf4\x8f\xbf\xb6") && comes_back("\xf4\x8f\xbc\x81\xf6"),
	    "also those that look like escaped ones");
	ok(strcmp(escaped, "K\xc3\xb6ln \xe2\x82\xac") == 0, "valid names stay as they are");
	free(escaped);
	ok(!utf8_escape_bytes(NULL) && !utf8_unescape_bytes(NULL), "no name is none");
}

int main(void)
{
	test_step();
	test_bytes();
	test_whole();
	test_repair();
	test_errors();
	test_build();
	return tap_done();
}
