/* SPDX-License-Identifier: ISC */
/* The push parser of each format of text: the examples do not depend on the pieces in which the
 * bytes come. */
#include "table_fixture.h"

#include "core/buf.h"
#include "core/mem.h"
#include "data/batch/data_words.h"
#include "data/reader/data_bad_lines.h"
#include "data/reader/data_parser.h"

static const struct {
	const char *format, *text;
	const struct data_want *want;
} texts[] = {
	{ "csv", "a,b,y\n1,2,3\n\n4,5,6\r\n7,8,9", &real },
	{ "csv", "# made by hand\nname,size,y\n\"a\nb\",1,0\nx,2,1\n\"c,\n\n\"\"d\",3,1\nx,4,0\n",
	    &real },
	{ "csv",
	    "\xef\xbb\xbf"
	    "1;2;3\n4;5;6\n",
	    &real },
	{ "libsvm", "1 1:2 3:4.5\n# nothing\n-1 2:1\n\n1 7:3 # end\n", &two },
	{ "ffm", "1 0:1:2 3:4:0.5\n0 1:1:1\n", &two },
	{ "vw", "1 |a x:2 y |b z\n-1 2 'tag|a y\n", &two },
	{ "fasttext", "__label__a one two three\n__label__b two\n\n__label__a three one", &two },
	{ "jsonl",
	    "{\"x\": 1, \"y\": 2, \"t\": \"a\"}\n{\"y\": 3, \"x\": 4, \"t\": \"b\"}\n\n"
	    "{\"y\": 5, \"x\": 6, \"t\": \"a\"}\n",
	    &real },
	{ "ratings", "userId,movieId,rating\n1,2,3.5\nbob,7,4\n", &real },
	{ "criteo",
	    "1\t1\t2\t\t4\t5\t6\t7\t8\t9\t10\t11\t12\t13\ta\tb\tc\td\te\tf\tg\th\ti\tj\tk\tl\tm\tn\to"
	    "\tp\tq\tr\ts\tt\tu\tv\tw\tx\ty\tz\n"
	    "0\t\t2\t3\t4\t5\t6\t7\t8\t9\t10\t11\t12\t13\ta\tb\tc\td\te\tf\tg\th\ti\tj\tk\tl\tm\tn\to"
	    "\tp\tq\tr\ts\tt\tu\tv\tw\tx\ty\t\n",
	    &two },
};

static bool same_bytes(const void *a, const void *b, size_t n)
{
	return n == 0 || (!a && !b) || (a && b && memcmp(a, b, n) == 0);
}

static bool same_data(const struct dataset *a, const struct dataset *b)
{
	size_t values = !a ? 0 : a->sparse ? a->start[a->rows] : a->rows * a->cols;

	return a && b && a->rows == b->rows && a->cols == b->cols && a->sparse == b->sparse &&
	    a->nids == b->nids && a->reading.heading == b->reading.heading &&
	    a->reading.separator == b->reading.separator &&
	    same_bytes(a->x, b->x, values * sizeof *a->x) &&
	    same_bytes(a->start, b->start, (a->rows + 1) * sizeof *a->start) &&
	    same_bytes(a->col, b->col, values * sizeof *a->col) &&
	    same_bytes(a->val, b->val, values * sizeof *a->val) &&
	    same_bytes(a->y, b->y, a->rows * sizeof *a->y) &&
	    same_bytes(a->label, b->label, a->rows * sizeof *a->label);
}

/* Feeds n bytes in pieces of `step` bytes, each in memory of its own. */
static enum err_code feed(struct data_parser *p, const char *text, size_t n, size_t step,
    struct err *e)
{
	enum err_code rc = ERR_OK;

	for (size_t at = 0; !rc && at < n; at += step) {
		size_t k = n - at < step ? n - at : step;
		char *piece = mem_alloc(k + STREAM_PAD + 1);

		memcpy(piece, text + at, k);
		rc = data_parser_feed(p, piece, k, e);
		memset(piece, 'x', k);
		free(piece);
	}
	return rc;
}

