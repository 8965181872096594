/* SPDX-License-Identifier: ISC */
/* Large descriptions of data: references, pieces, and what is refused. */
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "msg/large_description.h"
#include "tap.h"

/* A description with n names, some of characters of 2 to 4 bytes. */
static json_t *make_facts(size_t n)
{
	static const char *const letters[] = { "a", "\u00e9", "\u20ac", "\U0001f600", "\x7f",
		"\"" };
	json_t *names = json_array();

	for (size_t i = 0; i < n; i++) {
		char *name = mem_printf("%s%zu", letters[i % 6], i);

		json_array_append_new(names, json_string_nocheck(name));
		free(name);
	}
	return json_pack("{s:o, s:f}", "names", names, "mean", 0.1);
}

static bool is_reference(const char *text)
{
	json_t *doc = json_loads(text, 0, NULL);
	struct description_reference r;
	bool is = large_description_is_reference(doc, &r);

	json_decref(doc);
	return is;
}

static void references(const struct large_description *d)
{
	static const char hex[] =
	    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
	json_t *doc = large_description_refer(d);
	struct description_reference r;
	char text[200];

	ok(large_description_is_reference(doc, &r) && large_description_is(d, &r),
	    "a description is what its reference refers to");
	json_decref(doc);
	snprintf(text, sizeof text, "{\"size\":9,\"blake2b\":\"%s\"}", hex);
	ok(is_reference(text), "size and digest are a reference");
	snprintf(text, sizeof text, "{\"size\":-9,\"blake2b\":\"%s\"}", hex);
	ok(!is_reference(text), "a negative size is none");
	snprintf(text, sizeof text, "{\"size\":4611686018427387904,\"blake2b\":\"%s\"}", hex);
	ok(!is_reference(text), "nor is one beyond the limit");
	snprintf(text, sizeof text, "{\"size\":9,\"blake2b\":\"../%s\"}", hex + 3);
	ok(!is_reference(text), "nor a digest with other characters");
	snprintf(text, sizeof text, "{\"size\":9,\"blake2b\":\"%s\",\"cols\":2}", hex);
	ok(!is_reference(text) && !is_reference("{\"cols\":3,\"sparse\":true}") &&
	        !is_reference("{\"size\":9,\"blake2b\":\"\"}") && !is_reference("[1,2]"),
	    "nor other documents");
}

/* Sends d in pieces; repeat: each of them twice. */
static bool goes_in_pieces(const struct large_description *d, bool repeat, size_t *n)
{
	const struct description_reference r = { .size = (int64_t)d->size, .blake2b = d->blake2b };
	struct description_pieces p = { 0 };
	struct large_description *again = NULL;
	struct err e = { 0 };
	bool same = true;

	description_pieces_begin(&p, &r);
	for (*n = 0; same && !description_pieces_are_complete(&p); ++*n) {
		size_t at = p.text.len;
		json_t *piece = large_description_piece(d, at);
		char *text = json_dumps(piece, JSON_ENCODE_ANY);

		same = text != NULL; /* jansson writes valid UTF-8 only */
		for (int i = 0; same && i <= repeat; i++)
			same = !description_pieces_add(&p, at, piece, &e);
		json_decref(piece);
		free(text);
	}
	same = same && !description_pieces_end(&p, &again, &e) && large_description_is(again, &r) &&
	    strcmp(again->text, d->text) == 0;
	description_pieces_release(&p);
	large_description_release(again);
	return same;
}

static void pieces(const struct large_description *d)
{
	struct description_reference r = { .size = (int64_t)d->size, .blake2b = d->blake2b };
	json_t *piece = large_description_piece(d, 0), *empty = json_string(""), *odd;
	struct description_pieces p = { 0 };
	struct large_description *again;
	struct err e = { 0 };
	char *euro = strstr(d->text, "\u20ac");
	size_t n = 0;
	bool whole = goes_in_pieces(d, false, &n);

	ok(d->size > 2 * DESCRIPTION_PIECE && whole && n >= 3,
	    "%zu pieces of %zu bytes are the whole text", n, d->size);
	ok(goes_in_pieces(d, true, &n), "pieces that come twice do no harm");
	ok(euro && !large_description_piece(d, (size_t)(euro - d->text) + 1),
	    "no piece begins in the middle of a character");
	ok(!large_description_piece(d, d->size) && !large_description_piece(d, SIZE_MAX),
	    "none begins after the end");
	description_pieces_begin(&p, &r);
	ok(description_pieces_add(&p, 0, empty, &e) == ERR_PROTO &&
	        description_pieces_add(&p, 0, NULL, &e) == ERR_PROTO,
	    "a piece without text is refused: %s", e.msg);
	ok(!description_pieces_add(&p, 7, piece, &e) && p.text.len == 0,
	    "a piece of another place is left out");
	r.size = 10;
	description_pieces_begin(&p, &r);
	ok(description_pieces_add(&p, 0, piece, &e) == ERR_PROTO && p.text.len == 0,
	    "more than was announced is refused: %s", e.msg);
	odd = json_string("0123456789");
	ok(!description_pieces_add(&p, 0, odd, &e) &&
	        description_pieces_end(&p, &again, &e) == ERR_FORMAT && !again && !p.size,
	    "another text is refused: %s", e.msg);
	json_decref(odd);
	json_decref(empty);
	json_decref(piece);
}

static void texts(const struct large_description *d, const json_t *facts)
{
	const struct description_reference r = { .size = (int64_t)d->size, .blake2b = d->blake2b };
	struct large_description *other;
	struct err e = { 0 };
	json_t *again;

	ok(!large_description_parse(d, "it", &again, &e) && json_equal(again, facts),
	    "its text is the description");
	json_decref(again);
	ok(large_description_check(mem_strdup("{}"), 2, &r, "FILE", &other, &e) == ERR_FORMAT &&
	        !other && strstr(e.msg, "FILE is damaged"),
	    "another text is damaged: %s", e.msg);
	other = large_description_of_text(mem_strdup("{\"a\":"), 5);
	ok(large_description_parse(other, "FILE", &again, &e) == ERR_FORMAT && !again,
	    "so is one that is no JSON: %s", e.msg);
	large_description_release(other);
}

int main(void)
{
	json_t *facts = make_facts(220000), *small = make_facts(100);
	struct large_description *d = NULL, *none;
	struct err e = { 0 };

	ok(!large_description_of(small, &none, &e) && !none, "a description may be small");
	ok(!large_description_of(NULL, &none, &e) && !none, "or missing");
	ok(!large_description_of(facts, &d, &e) && d, "one of many names is large");
	references(d);
	pieces(d);
	texts(d, facts);
	large_description_release(large_description_hold(d));
	large_description_release(d);
	json_decref(small);
	json_decref(facts);
	return tap_done();
}
