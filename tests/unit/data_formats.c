/* SPDX-License-Identifier: ISC */
/* Readers of features in fields, of hashed names, of ratings and of words. */
#include "tap.h"

#include <math.h>

#include "core/buf.h"
#include "data/reader/data_ratings.h"
#include "data/reader/data_bad_lines.h"
#include "data/source/data_uri.h"
#include "data/batch/data_words.h"
#include "worker/data_facts.h"

static const struct data_want real, two = { .two = true }, words = { .words = true };

/* options: as behind a path's "?". */
static struct dataset *load(const char *text, const char *options, const struct data_want *want,
    const struct dataset *like, struct err *e)
{
	char path[200], *file;
	struct data_options o;
	struct dataset *d = NULL;
	struct stream *s = NULL;

	*e = (struct err){ 0 };
	snprintf(path, sizeof(path), "x?%s", options);
	if (data_uri_parse(path, &file, &o, e) != ERR_OK)
		return NULL;
	if (stream_memory(text, strlen(text), "text", &s, e) == ERR_OK)
		data_load_stream(s, &o, want, like, &d, e);
	stream_close(s);
	data_uri_release(&o);
	free(file);
	return d;
}

static void refused(const char *text, const char *options, const struct data_want *want,
    const char *why)
{
	struct err e;
	struct dataset *d = load(text, options, want, NULL, &e);

	ok(!d && strstr(e.msg, why), "%s", d ? why : e.msg);
	dataset_free(d);
}

/* Entry k of the row: its feature, field (-1: none) and value. */
static bool entry(const struct dataset *d, size_t r, size_t k, uint64_t id, int field, double val)
{
	uint64_t at = d->start[r] + k;

	return at < d->start[r + 1] && d->id[d->col[at]] == id &&
	    fabs((double)d->val[at] - val) < 1e-6 &&
	    (d->field ? d->field[at] == field : field == -1);
}

static size_t entries(const struct dataset *d, size_t r)
{
	return d->start[r + 1] - d->start[r];
}

#define MARK "\xef\xbb\xbf"

/* A byte order mark at the begin of a file, or of a file that was appended to another one. */
static void test_marks(void)
{
	static const struct data_want classes = { .classes = true };
	static const struct {
		const char *format, *text;
		size_t rows;
	} of[] = { { "libffm", MARK "1 0:1:1 1:2:1\n0 0:3:1 1:4:1\n", 2 },
		{ "fastText", MARK "__label__pos a a\n" MARK "__label__neg b b\n", 2 },
		{ "libsvm", MARK "cat 1:1 3:1\ndog 2:1 3:1\n" MARK "cat 1:1\n", 3 },
		{ "libsvm", MARK "1 1:1\n0 2:1\n" MARK "1 1:2\n", 3 },
		{ "Vowpal Wabbit", MARK "1 | a b\n-1 | c d\n", 2 },
		{ "JSON Lines", MARK "{\"x\":1,\"y\":2}\n" MARK "{\"x\":2,\"y\":3}\n", 2 },
		{ "CSV", MARK "a,y\n1,2\n" MARK "2,3\n", 2 } };
	struct err e;

	for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
		struct dataset *d = load(of[i].text, "", &classes, NULL, &e);

		ok(d && d->rows == of[i].rows && d->classes == 2 &&
		        strcmp(d->format, of[i].format) == 0,
		    "%s with byte order marks (%s)", of[i].format, d ? d->format : e.msg);
		dataset_free(d);
	}
}

/* Checks that hold for all readers, and their bad lines, which may be skipped. */
static void test_limits(void)
{
	static const struct {
		const char *options, *line, *why;
	} of[] = { { "format=vw", "1 |a x:1e39\n", "not a finite float32" },
		{ "format=vw", "1 |a:1e400 x:1\n", "not a finite float32" },
		{ "format=vw", "1 |a:1e30 x:1e30\n", "not a finite float32" },
		{ "format=vw&pairs=ab", "1 |a x:1e30 |b y:1e30\n", "not a finite float32" },
		{ "format=libsvm", "1 2:3e38 1:3e38 2:3e38\n", "not a finite float32" },
		{ "format=ffm", "1 0:1:3e38 0:1:3e38\n", "not a finite float32" } };
	struct log quiet = { .fd = -1 };
	struct data_want skips = { .bad = data_bad_lines_new(10, &quiet) };
	struct buf text = BUF_INIT;
	struct dataset *d;
	struct err e;

	for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
		const char *good = strstr(of[i].options, "vw") ? "1 |a x\n1 |b x\n"
		    : strstr(of[i].options, "ffm")             ? "1 0:1:1\n1 0:1:1\n"
		                                               : "1 1:1\n1 1:1\n";

		refused(of[i].line, of[i].options, &real, of[i].why);
		buf_clear(&text);
		buf_puts(&text, of[i].line);
		buf_puts(&text, good);
		d = load((char *)text.data, of[i].options, &skips, NULL, &e);
		ok(d && d->rows == 2 && d->reading.skipped == 1, "it may be skipped (%s)", e.msg);
		dataset_free(d);
	}
	buf_clear(&text);
	buf_puts(&text, "1 |a");
	for (int i = 0; i < 3000; i++)
		buf_printf(&text, " f%d", i);
	buf_puts(&text, "\n1 |b x\n");
	refused((char *)text.data, "format=vw&pairs=aa", &real, "pairs=aa makes more than");
	d = load((char *)text.data, "format=vw&pairs=ab,bb", &real, NULL, &e);
	ok(d && entries(d, 0) == 3000, "pairs of namespaces of which one is empty are none");
	dataset_free(d);
	d = load("1 1:1e-40\n1 1:3 2:4\n", "format=libsvm&norm=l2", &real, NULL, &e);
	ok(d && fabs((double)d->val[0] - 1) < 1e-5 && fabs((double)d->val[2] - 0.8) < 1e-6,
	    "a row that is nearly zero has the length 1, too");
	dataset_free(d);
	data_bad_lines_free(skips.bad);
	buf_release(&text);
}

