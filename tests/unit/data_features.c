/* SPDX-License-Identifier: ISC */
/* Features of users and items: their tables, the entries of ratings, and those of drawn items. */
#include "tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "core/mem.h"
#include "data/batch/data_pairs.h"
#include "data/reader/data_features.h"

static char dir[] = "/tmp/ps-features-XXXXXX";

/* Writes a file in dir; its path lasts until the next call. */
static const char *put_file(const char *name, const char *text)
{
	static char path[128];
	FILE *f;

	snprintf(path, sizeof path, "%s/%s", dir, name);
	f = fopen(path, "w");
	if (f) {
		fputs(text, f);
		fclose(f);
	}
	return path;
}

static size_t count_of(const struct data_features *f, uint64_t number)
{
	size_t n;

	return data_features_of(f, number, &n) ? n : SIZE_MAX;
}

static size_t shared_of(const struct data_features *f, uint64_t number)
{
	size_t n, shared = 0;
	const uint64_t *feature = data_features_of(f, number, &n);

	for (size_t i = 0; i < n; i++)
		shared += data_features_is_shared(f, feature[i]);
	return shared;
}

static void test_tables(void)
{
	struct data_features *f = NULL;
	const uint64_t *a, *b;
	char *text = NULL, *name;
	size_t na, nb, same = 0;
	struct data_names *names = data_names_new();
	struct err e = { 0 };

	ok(data_features_read(put_file("items.csv",
	                          "id,title,genre,war\n"
	                          "3,One,\"drama|crime\",0\n5,Two,crime|crime,1\n9,Three,,1\n"
	                          "\n11,\"A, B\",drama,0\n"),
	       DATA_FEATURES_ITEMS, &f, &e) == ERR_OK,
	    "a table: %s", e.msg);
	if (!f)
		exit(1);
	a = data_features_of(f, 3, &na);
	b = data_features_of(f, 5, &nb);
	ok(na == 3 && nb == 3 && count_of(f, 9) == 2 && count_of(f, 11) == 2,
	    "cells have several features, and \"0\" is none");
	ok(shared_of(f, 3) == 2 && shared_of(f, 5) == 2 && shared_of(f, 9) == 1 &&
	        shared_of(f, 11) == 1,
	    "what one item has alone is not shared");
	ok(count_of(f, 4) == SIZE_MAX, "an item without a line has none");
	for (size_t i = 0; i < na; i++)
		for (size_t k = 0; k < nb; k++)
			same += a[i] == b[k];
	ok(same == 1 && a[0] < a[1] && a[1] < a[2] && data_features_is_number(a[0]) &&
	        !data_features_is_number(11),
	    "equal features have equal numbers, which no item has");
	text = data_features_describe(f);
	ok(strcmp(text, "3 features of items from items.csv, without 4 that only one item has") ==
	        0,
	    "%s", text);
	data_features_name(f, names);
	for (size_t i = 0; i < 2; i++) {
		uint64_t feature = data_features_of(f, 11, &na)[i];

		name = data_names_find(names, 2 * feature + 1);
		ok(data_features_is_shared(f, feature)
		        ? name && strcmp(name, "item.genre=drama") == 0
		        : !name,
		    "named %s", name ? name : "nothing");
		free(name);
	}
	free(text);
	data_names_free(names);
	data_features_free(f);

	ok(data_features_read(put_file("users", "7::a::b\n8::a::c\n"), DATA_FEATURES_USERS, &f,
	       &e) == ERR_OK &&
	        shared_of(f, 7) == 1 && count_of(f, 8) == 2,
	    "a table without names, of users, between \"::\": %s", e.msg);
	data_features_free(f);
	data_features_free(NULL);
}

static void test_refusals(void)
{
	static const struct {
		const char *text, *why;
	} bad[] = {
		{ "", "has no line with an item" },
		{ "id,a\n", "has no line with an item" },
		{ "id\n3\n", "has one column" },
		{ "id,a\n3,x,y\n", ":2: has 3 columns, but the first line has 2" },
		{ "id,a\n-3,x\n", ":2: expected an item in the first column, got \"-3\"" },
		{ "id,a\n,x\n", ":2: expected an item in the first column" },
		{ "id,a\n3,\"x\n", "the quotes of the cell do not match" },
		{ "id,a\n3,x\n4,x\n3,y\n", "the lines 2 and 4 are of the same item" },
		{ "id,a,a\n3,x,y\n", "columns 2 and 3 have the same name" },
	};
	struct data_features *f;
	struct err e;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		e = (struct err){ 0 };
		ok(data_features_read(put_file("bad", bad[i].text), DATA_FEATURES_ITEMS, &f, &e) ==
		            ERR_FORMAT &&
		        !f && strstr(e.msg, bad[i].why),
		    "%s", e.msg);
	}
	ok(data_features_read("/nonexistent/items", DATA_FEATURES_ITEMS, &f, &e) == ERR_IO, "%s",
	    e.msg);
}

