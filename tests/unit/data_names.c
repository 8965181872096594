/* SPDX-License-Identifier: ISC */
/* The names of features that are hashes of words. */
#include "table_fixture.h"

#include "core/mem.h"
#include "data/table/data_names.h"

static void name_is(const struct data_names *n, uint64_t feature, const char *want)
{
	char *name = data_names_find(n, feature);

	ok(name ? want && strcmp(name, want) == 0 : !want, "%llu is %s",
	    (unsigned long long)feature, name ? name : "nameless");
	free(name);
}

static void test_names(void)
{
	struct data_names *n = data_names_new(), *copy;
	size_t user = data_names_column(n, "user"), item = data_names_column(n, "item");

	ok(user != item && data_names_column(n, "user") == user, "columns are found by name");
	data_names_add(n, user, "ann", 4);
	data_names_add(n, item, "ann", 5);
	data_names_add(n, user, "ann", 4);
	data_names_add(n, item, "The | \"Film\"=2", UINT64_C(1) << 62);
	name_is(n, 4, "user=ann");
	name_is(n, 5, "item=ann");
	name_is(n, UINT64_C(1) << 62, "item=The | \"Film\"=2");
	name_is(n, 6, NULL);
	data_names_add(n, user, "bob", 4);
	data_names_add(n, item, "bob", 4);
	name_is(n, 4, "user=ann|user=bob|item=bob");
	copy = data_names_copy(n);
	data_names_add(n, user, "eve", 4);
	name_is(copy, 4, "user=ann|user=bob|item=bob");
	name_is(copy, 5, "item=ann");
	data_names_free(copy);
	data_names_free(n);
	data_names_free(NULL);
}

static void test_json(void)
{
	static const char *const bad[] = { "[]", "{\"user\": 1}", "{\"user\": {\"ann\": \"4\"}}",
		"{\"user\": {\"ann\": -4}}", "{\"user\": {\"ann\": 4}, \"item\": [4]}" };
	struct data_names *n = data_names_new(), *again;
	size_t user = data_names_column(n, "user");
	json_t *o;
	char *text;

	data_names_column(n, "item");
	data_names_add(n, user, "\xc3\xa9\t\"", UINT64_C(4611686018427387903));
	data_names_add(n, user, "b", 4);
	data_names_add(n, user, "c", 4);
	o = data_names_to_json(n);
	text = json_text(o);
	ok(strcmp(text, "{\"user\":{\"\xc3\xa9\\t\\\"\":4611686018427387903,\"b\":4,\"c\":4}}") ==
	        0,
	    "a column without words is left out: %s", text);
	again = data_names_from_json(o);
	name_is(again, UINT64_C(4611686018427387903), "user=\xc3\xa9\t\"");
	name_is(again, 4, "user=b|user=c");
	json_decref(o);
	free(text);
	data_names_free(again);
	data_names_free(n);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		o = json_parse(bad[i], strlen(bad[i]), 1000, NULL);
		ok(o && !data_names_from_json(o), "refused: %s", bad[i]);
		json_decref(o);
	}
	ok(!data_names_from_json(NULL), "and so is nothing");
}

static size_t json_bytes(const struct data_names *n)
{
	json_t *o = data_names_to_json(n);
	size_t bytes = json_dumpb(o, NULL, 0, 0);

	json_decref(o);
	return bytes;
}

static void test_bounds(void)
{
	struct data_names *n = data_names_new();
	size_t user = data_names_column(n, "user"), item = data_names_column(n, "item");
	char word[1000], *name;

	for (unsigned i = 0; i <= DATA_NAMES_MAX; i++) {
		snprintf(word, sizeof word, "u%u", i);
		data_names_add(n, user, word, 2 * (uint64_t)i);
	}
	name_is(n, 2 * (DATA_NAMES_MAX - 1), "user=u16383");
	name_is(n, 2 * DATA_NAMES_MAX, NULL);
	data_names_add(n, item, "Jaws", 7);
	name_is(n, 7, "item=Jaws");
	for (unsigned i = 0; i < 2 * DATA_NAMES_SAME; i++) {
		snprintf(word, sizeof word, "i%u", i);
		data_names_add(n, item, word, 9);
	}
	name = data_names_find(n, 9);
	ok(strstr(name, "|item=i63") && !strstr(name, "|item=i64"), "of one feature: %s", name);
	free(name);
	data_names_free(n);
	n = data_names_new();
	user = data_names_column(n, "user");
	for (unsigned i = 0; i < DATA_NAMES_MAX; i++) {
		memset(word, i % 2 ? '\1' : '\xff', sizeof word);
		snprintf(word + sizeof word - 8, 8, "%07u", i);
		data_names_add(n, user, word, UINT64_C(1) << 61 | i);
	}
	ok(json_bytes(n) > DATA_NAMES_BYTES / 3 && json_bytes(n) <= DATA_NAMES_BYTES,
	    "%zu bytes of long words, as JSON", json_bytes(n));
	data_names_free(n);
}

int main(void)
{
	test_names();
	test_json();
	test_bounds();
	return tap_done();
}