static void test_ffm(void)
{
	static const uint32_t index[] = { 1, 0 };
	struct batch b = { 0 };
	struct dataset *eval;
	struct err e;
	struct dataset *d = load("1 0:3:1 2:70000000000:.5\n0\n\n0 1:3:2 1:3:2\n", "format=ffm",
	    &two, NULL, &e);

	ok(d && d->rows == 3 && d->fields == 3 && d->cols == 70000000001 &&
	        entry(d, 0, 0, 3, 0, 1) && entry(d, 0, 1, 70000000000, 2, 0.5) &&
	        entries(d, 1) == 0 && entries(d, 2) == 1 && entry(d, 2, 0, 3, 1, 4),
	    "ffm: fields, large indices, an index twice, an empty row %s", e.msg);
	ok(data_gather(d, index, 2, &b, &e) == ERR_OK && b.fields == 3 && b.start[1] == 0 &&
	        b.field[1] == 2 && b.id[b.col[1]] == 70000000000,
	    "ffm: fields in batches");
	eval = load("1 0:9:1\n", "format=ffm", &two, d, &e);
	ok(eval && eval->fields == 3 && eval->cols == d->cols,
	    "ffm: evaluation data have the training's fields %s", e.msg);
	dataset_free(eval);
	dataset_free(d);
	d = load("1 0:3:3 2:5:4\n0 1:3:0\n", "norm=l2", &two, NULL, &e);
	ok(d && d->fields == 3 && entry(d, 0, 0, 3, 0, 0.6) && entry(d, 0, 1, 5, 2, 0.8) &&
	        entry(d, 1, 0, 3, 1, 0),
	    "norm: of length 1, zeroes stay %s", e.msg);
	dataset_free(d);
	batch_release(&b);
	refused("1 0:3:1\n0 3:1\n", "format=ffm", &two, ":2: expected field:index:value");
	refused("1 65536:3:1\n", "format=ffm", &two, "a field below 65536");
	refused("1 0:3:nan\n", "format=ffm", &two, "expected field:index:value");
	refused("1 0:3:1x\n", "format=ffm", &two, "\"0:3:1x\"");
	refused("a 0:3:1\n", "format=ffm", &two, "expected a number as label");
	refused("1 0:3:1\n", "norm=l1", &two, "unknown norm \"l1\"; did you mean \"l2\"?");
}

static bool name_is(const struct dataset *d, uint64_t feature, const char *want)
{
	char *name = data_feature_name(d, feature);
	bool is = name ? want && strcmp(name, want) == 0 : !want;

	free(name);
	return is;
}

static void test_ratings(void)
{
	static const char *const forms[] = {
		"userId,movieId,rating,timestamp\n7,9,3.5,1\n0,1,2,5\n",
		"7\t9\t3.5\t1\n0\t1\t2\t5\n", "7::9::3.5::1\n0::1::2::5\n", "7 9 3.5\n0 1 2\n"
	};
	struct dataset *d, *more;
	struct err e;

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		d = load(forms[i], "format=ratings", &real, NULL, &e);

		ok(d && d->rows == 2 && d->fields == 2 && entry(d, 0, 0, 14, 0, 1) &&
		        entry(d, 0, 1, 19, 1, 1) && entry(d, 1, 0, 0, 0, 1) &&
		        entry(d, 1, 1, 3, 1, 1) && (double)d->y[0] == 3.5 && (double)d->y[1] == 2,
		    "ratings, form %zu %s", i, e.msg);
		dataset_free(d);
	}
	d = load("who,what,stars\nann,Toy Story (1995),5\nbob,7,4\nann,7,3\n", "format=ratings",
	    &real, NULL, &e);
	ok(d && d->rows == 3 && d->col[d->start[0]] == d->col[d->start[2]],
	    "names may have blanks where commas separate: %s", e.msg);
	dataset_free(d);
	d = load(
	    "stars,\"what, title\",when,who\n5,\"Good, the \"\"Bad\"\"\",1,7\n2,\"Jaws\",2,7\n",
	    "user=who&item=what%2C title&rating=stars", &real, NULL, &e);
	ok(d && d->rows == 2 && entry(d, 0, 0, 14, 0, 1) && entry(d, 1, 0, 14, 0, 1) &&
	        d->col[d->start[0] + 1] != d->col[d->start[1] + 1] && (double)d->y[0] == 5,
	    "columns by name, quoted, which make it ratings: %s", e.msg);
	dataset_free(d);
	d = load("2.5;x;9;7\n3;y;9;8\n", "user=4&item=3&rating=1", &real, NULL, &e);
	ok(d && d->rows == 2 && entry(d, 0, 0, 14, 0, 1) && entry(d, 0, 1, 19, 1, 1) &&
	        (double)d->y[1] == 3,
	    "columns by number, between semicolons: %s", e.msg);
	dataset_free(d);
	refused("who,what,stars\n1,2,3\n", "user=whom", &real,
	    ":1: user=whom: there is no such column; did you mean \"who\"?");
	refused("1,2,3\n", "format=ratings&rating=9", &real,
	    ":1: rating=9: there is no such column; user=, item= and rating= name columns by a number "
	    "from 1 to 3");
	refused("who,what,stars\n1,2,3\n", "user=x&item=what", &real,
	    "name columns by \"who\", \"what\", \"stars\", or a number from 1 to 3");
	refused("u,i,r\n1,2,bad\n", "format=ratings", &real,
	    ":2:3: expected a number as rating, got \"bad\"; user=, item= and rating= name other "
	    "columns");
	refused("1,2,3\n1,,3\n", "format=ratings", &real, ":2:2: expected an item");
	refused("1,2,3\n1,2,\n", "format=ratings", &real,
	    ":2:3: expected a number as rating, got \"\"; remove the line");
	refused("{\"user\": 1, \"item\": 2}\n", "format=ratings", &real,
	    "convert JSON Lines with jq -r '[.user, .item, .rating] | @csv'");
	refused("1,2,\"3,5\"\n", "format=ratings", &real, ":1:3: expected a number as rating");
	d = load("u;i;r;w\n1;2;3,5;0,5\n1;3;4;1.5\n", "format=ratings&weight=w", &real, NULL, &e);
	ok(d && (double)d->y[0] == 3.5 && (double)d->y[1] == 4 && (double)d->weight[0] == 0.5,
	    "decimal commas between semicolons: %s", e.msg);
	dataset_free(d);
	d = NULL;
	d = load("who,what,stars\nann,Jaws,5\nbob,7,4\nann,7,3\n", "format=ratings", &real, NULL,
	    &e);
	ok(d && d->rows == 3 && d->col[d->start[0]] == d->col[d->start[2]] &&
	        d->col[d->start[0]] != d->col[d->start[1]] && entry(d, 1, 1, 15, 1, 1),
	    "users and items may be words: %s", e.msg);
	ok(d && name_is(d, d->id[d->col[d->start[0]]], "user=ann") &&
	        name_is(d, d->id[d->col[d->start[0] + 1]], "item=Jaws") && name_is(d, 15, NULL),
	    "which are their names");
	more = d ? load("ann,Up,3\ncid,Jaws,1\n", "format=ratings",
	               &(struct data_want){ .base = d }, NULL, &e)
	         : NULL;
	ok(more && name_is(more, d->id[d->col[d->start[1]]], "user=bob") &&
	        name_is(more, more->id[more->col[2]], "user=cid"),
	    "data that extend others have the names of both: %s", e.msg);
	dataset_free(more);
	more = load("3,4,3\n", "format=ratings", &(struct data_want){ .base = d }, NULL, &e);
	ok(more && name_is(more, d->id[d->col[d->start[1]]], "user=bob"),
	    "also where they have numbers alone: %s", e.msg);
	dataset_free(more);
	more = load("ann,Jaws,5\n", "format=ratings", &real, d, &e);
	ok(more && !more->names, "evaluation data have the names of the training data: %s", e.msg);
	dataset_free(more);
	dataset_free(d);
	d = load("1,2,3\n", "format=ratings", &real, NULL, &e);
	ok(d && !d->names, "numbers have no names");
	dataset_free(d);
	refused("1\t2\t3\n1\t2\n", "format=ratings", &real,
	    ":2: expected a user, an item and a rating");
	refused("1\t2\t3x\n", "format=ratings", &real,
	    ":1:3: expected a number as rating, got \"3x\"");
	refused("-1\t2\t3\n1\t-2\t3\n", "format=ratings", &real, ":1:1: expected a user");
	refused("9999999999999999999\t2\t3\n", "format=ratings", &real, "expected a user");
}

