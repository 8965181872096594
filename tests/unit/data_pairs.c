/* SPDX-License-Identifier: ISC */
/* Observations of users and items, the items drawn for them, and ranked evaluation data. */
#include "tap.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/buf.h"
#include "data/batch/data_pairs.h"
#include "data/source/data_uri.h"

static const struct data_want pairs = { .pairs = 1 }, real, ignored = { .any = true };

/* options: as behind a path's "?". */
static struct dataset *load_text(const char *text, const char *options,
    const struct data_want *want, const struct dataset *like, struct err *e)
{
	char path[200], *file;
	struct data_options o;
	struct dataset *d = NULL;
	struct stream *s = NULL;

	*e = (struct err){ 0 };
	snprintf(path, sizeof path, "x?%s", options);
	if (data_uri_parse(path, &file, &o, e) != ERR_OK)
		return NULL;
	if (stream_memory(text, strlen(text), "text", &s, e) == ERR_OK)
		data_load_stream(s, &o, want, like, &d, e);
	stream_close(s);
	data_uri_release(&o);
	free(file);
	return d;
}

/* Loads observations, and makes examples for ranking of them. */
static struct dataset *load_pairs(const char *text, const char *options,
    const struct dataset *train, struct err *e)
{
	struct dataset *d = load_text(text, options, &pairs, train, e);

	if (d && data_pairs_make(&d, train, 1, e) != ERR_OK) {
		dataset_free(d);
		d = NULL;
	}
	return d;
}

/* Has example r the user and the item of these numbers? */
static bool example_is(const struct dataset *d, size_t r, uint64_t user, uint64_t item)
{
	const uint32_t *col = d->col + d->start[r];

	return d->start[r + 1] - d->start[r] == 2 && d->id[col[0]] == 2 * user &&
	    d->id[col[1]] == 2 * item + 1;
}

static void test_targets(void)
{
	struct dataset *d;
	struct err e;

	d = load_text("1\t2\t3\n1\t3\t4\n2\t2\t5\n", "format=ratings&positive=4", &pairs, NULL, &e);
	ok(d && d->rows == 2 && example_is(d, 0, 1, 3) && example_is(d, 1, 2, 2) && d->y[0] == 1 &&
	        d->y[1] == 1,
	    "observations are the ratings from positive= on: %s", e.msg);
	dataset_free(d);
	d = load_text("1\t2\t3\n1\t3\t4\n", "format=ratings&positive=4", &real, NULL, &e);
	ok(d && d->rows == 2 && d->y[0] == 0 && d->y[1] == 1, "other models get 0 and 1: %s",
	    e.msg);
	dataset_free(d);
	d = load_text("1\t2\t0\n1\t3\t-1\n", "format=ratings", &pairs, NULL, &e);
	ok(d && d->rows == 2 && d->y[0] == 1 && d->y[1] == 1,
	    "without it, each line is an observation: %s", e.msg);
	dataset_free(d);
	d = load_text("7\t9\n8\t9\n", "format=ratings", &pairs, NULL, &e);
	ok(d && d->rows == 2 && example_is(d, 0, 7, 9), "which needs no rating: %s", e.msg);
	dataset_free(d);
	d = load_text("who,what\n7,9\n", "user=who&item=what", &pairs, NULL, &e);
	ok(d && d->rows == 1 && example_is(d, 0, 7, 9), "below a header: %s", e.msg);
	dataset_free(d);
	d = load_text("7\t9\n", "format=ratings", &ignored, NULL, &e);
	ok(d && d->rows == 1 && example_is(d, 0, 7, 9), "as predictions do not need it: %s", e.msg);
	dataset_free(d);
	d = load_text("7\t9\n", "format=ratings", &real, NULL, &e);
	ok(!d && strstr(e.msg, "expected a user, an item and a rating"), "others need it: %s",
	    e.msg);
	d = load_text("7\t9\n", "format=ratings&positive=4", &pairs, NULL, &e);
	ok(!d && strstr(e.msg, "expected a user, an item and a rating"), "also here: %s", e.msg);
	d = load_text("1\t2\t3\n", "format=ratings&positive=x", &pairs, NULL, &e);
	ok(!d && strstr(e.msg, "positive=x: expected a number"), "%s", e.msg);
	d = load_pairs("1 2:3\n", "format=libsvm", NULL, &e);
	ok(!d && strstr(e.msg, "is libsvm, but the model ranks the items of users"), "%s", e.msg);
}

/* The item drawn for example r of the batch; UINT64_MAX: none. */
static uint64_t drawn_item(const struct batch *b, size_t r)
{
	uint32_t at = b->start[r];

	if (b->start[r + 1] - at < 3)
		return UINT64_MAX;
	return b->field[at + 2] == DATA_PAIRS_DRAWN ? b->id[b->col[at + 2]] / 2 : 0;
}