/* The examples of a text that comes in pieces; NULL: an error. */
static struct dataset *load_pieces(const char *text, const char *format, size_t step,
    const struct data_want *want, struct err *e)
{
	struct data_options o = DATA_OPTIONS_INIT;
	struct data_build *b = data_build_new(want, NULL, NULL);
	struct data_parser *p;
	struct dataset *d = NULL;
	enum err_code rc;

	*e = (struct err){ 0 };
	o.format = (char *)(uintptr_t)format;
	p = data_parser_new("text", &o);
	data_parser_begin(p, b);
	rc = feed(p, text, strlen(text), step, e);
	if (!rc)
		rc = data_parser_end(p, true, e);
	if (!rc)
		data_build_finish(b, &d, e);
	data_parser_free(p);
	data_build_free(b);
	return d;
}

static void test_pieces(void)
{
	struct err e, e2;

	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		char options[40];
		struct dataset *whole, *one;
		size_t step = 1, n = strlen(texts[i].text);

		snprintf(options, sizeof options, "format=%s", texts[i].format);
		whole = load(texts[i].text, options, texts[i].want, NULL, &e);
		for (; step <= n; step++) {
			bool same;

			one = load_pieces(texts[i].text, texts[i].format, step, texts[i].want, &e2);
			same = same_data(whole, one);
			dataset_free(one);
			if (!same)
				break;
		}
		ok(step > n, "%s in pieces of 1 to %zu bytes: %s%s", texts[i].format, n, e.msg,
		    step > n ? "" : e2.msg);
		dataset_free(whole);
	}
}

static bool same_words(const struct dataset *a, const struct dataset *b)
{
	const struct data_words *x = a ? dataset_words(a) : NULL, *y = b ? dataset_words(b) : NULL;
	bool good = x && y && x->n == y->n && x->length == y->length &&
	    memcmp(x->at, y->at, x->length * sizeof *x->at) == 0;

	for (size_t i = 0; good && i < x->n; i++)
		good = strcmp(x->name[i], y->name[i]) == 0 && x->count[i] == y->count[i];
	return good;
}

/* Plain text has no lines: a word may lie in several pieces, and an apostrophe at the end of
 * one. */
static void test_words(void)
{
	static const struct data_want words = { .words = true };
	static const char text[] =
	    "It's the dogs' cat.\n\nthe CAT it's 'the' cat\r\n \nit's the cat the it's cat dogs "
	    "dogs it's dogs dogs\xc3\xa9 dogs";
	struct err e;
	struct dataset *whole = load(text, "format=text", &words, NULL, &e), *one;
	size_t step = 1;
	bool same = true;

	for (; same && step < sizeof text; step++) {
		one = load_pieces(text, "text", step, &words, &e);
		same = same_words(whole, one);
		dataset_free(one);
	}
	ok(same && whole->rows == 20 && dataset_words(whole)->n == 4,
	    "plain text in pieces of any size %s", e.msg);
	dataset_free(whole);
}

/* A text that is longer than what the format looks at, and comes in pieces that are shorter and
 * longer. */
static void test_long_text(void)
{
	static const size_t step[] = { 5, 4096, 65536, 65537, 300000 };
	struct buf text = BUF_INIT;
	struct err e;
	struct dataset *whole, *one;
	bool same = true;

	buf_puts(&text, "a,b,c,y\n");
	for (int i = 0; i < 20000; i++)
		buf_printf(&text, "%d,%s,%g,%d\n", i, i % 3 ? "red" : "blue", i / 7.0, i % 2);
	whole = load((char *)text.data, "", &real, NULL, &e);
	for (size_t i = 0; i < sizeof step / sizeof *step; i++) {
		one = load_pieces((char *)text.data, NULL, step[i], &real, &e);
		same = same && same_data(whole, one);
		dataset_free(one);
	}
	ok(same && whole->rows == 20000, "a long table in pieces of any size %s", e.msg);
	dataset_free(whole);
	buf_release(&text);
}