/* Advice where the columns of a user, an item and a rating are not known. */
static void test_columns_of_ratings(void)
{
	static const struct data_want rated = { .tables = "ratings" },
	                              pairs = { .pairs = 1, .tables = "ratings" };
	struct dataset *d;
	struct err e;

	d = load("u,i,r\n1,2,bad\n", "rating=r", &real, NULL, &e);
	ok(!d && !strstr(e.msg, "name other columns"), "the column was named: %s", e.msg);
	refused("stars,UserId,movie\n3,1,2\n", "format=ratings", &real,
	    ":1: \"UserId\", \"movie\" and \"stars\" are columns 2, 3 and 1, but without options the first "
	    "three columns are the user, the item and the rating: add ?user=2&item=3&rating=1");
	refused("asin,reviewerID,overall\nB1,A1,5\n", "format=ratings", &real,
	    ":1: \"reviewerID\", \"asin\" and \"overall\" are columns 2, 1 and 3");
	refused("item_id:token\tuser_id:token\nB1\tA1\n", "format=ratings", &pairs,
	    ":1: \"user_id:token\" and \"item_id:token\" are columns 2 and 1, but without options the "
	    "first three columns are the user, the item and the rating: add ?user=2&item=1 to the path");
	d = load("userId,movieId\n1,2\n1,3\n", "format=ratings", &pairs, NULL, &e);
	ok(d && d->rows == 2, "a header of two usual names is no observation: %s", e.msg);
	dataset_free(d);
	d = load("userId,movieId,stars\n1,2,5\n1,3,4\n", "format=ratings", &pairs, NULL, &e);
	ok(d && d->roles &&
	        strcmp(d->roles, "user: column 1 \"userId\", item: column 2 \"movieId\"") == 0,
	    "observations have no rating: %s", d ? d->roles : e.msg);
	dataset_free(d);
	refused("17179869184123456789,3,5\n", "format=ratings", &real,
	    ":1:1: expected a user, a whole number below 2^62 or a word");
	refused("u,i,i,r\n1,2,3,4\n", "user=u&item=i&rating=r", &real,
	    ":1: item=i: columns 2 and 3 have this name; give the number of the one that is meant, as "
	    "item=3");
	refused("1,2,3\n", "user=3", &real,
	    ":1: column 3 is the user and the rating; name another column by rating=");
	refused("u,i,r\n1,2,3\n", "user=u&item=u", &real,
	    ":1: column 1 is the user and the item; name another column by user=");
	d = load("2,1,5\n3,4,5\n", "user=2&item=1", &real, NULL, &e);
	ok(entry(d, 0, 0, 2, 0, 1) && entry(d, 0, 1, 5, 1, 1),
	    "a number is never the cell of a line: %s", e.msg);
	dataset_free(d);
	d = load("member,book,stars\n1,2,3\n", "format=ratings", &real, NULL, &e);
	ok(d && d->roles &&
	        strcmp(d->roles,
	            "user: column 1 \"member\", item: column 2 \"book\", rating: column 3 \"stars\"") ==
	            0,
	    "the columns are told: %s", d ? d->roles : e.msg);
	dataset_free(d);
	d = load("1,2,3\n", "format=ratings", &real, NULL, &e);
	ok(d && d->roles &&
	        strcmp(d->roles, "user: column 1, item: column 2, rating: column 3") == 0,
	    "and by their numbers where they have no names: %s", d ? d->roles : e.msg);
	dataset_free(d);
	d = load("stars,user,movie\n3,1,2\n", "user=1&item=2&rating=3", &real, NULL, &e);
	ok(d && d->rows == 1 && d->y[0] == 2, "unless options name them: %s", e.msg);
	dataset_free(d);
	/* A model that reads tables as ratings takes no other columns. */
	d = load("a,b,c\n1,2,3\n", "", &rated, NULL, &e);
	ok(d && d->grouped_by_first, "the first three columns: %s", e.msg);
	dataset_free(d);
	refused("a,b,c\n1,2,3\n", "label=c", &rated,
	    "is CSV, but the model needs a user, an item and a rating in each example: name these columns "
	    "by ?user=NAME&item=NAME&rating=NAME");
	refused("a,b,c\n1,2,3\n", "format=csv", &pairs,
	    "is CSV, but the model needs a user and an item in each example");
	refused("{\"user\": 1, \"item\": 2, \"rating\": 3}\n", "", &rated,
	    "is JSON Lines, but the model needs a user, an item and a rating in each example: make a table");
	refused("user,item\n1,2\n3,4\n", "", &rated, "without ratings, use model bpr or warp");
	d = load("3 1:1 9:1\n", "", &rated, NULL, &e);
	ok(d && d->sparse, "but features of other formats: %s", e.msg);
	dataset_free(d);
}