/* User 1 has the items 2 and 3 of 2 .. 9, user 5 has all. */
static const char train_text[] =
    "1 2 1\n5 2 1\n5 3 1\n5 4 1\n5 5 1\n5 6 1\n5 7 1\n5 8 1\n5 9 1\n1 3 1\n";

static void test_draws(void)
{
	static const uint32_t both[] = { 0, 1 }, first[] = { 0 };
	struct err e;
	struct dataset *d = load_pairs(train_text, "format=ratings", NULL, &e);
	struct batch b = { 0 }, alone = { 0 };
	size_t times[10] = { 0 };
	bool good = d != NULL, same = true, even = true;

	for (b.epoch = 0; good && b.epoch < 6000; b.epoch++) {
		uint64_t item;

		good = data_gather(d, both, 2, &b, &e) == ERR_OK &&
		    b.fields == DATA_PAIRS_DRAWN + 1 && b.group[0] == 3 && b.id[b.col[0]] == 2 &&
		    b.id[b.col[1]] == 5 && drawn_item(&b, 1) == UINT64_MAX;
		item = good ? drawn_item(&b, 0) : 0;
		good = good && item >= 4 && item <= 9;
		times[good ? item : 0]++;
		alone.epoch = b.epoch;
		data_gather(d, first, 1, &alone, &e);
		same &= drawn_item(&alone, 0) == item;
	}
	for (size_t i = 4; i < 10; i++)
		even &= times[i] > 850 && times[i] < 1150;
	ok(good, "an item is drawn that the user has not; none for a user who has all: %s", e.msg);
	ok(even, "all items are drawn alike: 1000 times each, got %zu, %zu, %zu, %zu, %zu, %zu",
	    times[4], times[5], times[6], times[7], times[8], times[9]);
	ok(same, "a draw depends on the pass and the example alone");
	dataset_free(d);
	batch_release(&b);
	batch_release(&alone);
}

static void test_ranked(void)
{
	static const uint32_t all[] = { 0, 1, 2, 3, 4, 5, 6, 7 };
	struct err e;
	struct dataset *train = load_pairs(train_text, "format=ratings", NULL, &e);
	/* user 1 knows 2 and 3; item 20 is new */
	struct dataset *d = load_pairs("1 20 1\n1 8 1\n1 8 1\n", "format=ratings", train, &e);
	struct batch b = { 0 };
	bool good;

	ok(d && d->rows == 7 && example_is(d, 0, 1, 8) && example_is(d, 1, 1, 20) &&
	        example_is(d, 2, 1, 4) && example_is(d, 3, 1, 5) && example_is(d, 4, 1, 6) &&
	        example_is(d, 5, 1, 7) && example_is(d, 6, 1, 9) && d->y[0] == 1 && d->y[1] == 1 &&
	        d->y[2] == 0 && d->y[6] == 0,
	    "a ranked set: the user's items, and those that nobody knows of the user: %s", e.msg);
	good = d && data_gather(d, all, 7, &b, &e) == ERR_OK;
	for (size_t r = 0; good && r < 7; r++) {
		uint64_t item = drawn_item(&b, r);

		good = b.group[r] == 3 &&
		    (r < 2 ? item >= 4 && item <= 9 && item != 8 : item == 8 || item == 20);
	}
	ok(good, "each is compared with one of the other target");
	dataset_free(d);
	d = load_pairs("30 2 1\n", "format=ratings", train, &e);
	ok(d && d->rows == 8 && example_is(d, 0, 30, 2) && example_is(d, 7, 30, 9),
	    "a new user may know all items: %s", e.msg);
	dataset_free(d);
	d = load_pairs("1 8 1\n", "format=ratings", &(struct dataset){ .sparse = true }, &e);
	ok(!d && strstr(e.msg, "only where the training data are read"), "%s", e.msg);
	dataset_free(train);
	batch_release(&b);
}

/* 3000 users, each of whom has one of 1000 items. */
static void test_sample(void)
{
	struct buf text = BUF_INIT;
	struct dataset *train, *d;
	size_t users = 0;
	struct err e;

	for (int i = 0; i < 3000; i++)
		buf_printf(&text, "%d %d 1\n", i, i % 1000);
	train = load_pairs((const char *)text.data, "format=ratings", NULL, &e);
	d = train ? load_pairs((const char *)text.data, "format=ratings", train, &e) : NULL;
	for (size_t r = 0; d && r < d->rows; r++)
		users += d->y[r] > 0;
	ok(d && d->rows <= DATA_PAIRS_RANKED && d->rows == users * 1000 && users > 600 &&
	        users < 900,
	    "a large set has a sample of the users, with all their items (%zu users): %s", users,
	    e.msg);
	dataset_free(d);
	dataset_free(train);
	buf_release(&text);
}

int main(void)
{
	test_targets();
	test_draws();
	test_ranked();
	test_sample();
	return tap_done();
}