static void test_keeping(void)
{
	struct data_features *a = NULL, *b = NULL, *c = NULL;
	char *path = mem_strdup(put_file("kept", "1,x |y\n2,y|x\n"));
	struct err e = { 0 };

	ok(data_features_read(path, DATA_FEATURES_ITEMS, &a, &e) == ERR_OK &&
	        data_features_read(path, DATA_FEATURES_ITEMS, &b, &e) == ERR_OK && a == b &&
	        data_features_read(path, DATA_FEATURES_USERS, &c, &e) == ERR_OK && c != a,
	    "a table is read once for users and once for items: %s", e.msg);
	ok(a && shared_of(a, 1) == 2 && shared_of(a, 2) == 2, "blanks around a text do not count");
	data_features_free(b);
	data_features_free(c);
	put_file("kept", "1,x\n2,y\n3,z\n");
	ok(data_features_has_changed(a) && count_of(a, 3) == SIZE_MAX &&
	        data_features_read(path, DATA_FEATURES_ITEMS, &b, &e) == ERR_OK && a != b &&
	        count_of(b, 3) == 1,
	    "one that has changed is read again, and the old one stays for its users: %s", e.msg);
	data_features_free(a);
	data_features_free(b);
	free(path);
}

/* The entries of a batch's example in a field: their number, and whether the first one is this row. */
static size_t entries_in(const struct batch *b, size_t r, unsigned field, uint64_t *first)
{
	size_t n = 0;

	for (uint32_t k = b->start[r]; k < b->start[r + 1]; k++)
		if (b->field[k] == field && !n++)
			*first = b->id[b->col[k]];
	return n;
}

/* Items 3 and 5 have two features each, item 9 has one, and user 1 has one. */
static void test_pairs(void)
{
	static const uint32_t all[] = { 0, 1, 2, 3 };
	const struct data_want pairs = { .pairs = 2 }, real = { .any = true };
	struct data_pairs_share half = { .seed = 1, .share = 0.5 };
	struct dataset *d = NULL, *plain = NULL, *ranked = NULL;
	char *path = mem_strdup(put_file("r.csv", "user,item\n1,3\n1,5\n2,9\n2,3\n"));
	char *with = mem_printf(
	    "%s?format=ratings&user=user&item=item&item_features=i.csv&user_features=u.csv", path);
	const char *paths[] = { with };
	struct batch b = { 0 };
	uint64_t first = 0;
	bool good = true;
	struct err e = { 0 };

	put_file("i.csv", "id,g\n3,a|b\n5,a|b\n9,a\n");
	put_file("u.csv", "id,s\n1,x\n2,\n7,x\n");
	ok(data_load(paths, 1, NULL, &real, NULL, &plain, &e) == ERR_OK && plain->rows == 4 &&
	        plain->start[4] == 5 + 5 + 3 + 4 && plain->fields == 2,
	    "rows have the features of users and items: %s", e.msg);
	ok(plain && plain->options && plain->options->item_features[0] == '/',
	    "the description has the whole path");
	ok(plain && data_pairs_of(plain, 0).item == 7 && data_pairs_of(plain, 2).item == 19,
	    "the pair of a row is that of the user and the item");
	ok(data_load(paths, 1, NULL, &pairs, NULL, &d, &e) == ERR_OK &&
	        data_pairs_make(&d, NULL, 2, &e) == ERR_OK,
	    "examples for ranking: %s", e.msg);
	ok(d && data_gather(d, all, 4, &b, &e) == ERR_OK && b.fields == 4 &&
	        entries_in(&b, 0, DATA_PAIRS_USER, &first) == 2 && first == 2 &&
	        entries_in(&b, 2, DATA_PAIRS_USER, &first) == 1 && first == 4 &&
	        entries_in(&b, 1, DATA_PAIRS_ITEM, &first) == 3 && first == 11,
	    "batches have them");
	/* User 1 lacks item 9 alone, and user 2 item 5 alone. */
	for (unsigned k = 0; d && k < 2; k++)
		good = good && entries_in(&b, 0, DATA_PAIRS_DRAWN + k, &first) == 2 &&
		    first == 19 && entries_in(&b, 3, DATA_PAIRS_DRAWN + k, &first) == 3 &&
		    first == 11;
	ok(good, "drawn items have those of other rows");
	for (half.seed = 1; d && !ranked && half.seed < 50; half.seed++) {
		struct data_split split = { 0 };

		if (data_pairs_hold_out(d, &half, &split, &ranked, &e))
			ranked = NULL;
		data_split_release(&split);
	}
	good = ranked && data_gather(ranked, all, 1, &b, &e) == ERR_OK;
	ok(good && entries_in(&b, 0, DATA_PAIRS_ITEM, &first) >= 2 && first % 2 == 1,
	    "ranked items have theirs");
	batch_release(&b);
	dataset_free(ranked);
	dataset_free(d);
	dataset_free(plain);
	free(with);
	free(path);
}

int main(void)
{
	if (!mkdtemp(dir))
		return 1;
	test_tables();
	test_refusals();
	test_keeping();
	test_pairs();
	file_remove_tree(dir, NULL);
	return tap_done();
}