/* Names of columns that other people's tables have, and others that are none. */
static void test_names_of_ratings(void)
{
	static const struct {
		const char *name[5];
		size_t at[3];
	} tables[] = {
		{ { "user_id", "business_id", "stars", "date" }, { 0, 1, 2 } },
		{ { "asin", "reviewerID", "overall", "unixReviewTime" }, { 1, 0, 2 } },
		{ { "item_id:token", "user_id:token", "rating:float" }, { 1, 0, 2 } },
		{ { "User-ID", "ISBN", "Book-Rating" }, { 0, 1, 2 } },
		{ { "brewery_id", "beer_beerid", "review_profilename", "review_overall" },
		    { 2, 1, 3 } },
		{ { "title", "movieId", "userid", "review_score" }, { 2, 1, 3 } },
		{ { "rating_count", "CUSTOMER_NO", "productIds", "rate" }, { 1, 2, 3 } },
		{ { "age", "name", "score" }, { SIZE_MAX, SIZE_MAX, 2 } },
		{ { "user_age", "user_rating", "items" }, { SIZE_MAX, 2, 1 } },
		{ { "userless", "moviemaker", "starship", "" }, { SIZE_MAX, SIZE_MAX, SIZE_MAX } },
	};

	for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
		size_t n = 0, at[3];

		while (n < 5 && tables[i].name[n])
			n++;
		data_ratings_find(tables[i].name, n, at);
		ok(memcmp(at, tables[i].at, sizeof at) == 0, "names of ratings: %s, %s, ...",
		    tables[i].name[0], tables[i].name[1]);
	}
}

/* A line of Criteo's with these three cells filled. */
static void criteo(struct buf *out, const char *label, const char *number, const char *first,
    const char *last)
{
	buf_printf(out, "%s\t%s\t\t\t\t\t\t\t\t\t\t\t\t\t%s", label, number, first);
	for (int i = 0; i < 25; i++)
		buf_printf(out, "\t%s", i == 24 ? last : "");
	buf_puts(out, "\n");
}

static void test_criteo(void)
{
	struct buf text = BUF_INIT;
	struct dataset *d;
	struct err e;

	criteo(&text, "1", "0", "68fd1e64", "68fd1e64");
	criteo(&text, "0", "-2", "68fd1e64", "");
	criteo(&text, "0", "99", "", "");
	d = load((char *)text.data, "format=criteo&bits=10", &two, NULL, &e);
	ok(d && d->rows == 3 && d->fields == 39 && entries(d, 0) == 3 && entry(d, 0, 0, 0, 0, 0) &&
	        entry(d, 1, 0, 0, 0, -log(3)) && entry(d, 2, 0, 0, 0, log(100)) &&
	        entries(d, 1) == 2 && entries(d, 2) == 1,
	    "criteo: logs, what is empty is left out %s", e.msg);
	ok(d && d->field[1] == 13 && d->field[2] == 38 &&
	        d->col[d->start[0] + 1] == d->col[d->start[1] + 1] && d->col[1] != d->col[2] &&
	        d->id[d->col[1]] >= 13 && d->id[d->col[1]] < 13 + 1024 && d->cols <= 13 + 1024,
	    "criteo: categories by column and text, within the bits");
	dataset_free(d);
	refused((char *)text.data, "format=criteo&bits=0", &two,
	    "bits must be a whole number from 1 to 60");
	buf_release(&text);
	refused("1\t2\t3\n", "format=criteo", &two,
	    "expected a label and 39 columns, separated by tabs, got 2");
	criteo(&text, "1", "x", "68fd1e64", "");
	refused((char *)text.data, "format=criteo", &two, "column 2: expected a number, got \"x\"");
	buf_release(&text);
}