static void test_errors(void)
{
	static const char bad[] = "1,2,3\n4,5,6\n7,x,9\n1,2,3\n", open[] = "1,2,3\n4,5,\"6\n7\n";
	struct err e;
	struct data_bad_lines *skip = data_bad_lines_new(1, NULL);
	struct data_want want = { .bad = skip };
	struct dataset *d;
	bool named = true;

	for (size_t step = 1; step < sizeof bad; step++)
		named = named && !load_pieces(bad, "csv", step, &real, &e) &&
		    strncmp(e.msg, "text:3:2: ", 10) == 0;
	ok(named, "an error names the line and the column: %s", e.msg);
	named = true;
	for (size_t step = 1; step < sizeof open; step++)
		named = named && !load_pieces(open, "csv", step, &real, &e) &&
		    strncmp(e.msg, "text:2:3: ", 10) == 0;
	ok(named, "a quoted cell that does not end: %s", e.msg);
	d = load_pieces(bad, "csv", 3, &want, &e);
	ok(d && d->rows == 3 && d->reading.skipped == 1, "a bad line is skipped %s", e.msg);
	dataset_free(d);
	data_bad_lines_free(skip);
	ok(!load_pieces("", NULL, 1, &real, &e), "no bytes, no examples");
	ok(!load_pieces("\x93NUMPY\x01\x00", "npy", 3, &real, &e) &&
	        strstr(e.msg, "npy, which cannot be read as it arrives"),
	    "%s", e.msg);
}

/* Counts the examples of a build, and frees it. */
static size_t count(struct data_build *b)
{
	size_t n = data_build_count(b);

	data_build_free(b);
	return n;
}

/* A text whose examples go to several builds: the heading and what is open between two builds stay. */
static void test_builds(void)
{
	static const char first[] = "a,b,y\n1,2,3\n4,\"5\n", second[] = "\",6\n7,8,9\n1,2",
	                  third[] = ",3\n";
	struct data_options o = DATA_OPTIONS_INIT;
	struct data_parser *p;
	struct data_build *b[3];
	struct err e = { 0 };
	enum err_code rc;

	o.ignore = (char *)(uintptr_t) "b";
	p = data_parser_new("text", &o);
	for (int i = 0; i < 3; i++)
		b[i] = data_build_new(&real, NULL, NULL);
	data_parser_begin(p, b[0]);
	rc = feed(p, first, strlen(first), 4, &e);
	rc = rc ? rc : data_parser_end(p, false, &e);
	ok(!rc && b[0]->d->reading.heading == 1 && data_parser_held(p) == 0,
	    "the first build ends within a record %s", e.msg);
	data_parser_begin(p, b[1]);
	data_parser_limit(p, 1);
	rc = feed(p, second, strlen(second), 100, &e);
	ok(!rc, "a second build begins %s", e.msg);
	rc = data_parser_end(p, false, &e);
	ok(!rc && data_build_count(b[1]) == 1 && data_parser_has_line(p) &&
	        data_parser_held(p) == 9,
	    "its limit holds a line back %s", e.msg);
	data_parser_begin(p, b[2]);
	rc = feed(p, third, strlen(third), 1, &e);
	rc = rc ? rc : data_parser_end(p, true, &e);
	ok(!rc && data_build_count(b[2]) == 2 && data_parser_held(p) == 0,
	    "the third has the rest %s", e.msg);
	data_parser_free(p);
	ok(count(b[0]) == 1 && count(b[1]) == 1 && count(b[2]) == 2, "four examples");
}

int main(void)
{
	test_pieces();
	test_words();
	test_long_text();
	test_errors();
	test_builds();
	return tap_done();
}