static void test_vw(void)
{
	struct err e;
	struct dataset *d =
	    load("1 |user age:2.5 old |item:2 price:.25 red\n-1 1 'tag|user old\n\n-1 | alone\n",
	        "bits=20", &two, NULL, &e);

	ok(d && d->rows == 3 && !d->field && entries(d, 0) == 4 && entries(d, 1) == 1 &&
	        d->col[1] == d->col[4] && (double)d->val[0] == 2.5 && (double)d->val[2] == 0.5 &&
	        (double)d->val[3] == 2 && d->cols <= 1 << 20,
	    "vw: namespaces, scales, tags %s", e.msg);
	dataset_free(d);
	d = load("1 |user a b |item x:2 y |zone z\n-1 |user b\n", "pairs=ui,uu", &two, NULL, &e);
	ok(d && entries(d, 0) == 5 + 4 + 1 && entries(d, 1) == 1 && (double)d->val[5] == 2 &&
	        (double)d->val[6] == 1,
	    "vw: pairs across and within %s", e.msg);
	dataset_free(d);
	d = load("1 |a x |b y |c z\n-1 |a x\n", "pairs=:%3a", &two, NULL, &e);
	ok(d && entries(d, 0) == 3 + 3, "vw: pairs of any %s", e.msg);
	dataset_free(d);
	refused("1 a x\n", "format=vw", &two, "has no |");
	refused("|a x\n", "format=vw", &two, "expected a number as label");
	refused("1 |a x:y\n", "format=vw", &two, "expected feature or feature:value, got \"x:y\"");
	refused("1 |a:z x\n", "format=vw", &two, "expected namespace");
	refused("1 |a x\n", "format=vw&pairs=a", &two, "pairs=a: must be pairs of letters");
	refused("1 |a x\n", "format=vw&pairs=ab,", &two, "must be pairs of letters");
}

static const struct data_want classes = { .classes = true }, any = { .any = true };

/* The value of the one feature that two rows have in common; 0: they have none or several. */
static double common_value(const struct dataset *d, size_t r, size_t other)
{
	double value = 0;
	size_t n = 0;

	for (uint64_t i = d->start[r]; i < d->start[r + 1]; i++)
		for (uint64_t k = d->start[other]; k < d->start[other + 1]; k++)
			if (d->col[i] == d->col[k]) {
				value = (double)d->val[i];
				n++;
			}
	return n == 1 ? value : 0;
}

static void test_fasttext(void)
{
	struct err e;
	struct dataset *d, *other;

	/* The end of the line counts as a word. */
	d = load("\r\n__label__b one two  one\tone\r\n \n__label__a\nword __label__c one\n",
	    "ngrams=1&bits=40", &classes, NULL, &e);
	ok(d && d->rows == 3 && d->classes == 3 && !strcmp(d->class_name[1], "b") &&
	        d->label[0] == 1 && d->label[1] == 0 && d->label[2] == 2 && !d->field &&
	        entries(d, 0) == 3 && (double)d->val[0] == 3 && (double)d->val[1] == 1 &&
	        entries(d, 1) == 1 && entries(d, 2) == 3 && common_value(d, 0, 1) == 1,
	    "fasttext: labels and counts of words, recognized by its first line %s", e.msg);
	dataset_free(d);
	d = load("__label__a x y\n__label__b y x\n__label__a x __label__a y\n", "", &classes, NULL,
	    &e);
	ok(d && entries(d, 0) == 3 + 2 && entries(d, 1) == 3 + 2 && d->cols <= 1 << 20 &&
	        memcmp(d->col, d->col + d->start[2], 5 * sizeof(*d->col)) == 0,
	    "fasttext: pairs of words by default, across a label %s", e.msg);
	dataset_free(d);
	d = load("__label__a x y z\n__label__b w x y v z\n", "ngrams=3&bits=60", &classes, NULL,
	    &e);
	ok(d && entries(d, 0) == 4 + 3 + 2 && entries(d, 1) == 6 + 5 + 4, "fasttext: ngrams=3 %s",
	    e.msg);
	dataset_free(d);
	d = load("__label__a x y x\n__label__b y x\n", "ngrams=16&bits=3&format=fasttext", &classes,
	    NULL, &e);
	ok(d && d->cols <= 8 && d->nids <= 8, "fasttext: bits=3 %s", e.msg);
	other = load("x y\n\nnew words __label__b\n", "format=fasttext", &any, NULL, &e);
	ok(other && other->rows == 2 && entries(other, 0) == 5 && entries(other, 1) == 5,
	    "fasttext: without labels, where they do not count %s", e.msg);
	dataset_free(other);
	dataset_free(d);
	d = load("__label__1 x\n__label__0 y\n", "", &two, NULL, &e);
	ok(d && d->y && (double)d->y[0] == 1 && (double)d->y[1] == 0, "fasttext: two classes %s",
	    e.msg);
	dataset_free(d);
	refused("__label__a x\nx y\n", "", &classes,
	    ":2: has no label: a word that begins with __label__");
	refused("__label__ x\n", "", &classes, ":1: the label is empty");
	refused("__label__a x\n", "", &real, "expected a number as label, got \"a\"");
	refused("__label__a x\n", "ngrams=17", &classes,
	    "ngrams must be a whole number from 1 to 16");
}

/* Each of several labels is drawn about equally often, and a line always gets the same one. */
static void test_several_labels(void)
{
	struct buf text = BUF_INIT;
	struct dataset *d, *again;
	size_t n[3] = { 0 };
	struct err e;

	for (int i = 0; i < 3000; i++)
		buf_printf(&text, "__label__a __label__b word%d __label__c\n", i);
	d = load((char *)text.data, "", &classes, NULL, &e);
	again = load((char *)text.data, "", &classes, NULL, &e);
	for (size_t r = 0; d && r < d->rows; r++)
		n[d->label[r]]++;
	ok(n[0] > 900 && n[1] > 900 && n[2] > 900,
	    "fasttext: several labels are drawn %zu, %zu and %zu times %s", n[0], n[1], n[2],
	    e.msg);
	ok(d && again && memcmp(d->label, again->label, 3000 * sizeof(*d->label)) == 0,
	    "fasttext: and the same ones when the file is read again");
	dataset_free(d);
	dataset_free(again);
	buf_release(&text);
}

/* ---- classes that are codes ---- */

/* A label with leading zeros is a name: 007, 7 and 08 are three classes. */
static void check_codes(const char *what, const char *text, const char *options)
{
	struct err e;
	struct dataset *d = load(text, options, &classes, NULL, &e), *eval = NULL;

	ok(d && d->classes == 3 && !strcmp(d->class_name[0], "007") &&
	        !strcmp(d->class_name[1], "08") && !strcmp(d->class_name[2], "7"),
	    "%s: a class keeps its zeros %s", what, e.msg);
	if (d)
		eval = load(text, options, &classes, d, &e);
	ok(eval && memcmp(eval->label, d->label, d->rows * sizeof *d->label) == 0,
	    "%s: in evaluation data, too %s", what, e.msg);
	dataset_free(eval);
	dataset_free(d);
}

static void test_codes(void)
{
	struct dataset *d, *eval;
	struct err e;

	check_codes("csv", "1,007\n2,7\n3,08\n4,007\n", "format=csv");
	check_codes("csv with a heading", "x,y\n1,007\n2,7\n3,08\n", "label=y");
	check_codes("libsvm", "007 1:1\n7 1:2\n08 2:3\n", "format=libsvm");
	check_codes("jsonl", "{\"x\":1,\"y\":\"007\"}\n{\"x\":2,\"y\":7}\n{\"x\":3,\"y\":\"08\"}\n",
	    "label=y");
	check_codes("fasttext", "__label__007 a\n__label__7 b\n__label__08 c\n", "");
	d = load("1,7\n2,8\n", "format=csv", &classes, NULL, &e);
	eval = d ? load("2,08\n1,007\n", "format=csv", &classes, d, &e) : NULL;
	ok(eval && eval->label[0] == 1 && eval->label[1] == 0,
	    "a code is a number where the training data have no such name %s", e.msg);
	dataset_free(eval);
	dataset_free(d);
	d = load("1,00.5\n2,1\n", "format=csv", &real, NULL, &e);
	ok(d && !d->classes && d->y[0] == 0.5f, "real targets are numbers %s", e.msg);
	dataset_free(d);
}

/* ---- weights ---- */

/* Three examples with the weights 2, 1 (not written) and 0, whose mean is 1; of evaluation data two
 * with 5 and 1. */
static void check_weights(const char *text, const char *eval, const char *options, bool third_is_1)
{
	const struct data_want *want = strstr(options, "ratings") ? &real : &two;
	struct dataset *d, *other, *of;
	json_t *facts;
	struct err e;

	d = load(text, options, want, NULL, &e);
	ok(d && d->rows == 3 && d->weight && d->weight[0] == (third_is_1 ? 1.5f : 2) &&
	        d->weight[1] == (third_is_1 ? 0.75f : 1) &&
	        d->weight[2] == (third_is_1 ? 0.75f : 0),
	    "%s: weights have the mean 1: %s", options, e.msg);
	other = load(eval, options, want, d, &e);
	ok(other && other->weight && d &&
	        fabs((double)other->weight[0] - 5 * (double)d->weight_factor) < 1e-6 &&
	        fabs((double)other->weight[1] - (double)d->weight_factor) < 1e-6,
	    "%s: those of evaluation data have the same unit: %s", options, e.msg);
	dataset_free(other);
	facts = d ? data_facts(d) : NULL;
	of = NULL;
	ok(facts && data_of_facts(facts, &of, &e) == ERR_OK &&
	        of->weight_factor == d->weight_factor,
	    "%s: the facts of the data have the factor", options);
	dataset_free(of);
	json_decref(facts);
	dataset_free(d);
}

static void test_weights(void)
{
	struct dataset *d;
	struct err e;

	check_weights("1 2 |a x\n-1 |a y\n-1 0 'tag|a x\n", "1 5 |a x\n-1 1 |a x\n", "format=vw",
	    false);
	check_weights("1:2 3:1\n0 4:1\n1:0 3:1\n", "1:5 3:1\n0:1 4:1\n",
	    "format=libsvm&weight=label", false);
	check_weights("1:2 0:3:1\n0 1:4:1\n1:0 0:3:1\n", "1:5 0:3:1\n0:1 0:4:1\n",
	    "format=ffm&weight=label", false);
	check_weights("u,i,r,w\n1,1,3,2\n1,2,4,1\n2,1,5,1\n", "u,i,r,w\n1,1,3,5\n1,1,3,1\n",
	    "format=ratings&weight=w", true);
	d = load("1 |a x\n-1 |a y\n", "format=vw", &two, NULL, &e);
	ok(d && !d->weight, "vw: no weights without importance");
	dataset_free(d);
	d = load("1:2 3:1\n", "format=libsvm&weight=label", &any, NULL, &e);
	ok(d && entries(d, 0) == 1 && entry(d, 0, 0, 2, -1, 1),
	    "libsvm: a weight is no feature where labels do not count, either: %s", e.msg);
	dataset_free(d);
	refused("1 0 |a x\n", "format=vw", &two, "all weights are 0");
	refused("1:-1 3:1\n", "weight=label", &two,
	    ":1: expected a weight of at least 0 after the label, got \"-1\"");
	refused("1:2 3:1\n", "format=libsvm", &two, "expected a number as label");
	refused("1 3:1\n", "weight=w", &two,
	    "weight=w: must be label; this format has weights after the labels");
	refused("1,2,3,x\n", "format=ratings&weight=4", &real,
	    ":1:4: expected a number of at least 0 as weight, got \"x\"");
}

/* ---- options of the training data ---- */

/* A description of training data, as it is stored with a model. */
static struct dataset *describe(const char *text, const char *options, const struct data_want *want)
{
	struct err e;
	struct dataset *d = load(text, options, want, NULL, &e), *of = NULL;
	json_t *facts = d ? data_facts(d) : NULL;

	if (!facts || data_of_facts(facts, &of, &e))
		printf("# %s: %s\n", options, e.msg);
	json_decref(facts);
	dataset_free(d);
	return of;
}

/* Are the same values read with the training data's options given again, and not given? */
static void taken_over(const char *train, const char *eval, const char *format, const char *options,
    const struct data_want *want)
{
	char all[200];
	struct dataset *like, *plain, *given;
	struct err e, f;

	snprintf(all, sizeof all, "%s&%s", format, options);
	like = describe(train, all, want);
	given = load(eval, all, want, like, &e);
	plain = load(eval, format, want, like, &f);
	ok(given && plain && given->start[given->rows] == plain->start[plain->rows] &&
	        memcmp(given->val, plain->val, given->start[given->rows] * sizeof *given->val) ==
	            0 &&
	        given->nids == plain->nids &&
	        memcmp(given->id, plain->id, given->nids * sizeof *given->id) == 0 &&
	        (!given->y || memcmp(given->y, plain->y, given->rows * sizeof *given->y) == 0),
	    "%s is taken over: %s%s", all, e.msg, f.msg);
	dataset_free(plain);
	dataset_free(given);
	dataset_free(like);
}

/* Are evaluation data with these options refused, and the option and its remedy named? */
static void contradicts(const char *text, const char *train, const char *eval,
    const struct data_want *want, const char *why)
{
	struct dataset *like = describe(text, train, want), *d;
	struct err e;

	d = load(text, eval, want, like, &e);
	ok(like && !d && e.code == ERR_CONFIG && strstr(e.msg, why), "%s on %s: %s", eval, train,
	    d ? "is read" : e.msg);
	dataset_free(d);
	dataset_free(like);
}

static void test_options_of_training(void)
{
	static const char ratings[] = "u,i,t,r\n1,1,9,3\n1,2,9,4\n2,1,9,5\n",
	                  vw[] = "1 |a x |b y\n-1 |a z |b w\n",
	                  table[] = "a,b,y\n1,x,0\n2,z,1\n3,x,1\n";
	const struct data_want scaled = { .two = true, .scale = "auto" };
	struct dataset *like, *d;
	struct err e;

	taken_over(vw, vw, "format=vw", "bits=10", &two);
	taken_over(vw, vw, "format=vw", "pairs=ab", &two);
	taken_over("1 1:3 2:4\n0 1:4 2:-3\n", "1 1:6 2:4\n", "format=libsvm", "norm=l2", &two);
	taken_over("__label__a x y\n__label__b z\n", "__label__a x y z\n", "format=fasttext",
	    "ngrams=1&bits=12", &two);
	taken_over(ratings, ratings, "format=ratings", "user=u&item=i&rating=r", &real);
	taken_over(ratings, ratings, "user=u&item=i&rating=r", "positive=4", &real);
	taken_over("1:2 3:1\n0 4:1\n", "1:2 3:1\n0 4:1\n", "format=libsvm", "weight=label", &two);
	contradicts(vw, "format=vw&bits=10", "format=vw&bits=11", &two, "bits=10");
	contradicts(vw, "format=vw", "format=vw&bits=11", &two, "bits=18");
	contradicts(vw, "format=vw", "format=vw&pairs=ab", &two, "remove it");
	contradicts("1 1:3\n0 1:2\n", "format=libsvm", "format=libsvm&norm=l2", &two, "remove it");
	contradicts(table, "label=y", "label=y&scale=standard", &two, "scale=none");
	contradicts(table, "label=y&scale=minmax", "label=y&scale=standard", &two, "scale=minmax");
	contradicts(table, "label=y&categories=b", "label=y&categories=a", &two, "\"a\"");
	contradicts(table, "label=y&ignore=b", "label=y&ignore=a", &two, "\"a\"");
	contradicts(table, "label=y&id=b", "label=y&weight=a", &two, "\"a\"");
	like = describe(table, "label=y&scale=auto&categories=b&missing=mean", &scaled);
	d = load(table, "label=y&scale=auto&categories=b&missing=mean", &scaled, like, &e);
	ok(d && d->rows == 3, "the same options are no contradiction: %s", e.msg);
	dataset_free(d);
	d = load("1,x\n2,z\n", "", &(struct data_want){ .any = true }, like, &e);
	ok(d && d->rows == 2, "a file without labels is read without label=: %s", e.msg);
	dataset_free(d);
	dataset_free(like);
	like = describe(ratings, "user=u&item=i&rating=r", &real);
	d = load("u,i\n1,2\n", "", &(struct data_want){ .any = true, .tables = "ratings" }, like,
	    &e);
	ok(d && d->rows == 1 && entries(d, 0) == 2, "ratings are not needed to predict: %s", e.msg);
	dataset_free(d);
	dataset_free(like);
}

/* An option that the format does not have is refused by its name. */
static void test_unknown_options(void)
{
	refused("1 1:1\n", "ignore=1", &two, "no option ignore= (jsonl, csv)");
	refused("1 1:1\n", "bits=10", &two, "no option bits=");
	refused("1 |a x\n", "format=vw&weight=2", &two, "no option weight=");
	refused("1 0:1:1\n", "format=ffm&index_base=1", &two, "no option index_base= (libsvm)");
	refused("a,y\n1,2\n", "positive=3", &two, "no option positive= (ratings)");
	refused("__label__a x\n", "norm=l2", &two, "no option norm=");
}

/* ---- words ---- */

static bool is_word(const struct dataset *d, size_t i, const char *name, uint64_t count)
{
	return i < dataset_words(d)->n && strcmp(dataset_words(d)->name[i], name) == 0 &&
	    dataset_words(d)->count[i] == count;
}

static void test_vocabulary(void)
{
	struct data_want want = words;
	struct dataset *eval, *again, *d;
	struct err e;

	d = load("The cat's the CAT.\nThe 'dog' -- cat\n\ncat, caf\xc3\xa9 zebra", "min_count=1",
	    &words, NULL, &e);
	ok(d && d->rows == 10 && dataset_words(d)->n == 6 && is_word(d, 0, "cat", 3) &&
	        is_word(d, 1, "the", 3) && is_word(d, 2, "caf\xc3\xa9", 1) &&
	        is_word(d, 3, "cat's", 1),
	    "text: words by how frequent they are, then by bytes %s", e.msg);
	ok(d && dataset_words(d)->at[0] == (1 | DATA_WORDS_FIRST) && dataset_words(d)->at[4] == 1 &&
	        dataset_words(d)->at[7] == (0 | DATA_WORDS_FIRST),
	    "text: paragraphs");
	eval = load("zebra\n\nunheard cat", "min_count=9", &words, d, &e);
	ok(eval && eval->rows == 2 && dataset_words(eval)->n == 6 &&
	        (dataset_words(eval)->at[1] & ~DATA_WORDS_FIRST) == 0 &&
	        dataset_words(eval)->at[1] != 0,
	    "text: evaluation by the words of the training %s", e.msg);
	dataset_free(eval);
	want.base = d;
	eval = load("zebra dog new new New\n\nold bird bird cat", "min_count=2", &want, NULL, &e);
	ok(eval && dataset_words(eval)->n == 8 && is_word(eval, 0, "cat", 3) &&
	        is_word(eval, 6, "new", 3) && is_word(eval, 7, "bird", 2) && eval->rows == 8,
	    "text: new words come behind those of a model %s", e.msg);
	want.base = eval;
	again = load("zebra dog new new New\n\nold bird bird cat", "min_count=2", &want, NULL, &e);
	ok(again && dataset_words(again)->n == 8 && is_word(again, 7, "bird", 2) &&
	        again->rows == 8 &&
	        memcmp(dataset_words(again)->at, dataset_words(eval)->at,
	            8 * sizeof *dataset_words(again)->at) == 0,
	    "text: once %s", e.msg);
	dataset_free(again);
	dataset_free(eval);
	dataset_free(d);
	d = load("a b a c a b\n", "min_count=2", &words, NULL, &e);
	ok(d && d->rows == 5 && dataset_words(d)->n == 2 && is_word(d, 0, "a", 3),
	    "text: rare words are left out %s", e.msg);
	dataset_free(d);
	refused("a b c\n", "min_count=2", &words, "has no word that occurs 2 times");
	refused("1 1:2\n", "format=libsvm", &words, "the model needs plain text");
	refused("a b c\n", "format=text", &two, "requires job.model word2vec");
	refused("a b c\n", "norm=l2&min_count=1", &words, "is text, which has no option norm=");
}

/* The field of entry i of the batch's first example, and its word. */
static bool has(const struct batch *b, uint32_t i, unsigned field, uint64_t word)
{
	return b->field[i] == field && b->id[b->col[i]] == 2 * word + (field != DATA_WORDS_GIVEN);
}

static void test_batches(void)
{
	static const uint32_t second[] = { 1 }, both[] = { 5, 1 };
	struct batch b = { 0 }, again = { 0 };
	struct err e;
	/* a: 0, b: 1, c: 2, d: 3 */
	struct dataset *d = load("a b c d\n\nd a b c a b a\n",
	    "min_count=1&window=1&negatives=2&sample=0", &words, NULL, &e);
	size_t near = 0, drawn = 0;
	bool good = true, same = true;

	ok(d && data_gather(d, second, 1, &b, &e) == ERR_OK && has(&b, 0, DATA_WORDS_GIVEN, 1) &&
	        has(&b, 1, DATA_WORDS_NEAR, 0),
	    "words: a word, then its neighbour %s", e.msg);
	for (b.epoch = 0; b.epoch < 100; b.epoch++) {
		data_gather(d, second, 1, &b, &e);
		for (uint32_t i = 1; i < b.start[1]; i++) {
			near += b.field[i] == DATA_WORDS_NEAR;
			drawn += b.field[i] == DATA_WORDS_DRAWN;
			good &= b.field[i] != DATA_WORDS_NEAR || has(&b, i, DATA_WORDS_NEAR, 0) ||
			    has(&b, i, DATA_WORDS_NEAR, 2);
		}
		again.epoch = b.epoch;
		data_gather(d, both, 2, &again, &e);
		same &= again.start[2] - again.start[1] == b.start[1];
	}
	ok(good && near == 200 && drawn > 200 && drawn < 400,
	    "words: neighbours within the window and words drawn beside them (%zu, %zu)", near,
	    drawn);
	ok(same, "words: a batch's others change nothing");
	dataset_free(d);
	d = load("a a a a a a a a a b\n", "min_count=1&sample=0.01", &words, NULL, &e);
	for (b.epoch = near = 0; b.epoch < 1000; b.epoch++) {
		data_gather(d, second, 1, &b, &e);
		near += b.start[1] > 0;
	}
	/* (sqrt(90) + 1) / 90 */
	ok(near > 80 && near < 160,
	    "words: frequent ones are thinned out (%zu of 1000, 117 expected)", near);
	dataset_free(d);
	batch_release(&b);
	batch_release(&again);
}

int main(void)
{
	test_marks();
	test_limits();
	test_ffm();
	test_ratings();
	test_columns_of_ratings();
	test_names_of_ratings();
	test_criteo();
	test_vw();
	test_fasttext();
	test_several_labels();
	test_codes();
	test_weights();
	test_options_of_training();
	test_unknown_options();
	test_vocabulary();
	test_batches();
	return tap_done();
}
