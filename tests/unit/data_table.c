/* SPDX-License-Identifier: ISC */
/* Tables with text, missing cells and scaled numbers. */
#include "table_fixture.h"

#include <unistd.h>

#include "core/buf.h"
#include "core/log.h"
#include "data/table/data_schema.h"
#include "data/table/data_unseen.h"
#include "worker/data_facts.h"

static const char people[] = "age,city,fee,paid\n"
                             "30,Paris,1,yes\n"
                             "50,\"New York, NY\",,no\n"
                             "?,Paris,3,yes\n"
                             "40, Rome ,2,no\n";

static void categories(void)
{
	struct err e;
	struct dataset *d = load(people, "", &two, NULL, &e);

	ok(d && d->rows == 4 && d->cols == 5, "two numbers and three cities: %s", d ? "" : e.msg);
	ok(ROW(d, 0, 30, 1, 0, 1, 0), "a city is 1 at its own feature");
	ok(ROW(d, 1, 50, 2, 1, 0, 0), "an empty number is the mean of the others");
	ok(ROW(d, 2, 40, 3, 0, 1, 0), "so is a question mark");
	ok(ROW(d, 3, 40, 2, 0, 0, 1), "blanks around a cell do not count");
	ok(d && strcmp(d->feature_name[0], "age") == 0 &&
	        strcmp(d->feature_name[2], "city=New York, NY") == 0 &&
	        strcmp(d->feature_name[4], "city=Rome") == 0,
	    "features have names");
	ok(d && strcmp(d->class_name[1], "yes") == 0 && d->y[0] == 1 && d->y[1] == 0,
	    "labels may be text");
	dataset_free(d);
	d = load(people, "missing=zero", &two, NULL, &e);
	ok(ROW(d, 1, 50, 0, 1, 0, 0), "missing=zero");
	dataset_free(d);
	d = load(people, "ignore=fee,1", &two, NULL, &e);
	ok(d && ROW(d, 3, 0, 0, 1), "columns are left out by name or number");
	dataset_free(d);
	d = load("zip,y\n10,1\n20,2\n10,3\n", "categories=zip", &real, NULL, &e);
	ok(ROW(d, 0, 1, 0) && ROW(d, 1, 0, 1) && strcmp(d->feature_name[1], "zip=20") == 0,
	    "numbers can be categories");
	dataset_free(d);
	d = load("7,a,1\n8,b,2\n", "columns=n,kind,y&label=y", &real, NULL, &e);
	ok(ROW(d, 1, 8, 0, 1) && strcmp(d->feature_name[2], "kind=b") == 0,
	    "columns= names the columns of a file without a header");
	dataset_free(d);
}

static void headers(void)
{
	struct err e;
	struct dataset *d = load("cap,smell,edible\nflat,none,yes\nbell,foul,no\nflat,foul,no\n",
	    "", &two, NULL, &e);

	ok(d && d->rows == 3 && strcmp(d->feature_name[0], "cap=bell") == 0,
	    "a row of text that does not come again is a header");
	dataset_free(d);
	d = load("flat,none,yes\nbell,foul,no\nflat,foul,no\n", "", &two, NULL, &e);
	ok(d && d->rows == 3 && strcmp(d->feature_name[0], "1=bell") == 0,
	    "a row of text that comes again is none");
	dataset_free(d);
}

/* Cells between tabs are never quoted by many programs, and a few have quotes. */
static void tabs(void)
{
	struct err e;
	struct dataset *d = load("n\tkind\ty\n1\t\"big\" one\t0\n2\t\"big\"\t1\n3\tsize 5\" x\t0\n"
	                         "4\t\"a\tb\" c\t1\n5\t\"big\" one\t0\n",
	    "", &two, NULL, &e);

	ok(d && d->rows == 5 && d->cols == 5 &&
	        strcmp(d->feature_name[1], "kind=\"a\tb\" c") == 0 &&
	        strcmp(d->feature_name[2], "kind=\"big\" one") == 0 &&
	        strcmp(d->feature_name[3], "kind=big") == 0 &&
	        strcmp(d->feature_name[4], "kind=size 5\" x") == 0,
	    "text behind a closing quote makes quotes text: %s", d ? "" : e.msg);
	dataset_free(d);
	refused("n\tkind\ty\n1\tbig\t0\n2\t\"big one\t1\n3\tbig\t0\n", "", NULL,
	    "text:3:2: a quoted cell does not end; remove its quote");
	refused("n\tkind\ty\n1\t\"big one\t0\n2\tbig\t0\n3\t\"big one\t1\n3\tbig\t0\n", "", NULL,
	    "text:2:2: the quotes of the cell do not match");
}

/* An error says where it is and what helps. */
static void places(void)
{
	static const char nul[] = "a,b,y\n1,x,2\n3,z\0,4\n";
	struct dataset *d = NULL;
	struct err e;
	struct stream *s;

	refused("a,b,y\n", "", NULL, "text: has no examples below its header");
	refused("a,b,y\n1,x,\n2,z,\n", "", NULL,
	    "no row has a label, because the column is empty; name another one by ?label=");
	refused("a,w,w\n1,2,3\n4,5,6\n", "label=w", NULL,
	    "text:1:3: is a second column named \"w\"; give the number of the label, and leave the other "
	    "column out, as label=2&ignore=3");
	refused("1,2\n3,4\n89087528188215471201022361137399795210909087528188215,6\n", "", NULL,
	    "?ignore=1 leaves the column out");
	refused("a,b,y\n1,2,3\n1,2,3,\n", "", NULL,
	    "text:3: has 4 columns, but the first line has 3; put a cell that contains the separator into "
	    "double quotes");
	if (stream_memory(nul, sizeof nul - 1, "text", &s, &e))
		abort();
	ok(data_load_stream(s, &(struct data_options)DATA_OPTIONS_INIT, &two, NULL, &d, &e) ==
	            ERR_FORMAT &&
	        strstr(e.msg, "text:3: holds a NUL byte; if this is a text file, tr -d '\\000'"),
	    "a NUL byte among text: %s", e.msg);
	stream_close(s);
	dataset_free(d);
}

static void gaps(void)
{
	struct err e;
	struct dataset *d = load("1,2,3\n4,,6\n", "", &real, NULL, &e);

	ok(ROW(d, 1, 4, 2), "an empty cell among mere numbers");
	dataset_free(d);
	d = load("NA,2,3\n4,5,7\n", "", &real, NULL, &e);
	ok(d && d->rows == 2 && ROW(d, 0, 4, 2), "a missing value is no header");
	dataset_free(d);
	refused("1,2,3\n4,spam,6\n1,2,3\n", "", NULL, "text:2:2: expected a number, got \"spam\"");
	refused("1,2,x,3\n4,spam,y,6\n1,2,y,3\n", "", NULL,
	    "text:2:2: \"spam\" in the column of numbers \"2\"");
}

static void scales(void)
{
	static const char text[] = "a,b,y\n1000000,0.001,1\n3000000,0.003,2\n2000000,0.002,3\n";
	double s = sqrt(1.5);
	struct err e;
	struct dataset *d = load(text, "scale=standard", &real, NULL, &e), *v;

	ok(ROW(d, 0, -s, -s) && ROW(d, 1, s, s) && ROW(d, 2, 0, 0), "scale=standard: %s",
	    d ? "" : e.msg);
	v = load("a,b,y\n5000000,0.001,1\n", "", &real, d, &e);
	ok(ROW(v, 0, 3 * s, -s), "evaluation data take the training data's scaling");
	dataset_free(v);
	dataset_free(d);
	d = load(text, "scale=minmax", &real, NULL, &e);
	ok(ROW(d, 0, 0, 0) && ROW(d, 1, 1, 1) && ROW(d, 2, 0.5, 0.5), "scale=minmax");
	dataset_free(d);
	d = load("a,y\n5,1\n5,2\n", "scale=standard", &real, NULL, &e);
	ok(ROW(d, 0, 0) && ROW(d, 1, 0), "a column with one value becomes 0");
	dataset_free(d);
}

/* 200 rows of three columns between -1 and 1: the first one is near 0 but in the first row and the last one,
 * the others are 0 but in the first row, where one has a whole number and one a fraction. */
static struct dataset *load_tails(const struct data_want *want, struct err *e)
{
	struct buf text = BUF_INIT;
	struct dataset *d;

	for (int r = 0; r < 200; r++)
		buf_printf(&text, "%g,%g,%g,%d\n",
		    r == 0         ? -0.3
		        : r == 199 ? 0.3
		        : r % 2    ? 0.05
		                   : -0.05,
		    r == 0 ? 1.0 : 0, r == 0 ? 0.5 : 0, r);
	d = load((const char *)text.data, "", want, NULL, e);
	buf_release(&text);
	return d;
}

/* The scaling that the model wants, where the path does not say it. */
static void wanted_scaling(void)
{
	static const struct data_want scaled = { .scale = "auto" },
	                              classes = { .two = true, .scale = "auto" };
	static const char text[] = "big,share,flag,y\n1e6,0.1,0,10\n3e6,0.9,1,20\n2e6,0.5,0,30\n";
	struct err e;
	struct dataset *d = load(text, "", &scaled, NULL, &e), *v;
	const struct data_column *c = d && d->schema ? data_schema_label(d->schema, 0) : NULL;
	double s = sqrt(1.5);

	ok(ROW(d, 0, -s, 0.1, 0) && ROW(d, 1, s, 0.9, 1) && ROW(d, 2, 0, 0.5, 0),
	    "scale=auto: columns within -1 and 1 stay: %s", d ? "" : e.msg);
	ok(c && c->shift == 20 && d->y[0] == 10, "and the target is scaled");
	v = load("flag,y,share,big\n1,7,0.5,5e6\n", "", &real, d, &e);
	ok(ROW(v, 0, 3 * s, 0.5, 1), "evaluation data take the scaling: %s", v ? "" : e.msg);
	dataset_free(v);
	v = load("big,share,flag,y\n,0.5,1,7\n2e6,\"0.1\",1,7\n", "", &real, d, &e);
	ok(ROW(v, 0, 0, 0.5, 1) && ROW(v, 1, 0, 0.1, 1), "cells may be missing or quoted: %s",
	    v ? "" : e.msg);
	dataset_free(v);
	dataset_free(d);
	d = load("1000.5,0.25,1\n1000.75,0.5,2\n", "", &scaled, NULL, &e);
	ok(ROW(d, 0, -1, -1) && ROW(d, 1, 1, 1) && !d->sparse,
	    "narrow columns are scaled, without a header, too: %s", d ? "" : e.msg);
	dataset_free(d);
	d = load_tails(&scaled, &e);
	ok(d && d->rows == 200 && d->x[0] < -5 && d->x[1] == 1 && d->x[2] == 0.5f,
	    "a column of a small deviation is scaled, rare values are not: %s", d ? "" : e.msg);
	dataset_free(d);
	d = load(text, "scale=none", &scaled, NULL, &e);
	ok(ROW(d, 0, 1e6, 0.1, 0) && !d->schema, "scale=none makes mere rows");
	v = load(text, "", &scaled, d, &e);
	ok(ROW(v, 0, 1e6, 0.1, 0), "which evaluation data are, too: %s", v ? "" : e.msg);
	dataset_free(v);
	v = load(text, "", &(struct data_want){ .scale = "auto", .base = d }, NULL, &e);
	ok(ROW(v, 0, 1e6, 0.1, 0), "and data that a model is trained on with: %s", v ? "" : e.msg);
	dataset_free(v);
	dataset_free(d);
	d = load("3,4,1\n6,8,2\n", "norm=l2", &scaled, NULL, &e);
	ok(ROW(d, 0, 0.6, 0.8) && ROW(d, 1, 0.6, 0.8), "norm=l2 holds instead: %s", d ? "" : e.msg);
	dataset_free(d);
	d = load("0 2:3 7:4\n1 1:100 3:200\n", "", &classes, NULL, &e);
	ok(d && d->sparse && !d->schema && d->val[2] == 100, "libsvm is not scaled: %s",
	    d ? "" : e.msg);
	dataset_free(d);
}

static void evaluations(void)
{
	struct err e;
	struct dataset *d = load(people, "", &two, NULL, &e), *v;

	v = load("paid,city,age,fee\nno,Paris,20,1\n", "", &two, d, &e);
	ok(ROW(v, 0, 20, 1, 0, 1, 0) && v->y[0] == 0, "columns are found by name: %s",
	    v ? "" : e.msg);
	dataset_free(v);
	v = load("age,city,fee\n20,Paris,1\n25,Oslo,?\n", "", &any, d, &e);
	ok(ROW(v, 0, 20, 1, 0, 1, 0), "labels may be missing where they do not matter: %s",
	    v ? "" : e.msg);
	ok(ROW(v, 1, 25, 2, 0, 0, 0),
	    "a new city is no feature; a gap is the training data's mean");
	dataset_free(v);
	refused("age,city,fee\n20,Paris,1\n", "", d, "has no label column");
	refused("age,fee,paid\n20,1,yes\n", "", d, "has no column \"city\"");
	refused("age,fee,City,paid\n20,1,x,yes\n", "", d,
	    "has no column \"city\", but the training data has one; did you mean \"City\"?");
	refused("1,2\n3,4\n", "", d, "has 2 columns, expected 4");
	dataset_free(d);
}

static void facts(void)
{
	struct err e;
	struct dataset *d = load(people, "scale=standard", &two, NULL, &e), *of, *a, *b;
	json_t *o = data_facts(d), *again;

	ok(o && data_of_facts(o, &of, &e) == ERR_OK, "facts have the schema");
	a = load("age,city,fee\n20,Paris,1\n", "", &any, d, &e);
	b = load("age,city,fee\n20,Paris,1\n", "", &any, of, &e);
	ok(a && b && memcmp(a->x, b->x, 5 * sizeof *a->x) == 0,
	    "the schema of the facts makes the same features");
	dataset_free(a);
	dataset_free(b);
	again = data_schema_to_json(of->schema);
	ok(json_equal(again, json_object_get(o, "schema")), "and is the same as JSON");
	json_decref(again);
	json_array_append_new(json_object_get(json_object_get(o, "schema"), "columns"),
	    json_null());
	a = NULL;
	ok(data_of_facts(o, &a, &e) == ERR_FORMAT && !a, "a damaged one is refused: %s", e.msg);
	again = json_array_get(json_object_get(json_object_get(o, "schema"), "columns"), 0);
	json_array_remove(json_object_get(json_object_get(o, "schema"), "columns"),
	    json_array_size(json_object_get(json_object_get(o, "schema"), "columns")) - 1);
	ok(data_of_facts(o, &a, &e) == ERR_OK, "without the damage it is read");
	dataset_free(a);
	a = NULL;
	json_object_del(again, "factor");
	ok(data_of_facts(o, &a, &e) == ERR_FORMAT && !a, "a column of numbers has a factor");
	dataset_free(of);
	dataset_free(d);
	json_decref(o);
}

/* More values than dense rows have: the rows are sparse, with a field for each column. */
/* Further data of a model: what was there keeps its number, what is new comes behind it. */
static void extended(void)
{
	static const char more[] = "age,city,fee,paid\n"
	                           "10,Oslo,9,no\n"
	                           "30,Paris,9,yes\n"
	                           "30,Aden,?,yes\n",
	                  third[] = "age,city,fee,paid\n"
	                            "30,Bern,1,yes\n"
	                            "30,Oslo,1,no\n";
	struct err e;
	struct dataset *d = load(people, "scale=standard", &two, NULL, &e), *of = NULL, *x, *y, *z;
	struct data_want want = { .two = true, .base = d };
	json_t *o, *same;

	x = load(more, "", &want, NULL, &e);
	ok(x && x->cols == 7 && strcmp(x->feature_name[3], "city=Paris") == 0 &&
	        strcmp(x->feature_name[5], "city=Aden") == 0 &&
	        strcmp(x->feature_name[6], "city=Oslo") == 0,
	    "new categories get the numbers behind the old ones: %s", x ? "" : e.msg);
	ok(x && x->x[7] == d->x[0] && x->x[7 + 3] == 1 && x->x[2 * 7 + 5] == 1 &&
	        x->x[2 * 7 + 1] == d->x[5 + 1],
	    "the scaling, and what stands for a gap, are those of the model");
	y = load("age,city,fee\n30,Oslo,1\n30,Bern,1\n", "", &any, x, &e);
	ok(y && y->x[6] == 1 && y->x[7 + 5] == 0 && y->x[7 + 6] == 0,
	    "evaluation data extend nothing");
	dataset_free(y);
	o = x ? data_facts(x) : NULL;
	ok(o && data_of_facts(o, &of, &e) == ERR_OK, "facts have the places");
	same = data_facts(of);
	ok(json_equal(o, same), "and are the same when they are read");
	want.base = of;
	y = load(more, "", &want, NULL, &e);
	z = load(third, "", &want, NULL, &e);
	ok(y && y->cols == 7 && memcmp(y->x, x->x, 21 * sizeof *y->x) == 0,
	    "the same data extend them no further");
	ok(z && z->cols == 8 && strcmp(z->feature_name[6], "city=Oslo") == 0 &&
	        strcmp(z->feature_name[7], "city=Bern") == 0 && z->x[7] == 1 && z->x[8 + 6] == 1,
	    "others do");
	dataset_free(y);
	dataset_free(z);
	ok(!load("age,city,fee,paid\n1,Oslo,1,maybe\n", "", &want, NULL, &e), "classes stay: %s",
	    e.msg);
	json_array_set_new(json_object_get(json_array_get(json_object_get(json_object_get(o,
	                                                                      "schema"),
	                                                      "columns"),
	                                       1),
	                       "places"),
	    0, json_integer(4));
	dataset_free(of);
	of = NULL;
	ok(data_of_facts(o, &of, &e) == ERR_FORMAT && !of, "a place that comes twice is damage");
	dataset_free(x);
	dataset_free(d);
	json_decref(o);
	json_decref(same);
}

static void wide(void)
{
	struct buf text = BUF_INIT;
	struct err e;
	struct dataset *d;

	buf_puts(&text, "n,word,y\n");
	for (int i = 0; i < 2000; i++)
		buf_printf(&text, "%d,w%04d,%d\n", i, i, i % 2);
	d = load((char *)text.data, "", &two, NULL, &e);
	ok(d && d->sparse && d->cols == 2001 && d->fields == 2 && d->rows == 2000,
	    "many values make sparse rows: %s", d ? "" : e.msg);
	ok(d && d->start[8] - d->start[7] == 2 && d->id[d->col[d->start[7] + 1]] == 1 + 7 &&
	        d->val[d->start[7]] == 7 && d->field[d->start[7] + 1] == 1,
	    "of a number and a word");
	dataset_free(d);
	buf_release(&text);
}

/* Names in Latin-1, which are no UTF-8, keep their bytes in the description of the data. */
static void latin_names(void)
{
	static const struct data_want classes = { .classes = true };
	const char *text = "gr\xf6\xdf"
	                   "e,y\nK\xf6ln,gr\xfcn\nM\xfcnster,rot\nK\xfcln,gr\xf6n\nKoln,rot\n";
	struct dataset *like = NULL, *v = NULL;
	struct err e;
	struct dataset *d = load(text, "label=y", &classes, NULL, &e);
	json_t *facts = d ? data_facts(d) : NULL;
	char *name = NULL;

	ok(facts && !data_of_facts(facts, &like, &e) && like->classes == 3 &&
	        strcmp(like->class_name[0], d->class_name[0]) == 0 &&
	        strcmp(like->class_name[1], d->class_name[1]) == 0 &&
	        strcmp(like->schema->column[0].name,
	            "gr\xf6\xdf"
	            "e") == 0,
	    "names of classes and columns in Latin-1 come back (%s)", e.msg);
	v = like ? load(text, "label=y", &classes, like, &e) : NULL;
	ok(v && v->cols == 4 && memcmp(v->x, d->x, 16 * sizeof *v->x) == 0,
	    "and so do categories (%s)", e.msg);
	name = like ? data_feature_name(like, 1) : NULL;
	ok(name &&
	        strcmp(name,
	            "gr\xf6\xdf"
	            "e=K\xfcln") != 0 &&
	        strstr(name, "e=K"),
	    "each with its bytes");
	free(name);
	json_decref(facts);
	dataset_free(v);
	dataset_free(like);
	dataset_free(d);
}

/* Days and times that no calendar and no clock has. */
static void impossible_days(void)
{
	static const char *const wrong[] = { "2021-02-30", "2021-02-29", "1900-02-29", "2021-04-31",
		"2021-06-31T12:00", "2021-02-28 24:30" };
	struct err e;

	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		char text[200];
		struct dataset *d;

		snprintf(text, sizeof text,
		    "d,y\n2021-01-31,1\n2020-02-29,2\n2000-02-29 24:00,3\n%s,4\n", wrong[i]);
		d = load(text, "", &real, NULL, &e);
		ok(!d && strstr(e.msg, "text:5:1: ") && strstr(e.msg, wrong[i]),
		    "%s is no date (%s)", wrong[i], e.msg);
		dataset_free(d);
	}
	struct dataset *d = load("d,y\n31/4/2021,1\n30/4/2021,2\n29/4/2021,3\n28/4/2021,4\n", "",
	    &real, NULL, &e);

	ok(!d && strstr(e.msg, "31/4/2021"), "nor is the 31st of April (%s)", e.msg);
	dataset_free(d);
}

/* Numbers as people write them. */
static void forms(void)
{
	static const struct {
		const char *text;
		double a, b;
	} form[] = {
		{ "a,y\n\"$1,234.50\",1\n$7,2\n", 1234.5, 7 },
		{ "a;y\n1.234,50;1\n7,25;2\n", 1234.5, 7.25 },
		{ "a\ty\n1 234,5 \xe2\x82\xac\t1\n-7,0\t2\n", 1234.5, -7 },
		{ "a,y\n12.5%,1\n3 %,2\n", 12.5, 3 },
		{ "a,y\n1970-01-03,1\n2000-03-01,2\n", 2, 11017 },
		{ "a,y\n2021-06-01T12:00:00Z,1\n2021-06-01 12:00:00+06:00,2\n", 18779.5, 18779.25 },
		{ "a|y\n1|1\n2|2\n", 1, 2 },
		{ "  a   y\n  1   1\n 22   2\n", 1, 22 },
		{ "# made by hand\n# in May\na,y\n1,1\n2,2\n", 1, 2 },
		{ "\xef\xbb\xbf\"a\",y\r\n1,1\r\n2,2", 1, 2 },
		{ "sep=;\na;y\n1;1\n2;2\n", 1, 2 },
		{ "People in May\n\na,y\n1,1\n2,2\n", 1, 2 },
		{ "a,y\n03.01.1970,1\n1.3.2000,2\n", 2, 11017 },
		{ "a,y\n1/3/1970,1\n03/01/2000 6:00 PM,2\n", 2, 11017.75 },
		{ "a,y\n3/1/1970,1\n13/1/1970,2\n", 2, 12 },
		{ "a,y\n3 Jan 1970,1\n01-march-2000,2\n", 2, 11017 },
		{ "a,y\n12:30,1\n1:15:36,2\n", 12.5, 1.26 },
		{ "a,y\n12:30 AM,1\n1:30pm,2\n", 0.5, 13.5 },
		{ "a,y\n\"(1,234.50)\",1\n7,2\n", -1234.5, 7 },
		{ "a,y\n($7),1\nEUR 8.5,2\n", -7, 8.5 },
		{ "a,y\n12 USD,1\n1.5e1 EUR,2\n", 12, 15 },
		{ "a,y\n\xe2\x88\x92"
		  "12,1\n\"1,000\",2\n",
		    -12, 1000 },
		{ "a,y\n12 km,1\n-1.5km,2\n", 12, -1.5 },
		{ "a;y\n1.234,5 m\xc2\xb2;1\n7 m\xc2\xb2;2\n", 1234.5, 7 },
	};
	struct dataset *like = NULL;
	struct err e;

	for (size_t i = 0; i < sizeof form / sizeof *form; i++) {
		struct dataset *d = load(form[i].text, "missing=mean", &real, NULL, &e), *v;
		json_t *facts = d ? data_facts(d) : NULL;

		ok(d && d->rows == 2 && ROW(d, 0, form[i].a) && ROW(d, 1, form[i].b) &&
		        strcmp(d->schema->column[0].name, "a") == 0,
		    "numbers of form %zu: %s", i, d ? "" : e.msg);
		v = facts && !data_of_facts(facts, &like, &e)
		    ? load(form[i].text, "", &real, like, &e)
		    : NULL;
		ok(v && memcmp(v->x, d->x, 2 * sizeof *v->x) == 0, "and in evaluation data");
		json_decref(facts);
		dataset_free(like);
		like = NULL;
		dataset_free(v);
		dataset_free(d);
	}
	/* Several units are none, nor is one among words. */
	static const char *const text[] = { "a,y\n12 km,1\n3 mi,2\n5 km,3\n",
		"a,y\n4wd,1\nfwd,2\n4wd,3\n", "a,y\nA1,1\nA2,2\nA2,3\n" };

	for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
		struct dataset *d = load(text[i], "", &real, NULL, &e);

		ok(d && d->cols > 1 && d->schema->numbers == 0, "no numbers: %s", text[i]);
		dataset_free(d);
	}
	like = load("a,y\n12 km,1\n13 km,2\n", "", &real, NULL, &e);
	refused("a,y\n12 km,1\n13,2\n14 mi,3\n", "", like,
	    "text:4:1: \"14 mi\" in the column of numbers \"a\"");
	dataset_free(like);
	refused("a;y\n1,5;1\n2,5;2\n3,5;3\n1.5;4\n", "", NULL,
	    "text:5:1: \"1.5\" in the column of numbers \"a\"; correct or empty the cell");
}

/* Words that come again among numbers are categories, too. */
/* Decimal commas are more frequent than the semicolons between the cells. */
static void decimal_commas(void)
{
	struct err e;
	struct dataset *d = load("a;b;y\n0,5;1,5;2,5\n1,5;-2,5;3,5\n2,5;3,5;1\n", "", &real, NULL,
	    &e);

	ok(d && d->rows == 3 && d->cols == 2 && ROW(d, 1, 1.5, -2.5) && (double)d->y[0] == 2.5 &&
	        d->feature_name && strcmp(d->feature_name[1], "b") == 0,
	    "decimal commas below a header: %s", e.msg);
	dataset_free(d);
	d = load("0,5;1,5;2,5\n1,5;-2,5;3,5\n2,5;3,5;1,5\n", "", &real, NULL, &e);
	ok(d && d->rows == 3 && d->cols == 2 && ROW(d, 1, 1.5, -2.5), "and without one: %s", e.msg);
	dataset_free(d);
	d = load("id,list,y\n1,5;2,5\n2,6;3,6\n3,7;4,7\n", "ignore=id", &real, NULL, &e);
	ok(d && d->rows == 3 && d->schema && strcmp(d->schema->column[1].name, "list") == 0,
	    "but lists of numbers stay lists: %s", e.msg);
	dataset_free(d);
}

static void words(void)
{
	struct buf text = BUF_INIT;
	struct err e;
	struct dataset *d, *v;

	buf_puts(&text, "age,y\n");
	for (int i = 0; i < 20; i++)
		buf_printf(&text, "%d,1\n%s,2\n", 10 + i, i % 5 ? "30" : "old");
	d = load((char *)text.data, "scale=minmax", &real, NULL, &e);
	ok(d && d->cols == 2 && strcmp(d->feature_name[1], "age=old") == 0,
	    "a word that comes again among numbers is a category: %s", d ? "" : e.msg);
	v = load("age,y\n10,1\nold,2\nyoung,3\n", "", &real, d, &e);
	ok(ROW(v, 0, 0, 0) && v->x[3] == 1 && v->x[2] > 0.4f && v->x[5] == 0 && v->x[4] == v->x[2],
	    "which stands beside the mean, as an unknown word does");
	dataset_free(v);
	dataset_free(d);
	buf_release(&text);
}

static void missing_category(void)
{
	static const char text[] = "n,town,y\n1,Rome,1\n?,Oslo,2\n3,NA,3\n2,-,4\n";
	struct err e;
	struct dataset *d = load(text, "missing=category", &real, NULL, &e), *v;

	ok(ROW(d, 0, 1, 0, 0, 0, 1) && ROW(d, 1, 2, 1, 0, 1, 0) && ROW(d, 2, 3, 0, 1, 0, 0) &&
	        ROW(d, 3, 2, 0, 1, 0, 0) && strcmp(d->feature_name[1], "n=NA") == 0,
	    "missing=category: a missing cell is a feature, and the mean beside it: %s",
	    d ? "" : e.msg);
	v = load("{\"town\": \"Rome\"}\n{\"n\": 5}\n", "format=jsonl", &any, d, &e);
	ok(ROW(v, 0, 2, 1, 0, 0, 1) && ROW(v, 1, 5, 0, 1, 0, 0), "so is an absent member: %s",
	    v ? "" : e.msg);
	dataset_free(v);
	dataset_free(d);
}

/* Of three rows the first and the last are of one group, and the second has no name of a group. */
static bool has_groups(const struct dataset *d)
{
	return d && d->group && d->group[0] && d->group[0] == d->group[2] && !d->group[1];
}

static void groups(void)
{
	static const char text[] = "user,x,y\nann,1,1\n,2,2\nann,3,3\n";
	struct err e;
	struct dataset *d = load(text, "group=user&missing=category", &real, NULL, &e), *v;
	struct batch b = { 0 };
	const uint32_t index[] = { 2, 1 };

	ok(has_groups(d) && d->cols == 3, "groups by a column, which is a feature: %s",
	    d ? "" : e.msg);
	ok(data_gather(d, index, 2, &b, &e) == ERR_OK && b.group[0] == d->group[2] && !b.group[1],
	    "batches have the groups");
	v = load("user,x\nann,1\nbob,2\n", "", &any, d, &e);
	ok(v && v->group && v->group[0] == d->group[0] && v->group[1] != v->group[0] && v->group[1],
	    "evaluation data have them by the same column: %s", v ? "" : e.msg);
	ok(v && data_gather(v, index + 1, 1, &b, &e) == ERR_OK && b.group[0] == v->group[1],
	    "another file's batch, too");
	dataset_free(v);
	dataset_free(d);
	d = load(text, "group=user&ignore=user", &real, NULL, &e);
	ok(has_groups(d) && d->cols == 1, "ignore= takes the features away: %s", d ? "" : e.msg);
	v = load("x,y\n1,1\n", "", &real, d, &e);
	ok(v && !v->group && data_gather(v, index + 2 - 2, 0, &b, &e) == ERR_OK && !b.group,
	    "evaluation data may lack them");
	dataset_free(v);
	dataset_free(d);
	batch_release(&b);
	d = load(
	    "{\"q\": 7, \"x\": 1, \"y\": 1}\n{\"x\": 2, \"y\": 2}\n{\"q\": 7, \"x\": 3, \"y\": 1}\n",
	    "format=jsonl&group=q&id=q", &real, NULL, &e);
	ok(has_groups(d) && d->cols == 1, "and numbers of JSON: %s", d ? "" : e.msg);
	dataset_free(d);
	refused("x,y\n1,1\n", "group=u", NULL, "group=u: there is no such column");
}

static void weights(void)
{
	static const char text[] = "w,x,y\n1,1,1\n3,2,2\n0,3,3\n";
	struct err e;
	struct dataset *d = load(text, "weight=w", &real, NULL, &e), *v;
	struct batch b = { 0 };
	const uint32_t index[] = { 1, 2 };

	ok(d && d->cols == 1 && d->weight && fabs((double)d->weight[1] - 2.25) < 1e-6,
	    "the mean weight is 1, and a weight is no feature: %s", d ? "" : e.msg);
	ok(data_gather(d, index, 2, &b, &e) == ERR_OK && b.weight[0] == d->weight[1] &&
	        b.weight[1] == 0,
	    "batches have the weights");
	batch_release(&b);
	v = load("w,x,y\n4,1,1\n", "", &real, d, &e);
	ok(v && v->weight && v->weight[0] == 3, "evaluation data have the same unit");
	dataset_free(v);
	v = load("x,y\n1,1\n", "", &real, d, &e);
	ok(v && !v->weight, "or no weights");
	dataset_free(v);
	dataset_free(d);
	refused("w,x,y\n-1,1,1\n", "weight=w", NULL,
	    "text:2:1: \"-1\" in the column of weights \"w\"; a weight must be a number of at least 0");
	refused("w,x,y\n,1,1\n", "weight=1", NULL, "text:2:1: \"\" in the column of weights");
	refused("w,x,y\n0,1,1\n", "weight=w", NULL, "all weights \"w\" are 0");
	refused("x,y\n1,1\n", "weight=w", NULL, "weight=w: there is no such column");
}

static void labels(void)
{
	struct err e;
	struct dataset *d = load("a,y\n1,no\n2,?\n3,yes\n4,\n", "", &two, NULL, &e), *v;

	ok(d && d->rows == 2 && d->reading.unlabelled == 2 && d->y[1] == 1,
	    "rows without a label are left out: %s", d ? "" : e.msg);
	v = load("|1x3 Cross validator\na,y\n5,yes.\n", "", &two, d, &e);
	ok(v && v->rows == 1 && v->y[0] == 1, "a dot behind a class, below a comment: %s",
	    v ? "" : e.msg);
	dataset_free(v);
	dataset_free(d);
	refused("a,y\n1,?\n", "", NULL, "no row has a label");
	d = load("a,y,\n1,2,\n3,4,\n", "", &real, NULL, &e);
	ok(d && d->y[1] == 4, "a column of nothing is not the label: %s", d ? "" : e.msg);
	dataset_free(d);
}

/* A name that two columns have says nothing about which one is meant. */
static void same_names(void)
{
	static const char twice[] = "x,x,y\n1,10,1\n2,20,2\n";
	static const struct {
		const char *text, *options, *why;
	} training[] = {
		{ twice, "scale=standard",
		    "text:1:2: is a second column named \"x\" beside column 1; "
		    "rename one of them, or leave one out, as ?ignore=2" },
		{ twice, "scale=none", "text:1:2: is a second column named \"x\" beside column 1" },
		{ twice, "ignore=x", "ignore=x: columns 1 and 2 have this name; give the number" },
		{ twice, "weight=x", "weight=x: columns 1 and 2 have this name" },
		{ twice, "categories=x", "categories=x: columns 1 and 2 have this name" },
		{ twice, "group=x", "group=x: columns 1 and 2 have this name" },
		{ "a\ty\ty\n1\t2\t3\n", "",
		    "\"y\" beside column 2; rename one of them, or leave one "
		    "out, as ?ignore=2" },
		{ "a,y,y\n1,2,3\n", "label=2&scale=standard", "or leave one out, as ?ignore=3" },
		{ "1,2,3\n", "columns=a,a,y", "is a second column named \"a\"" },
	};
	struct err e;
	struct dataset *d, *v;

	for (size_t i = 0; i < sizeof training / sizeof training[0]; i++)
		refused(training[i].text, training[i].options, NULL, training[i].why);
	for (int scaled = 0; scaled < 2; scaled++) {
		d = load("x,z,y\n1,10,1\n2,20,2\n", scaled ? "scale=standard" : "scale=none", &real,
		    NULL, &e);
		ok(d != NULL, "%s", d ? "a table of two features" : e.msg);
		refused("z,x,x,y\n1,2,3,4\n", "", d,
		    "text:1:3: is a second column named \"x\" beside column 2, and the training data do "
		    "not tell which one is meant; rename one of them");
		refused("z,x,y,y\n1,2,3,4\n", "", d,
		    "text:1:4: is a second column named \"y\" beside");
		v = load("n,n,z,x,y\n1,2,3,4,5\n", "label=y", &real, d, &e);
		ok(v && v->y[0] == 5, "columns that are not used may have one name: %s",
		    v ? "" : e.msg);
		dataset_free(v);
		dataset_free(d);
	}
	d = load("x,x,y\n1,10,1\n2,20,2\n", "scale=none&ignore=1", &real, NULL, &e);
	v = load("y,x,x\n3,4,5\n", "", &real, d, &e);
	ok(ROW(d, 1, 20) && ROW(v, 0, 5), "columns of one name keep their order: %s",
	    v ? "" : e.msg);
	dataset_free(v);
	dataset_free(d);
	d = load("a,,,y\n1,2,3,4\n5,6,7,8\n", "scale=none", &real, NULL, &e);
	ok(ROW(d, 1, 5, 6, 7), "columns may have no name: %s", d ? "" : e.msg);
	dataset_free(d);
}

/* A column is one thing: options that make two of it contradict each other. */
static void roles(void)
{
	static const char *const options[][2] = {
		{ "label=b&ignore=b",
		    "label= and ignore= name the same column \"b\"; remove it from one of "
		    "them" },
		{ "label=3&ignore=b", "label= and ignore= name the same column \"b\"" },
		{ "label=b&weight=b", "label= and weight= name the same column \"b\"" },
		{ "label=b&text=b", "label= and text= name the same column \"b\"" },
		{ "label=b&id=b", "label= and id= name the same column \"b\"" },
		{ "label=b&categories=b", "label= and categories= name the same column \"b\"" },
		{ "label=b&lists=b", "label= and lists= name the same column \"b\"" },
		{ "weight=w&ignore=1", "weight= and ignore= name the same column \"w\"" },
		{ "weight=w&text=w", "weight= and text= name the same column \"w\"" },
		{ "ignore=b,c&text=c", "ignore= and text= name the same column \"c\"" },
		{ "id=c&categories=c", "id= and categories= name the same column \"c\"" },
		{ "categories=c&text=c", "categories= and text= name the same column \"c\"" },
		{ "lists=c&text=c", "lists= and text= name the same column \"c\"" },
		{ "ignore=y",
		    "ignore= names the column \"y\", which is the label, because label= names no "
		    "other column; name the label by label=" },
		{ "label=y&label=b", "label= is given twice; remove one of them" },
		{ "bits=4&label=y&bits=4", "bits= is given twice" },
	};
	static const char table[] = "w,c,b,y\n1,x,10,100\n2,y,30,5\n1,x,20,500\n2,y,40,300\n";
	struct dataset *d;
	struct err e;

	for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
		refused(table, options[i][0], NULL, options[i][1]);
	refused("{\"a\": 1, \"y\": 2}\n", "ignore=y", NULL,
	    "ignore= names the column \"y\", which is the label");
	d = load(table, "id=c&ignore=c&lists=b&categories=b", &real, NULL, &e);
	ok(d != NULL, "others say one thing: %s", d ? "" : e.msg);
	dataset_free(d);
}

static void target(void)
{
	struct err e;
	struct dataset *d = load("a,y\n1,100000\n2,300000\n", "scale=standard", &real, NULL, &e),
	               *of = NULL;
	const struct data_column *c = d ? data_schema_label(d->schema, 0) : NULL;
	json_t *o;

	ok(c && c->shift == 200000 && fabs((double)c->factor - 1e-5) < 1e-12 && d->y[0] == 100000,
	    "the target's scaling is in the schema, and its values stay");
	o = data_facts(d);
	ok(o && data_of_facts(o, &of, &e) == ERR_OK &&
	        data_schema_label(of->schema, 0)->shift == 200000 &&
	        data_schema_label(of->schema, 0)->factor == c->factor,
	    "and in the facts");
	json_decref(o);
	dataset_free(of);
	dataset_free(d);
}

/* Several columns of labels: targets stand in the order of ?label=. */
static void several_targets(void)
{
	static const char table[] = "a,\"u, v\",c,b\n1,x,10,100\n2,y,30,\n3,x,20,500\n4,y,40,300\n";
	struct err e;
	struct dataset *d = load(table, "label=b,3&scale=standard", &real, NULL, &e), *of = NULL,
	               *t;
	const struct data_column *c;
	struct batch b = { 0 };
	json_t *o;

	ok(d && d->targets == 2 && d->rows == 3 && d->reading.unlabelled == 1 && d->y[0] == 100 &&
	        d->y[1] == 10 && d->y[2] == 500 && d->y[3] == 20 && d->y[4] == 300 && d->y[5] == 40,
	    "rows have two targets, and a row without one of them is left out: %s", d ? "" : e.msg);
	if (!d)
		return;
	ok(dataset_target_scaling(d, 0).shift == 300 &&
	        fabs(dataset_target_scaling(d, 1).shift - 70.0 / 3) < 1e-5,
	    "each target has a scaling of its own");
	ok(data_gather(d, (const uint32_t[]){ 2, 0 }, 2, &b, &e) == ERR_OK && b.targets == 2 &&
	        b.y[0] == 300 && b.y[1] == 40 && b.y[2] == 100 && b.y[3] == 10,
	    "batches have the targets of their examples");
	batch_release(&b);
	o = data_facts(d);
	ok(o && data_of_facts(o, &of, &e) == ERR_OK && of->targets == 2 &&
	        (c = data_schema_label(of->schema, 0)) && !strcmp(c->name, "b") &&
	        (c = data_schema_label(of->schema, 1)) && !strcmp(c->name, "c"),
	    "the facts name the targets in their order");
	json_decref(o);
	t = load("c,b,\"u, v\",a\n1,2,x,3\n", "", &real, of, &e);
	ok(t && t->targets == 2 && t->y[0] == 2 && t->y[1] == 1,
	    "evaluation data have them in any order of columns: %s", t ? "" : e.msg);
	dataset_free(t);
	t = load("\"u, v\",a\nx,3\n", "", &any, of, &e);
	ok(t && t->rows == 1, "and none where they do not matter: %s", t ? "" : e.msg);
	dataset_free(t);
	refused("c,\"u, v\",a\n1,x,3\n", "", of, "no column \"b\", which is a target");
	refused(table, "label=b,3,b", NULL, "label=b,3,b names column 4 twice");
	refused(table, "label=b,4", NULL, "names column 4 twice");
	refused(table, "label=b,bb", NULL, "there is no column \"bb\"");
	refused("a,b,c,d,e,f,g,h,i,j\n1,2,3,4,5,6,7,8,9,0\n", "label=target", NULL,
	    "there is no column \"target\"; the columns are a, b, c, d, e, f, g, h and 2 more");
	refused(table, "label=b,5", NULL, "the columns are 1 to 4");
	ok(!load(table, "label=b,c", &(struct data_want){ .classes = true }, NULL, &e) &&
	        e.code == ERR_CONFIG && strstr(e.msg, "a model of classes has one label"),
	    "classes have one label: %s", e.msg);
	t = load(table, "label=u, v&ignore=b", &(struct data_want){ .classes = true }, NULL, &e);
	ok(t && t->classes == 2 && t->targets == 1, "a name with a comma is one label: %s",
	    t ? "" : e.msg);
	dataset_free(t);
	dataset_free(of);
	dataset_free(d);
}

/* Values that are hashed, by choice or because there are too many. */
static void hashed(void)
{
	struct buf text = BUF_INIT;
	struct err e;
	struct dataset *d = load(people, "bits=12&scale=standard", &two, NULL, &e), *v, *of = NULL;
	json_t *o = data_facts(d);
	char *name;

	ok(d && d->sparse && d->cols == 2 + 4096 && d->fields == 3 && !d->feature_name && o,
	    "bits=12: %s", d ? "" : e.msg);
	ok(o && data_of_facts(o, &of, &e) == ERR_OK && of->schema->bits == 12 &&
	        of->cols == d->cols,
	    "facts have the bits");
	v = load("age,city,fee\n20,Paris,1\n30,Atlantis,1\n", "", &any, of, &e);
	ok(v && v->id[v->col[v->start[0] + 1]] == d->id[d->col[d->start[0] + 1]] &&
	        v->start[2] == 6,
	    "a value has the same place, and an unknown one has one: %s", v ? "" : e.msg);
	name = data_schema_name(of->schema, d->id[d->col[d->start[0] + 1]]);
	ok(strstr(name, "city=Paris"), "a place has its values' names: %s", name);
	free(name);
	name = data_schema_name(of->schema, d->cols - 1);
	ok(*name == '#' || strstr(name, "city="), "or its number: %s", name);
	free(name);
	dataset_free(v);
	dataset_free(of);
	dataset_free(d);
	json_decref(o);
	buf_puts(&text, "word,y\n");
	for (int i = 0; i < (1 << 20) + 100; i++)
		buf_printf(&text, "w%d,%d\n", i, i % 2);
	buf_puts(&text, "w7,0\n");
	d = load((char *)text.data, "", &two, NULL, &e);
	ok(d && d->schema->bits == 22 && d->schema->nvalues == DATA_SCHEMA_NAMED &&
	        d->col[7] == d->col[(1 << 20) + 100] && d->nids > 900000,
	    "too many values are hashed: %s", d ? "" : e.msg);
	v = load("word,y\nw7,1\nw1000000,1\n", "", &two, d, &e);
	ok(v && v->id[v->col[0]] == d->id[d->col[7]] && v->id[v->col[1]] == d->id[d->col[1000000]],
	    "as are those of evaluation data: %s", v ? "" : e.msg);
	dataset_free(v);
	dataset_free(d);
	buf_release(&text);
	refused("a,y\nx,1\nz,2\n", "bits=31", NULL, "bits=31: must be at most 30");
}

/* Schemas of a model file that do not mean what they say. */
static void lies(void)
{
	static const struct {
		bool good;
		const char *json;
	} schema[] = {
		{ true,
		    "{'columns':[{'name':'a','kind':'category','values':[],'places':[]},"
		    "{'name':'b','kind':'category','values':['x','y','z']}]}" },
		{ true,
		    "{'columns':[{'name':'b','kind':'category','values':['x','y'],'places':[1,0]},"
		    "{'name':'a','kind':'category','values':[],'places':[]}]}" },
		{ false,
		    "{'columns':[{'name':'b','kind':'category','values':['x','y'],'places':[1,1]}]}" },
		{ false,
		    "{'columns':[{'name':'b','kind':'category','values':['x'],'places':[0]},"
		    "{'name':'c','kind':'category','values':['x']}]}" },
		{ false,
		    "{'columns':[{'name':'n','kind':'number','mean':1e300,'shift':0,'factor':1}]}" },
		{ false, "{'columns':[{'name':'a','kind':'label'},{'name':'b','kind':'label'}]}" },
		{ false,
		    "{'dense':true,'bits':30,'columns':[{'name':'b','kind':'category','values':[]}]}" },
		{ false, "{'columns':[{'name':'b','kind':'category','values':['y','x']}]}" },
	};

	for (size_t i = 0; i < sizeof schema / sizeof *schema; i++) {
		char *text = strdup(schema[i].json);
		struct data_schema *s = NULL;
		struct err e = { 0 };
		json_t *o;

		for (char *p = text; *p; p++)
			*p = *p == '\'' ? '"' : *p;
		o = json_loads(text, 0, NULL);
		ok(o && (data_schema_from_json(o, &s, &e) == ERR_OK) == schema[i].good &&
		        (!s || data_schema_features(s) > 0),
		    "a schema: %s %s", schema[i].json, e.msg);
		if (s)
			free(data_schema_name(s, data_schema_features(s) - 1));
		data_schema_free(s);
		json_decref(o);
		free(text);
	}
}

/* Tables of mere numbers whose columns are in another order. */
static void numbers(void)
{
	static const struct {
		const char *text, *options;
		const struct data_want *want;
		double y;
	} good[] = {
		{ "y,b,a\n3,2,1\n", "", &real, 3 },
		{ "b,t,a,y\n2,x,1,3\n", "", &real, 3 },
		{ "b,y,a,u\n2,3,1,4\n", "label=y", &real, 3 },
		{ "b;a;y\n2;1;3\n", "label=3", &real, 3 },
		{ "b,a\n2,1\n", "", &any, 0 },
		{ "u,a,v,b\n5,1,6,2\n", "", &any, 0 },
		{ "1,2,3\n", "", &real, 3 },
	};
	struct err e;
	struct dataset *d = load("a,b,y\n1,2,3\n4,5,6\n", "", &real, NULL, &e), *v;

	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		v = load(good[i].text, good[i].options, good[i].want, d, &e);
		ok(ROW(v, 0, 1, 2) && (!v->y || fabs((double)v->y[0] - good[i].y) < 1e-6),
		    "other columns: %s", v ? "" : e.msg);
		dataset_free(v);
	}
	refused("b,y\n2,3\n", "", d, "has no column \"a\", but the training data has one");
	refused("b,a\n2,1\n", "", d, "has no label column");
	refused("b,a,y\n2,,1\n", "", d, "but the training data (text) has none");
	dataset_free(d);
}

/* A quote within a cell is text; only one at its begin encloses the cell. */
static void inches(void)
{
	struct err e;
	struct dataset *d =
	    load("a,size,y\n1,12\" wide,1\n2,\"5'2\"\" x\n3\"\"\",2\n3, \"12\"\" wide\" ,3\n"
	         "4,1\"\",4\n",
	        "", &real, NULL, &e);

	ok(d && d->rows == 4 && ROW(d, 0, 1, 0, 1, 0) && ROW(d, 2, 3, 0, 1, 0) &&
	        strcmp(d->feature_name[1], "size=1\"\"") == 0 &&
	        strcmp(d->feature_name[3], "size=5'2\" x\n3\"") == 0,
	    "inches: %s", d ? "" : e.msg);
	dataset_free(d);
}

/* Rows with a field for each column, for models of pairs of entries. */
static void columns_as_fields(void)
{
	static const struct data_want fields = { .two = true, .fields = true };
	struct err e;
	struct dataset *d = load("a,b,y\n1,x,1\n2,z,0\n", "label=y", &fields, NULL, &e),
	               *like = d ? load("a,b,y\n3,z,1\n", "label=y", &fields, d, &e) : NULL;

	ok(d && d->sparse && d->start[2] == 4 && d->fields >= 2 && d->field[1] == 1 &&
	        !d->schema->dense,
	    "a row has an entry for each column, not for each category: %s", e.msg);
	ok(like && like->sparse && like->start[1] == 2, "and so have evaluation data: %s", e.msg);
	dataset_free(like);
	dataset_free(d);
	d = load("a,b,y\n1,5,1\n2,4,0\n", "label=y", &fields, NULL, &e);
	ok(d && !d->sparse, "numbers alone stay dense: %s", e.msg);
	dataset_free(d);
}

/* Cells with several categories, and cells with words. */
static void splits(void)
{
	struct err e = { 0 };
	struct dataset *d;
	json_t *o;
	struct data_schema *s = NULL;

	d = load("kind,y\na|b,1\nb,0\n\" b | c|b\",1\n?,0\n", "label=y&lists=kind", &two, NULL, &e);
	ok(d && d->cols == 4 && d->x[0] + d->x[1] + d->x[2] + d->x[3] == 2,
	    "a list is several categories: %s", e.msg);
	ok(d && d->x[8] + d->x[9] + d->x[10] + d->x[11] == 2,
	    "blanks around a part do not count, and a part counts once");
	o = d ? data_schema_to_json(d->schema) : NULL;
	ok(o && data_schema_from_json(o, &s, &e) == ERR_OK && s->column[0].split == '|',
	    "the sign goes with the schema: %s", e.msg);
	json_decref(o);
	data_schema_free(s);
	dataset_free(d);
	d = load("body,y\n\"New York, new\",1\nthe end,0\n,1\n", "label=y&text=body", &two, NULL,
	    &e);
	/* These are: new, york, \"new york\", \"york new\"; the, end, \"the end\" */
	ok(d && d->sparse && d->start[1] == 4 && d->start[2] == 7 &&
	        fabs((double)d->val[0] - 0.5) < 1e-6 && d->cols == (size_t)1 << 18,
	    "words and pairs, with the length 1: %s", e.msg);
	dataset_free(d);
	d = load("body,y\na b,1\nb c,0\n", "label=y&text=body&bits=4", &two, NULL, &e);
	ok(d && d->cols == 16, "hashed to as many bits as the path says: %s", e.msg);
	dataset_free(d);
}

/* The value of the term in row r; 0: the row does not have it. */
static double value_of_term(const struct dataset *d, size_t r, const struct data_schema *s,
    const char *term)
{
	size_t feature = data_schema_find(s, &s->column[0], term);

	for (uint64_t k = d->start[r]; k < d->start[r + 1]; k++)
		if ((d->id ? d->id[d->col[k]] : d->col[k]) == feature)
			return (double)d->val[k];
	return 0;
}

/* Compares the terms of row r with values of scikit-learn's TfidfVectorizer of words and pairs. */
static bool has_terms(const struct dataset *d, size_t r, const struct data_schema *s,
    const char *const *term, const double *value, size_t n)
{
	bool good = d && d->start[r + 1] - d->start[r] == n;

	for (size_t i = 0; good && i < n; i++)
		good = fabs(value_of_term(d, r, s, term[i]) - value[i]) < 1e-6;
	return good;
}

static void weighted_terms(void)
{
	static const char text[] = "body,y\n\"a b a\",1\nb c,0\n\"\",1\nc d,0\n",
	                  options[] = "label=y&text=body&text_weight=tfidf";
	/* n is 4, and df of a, b, "a b", "b a" is 1, 2, 1, 1: idf 1.9162907, 1.5108256, 1.9162907, 1.9162907. The
	 * text has a twice. */
	static const char *const first[] = { "a", "b", "a b", "b a" },
	                         *const again[] = { "b", "e", "b e" };
	static const double value[] = { 0.777228585, 0.306387972, 0.388614293, 0.388614293 },
	                    /* df 2, 0 and 0: idf 1.5108256, 2.6094379 twice */
	    unseen[] = { 0.378881262, 0.654388642, 0.654388642 };
	struct data_want want = { .two = true };
	struct dataset *d, *like, *of = NULL, *more;
	struct err e = { 0 };
	json_t *facts, *same, *frequencies;

	d = load(text, options, &two, NULL, &e);
	ok(d && has_terms(d, 0, d->schema, first, value, 4),
	    "the terms of a text are weighted by tf-idf: %s", e.msg);
	if (!d)
		return;
	like = load("body,y\nb e,1\n\"a b a\",0\n", "", &two, d, &e);
	ok(like && has_terms(like, 0, d->schema, again, unseen, 3) &&
	        has_terms(like, 1, d->schema, first, value, 4),
	    "those of evaluation data by the training data's frequencies: %s", e.msg);
	dataset_free(like);
	facts = data_facts(d);
	ok(data_of_facts(facts, &of, &e) == ERR_OK, "the description has the frequencies: %s",
	    e.msg);
	same = of ? data_facts(of) : NULL;
	ok(same && json_equal(facts, same), "which are the same when they are read");
	json_decref(same);
	like = of ? load("body\nb e\n\"a b a\"\n", "", &any, of, &e) : NULL;
	ok(like && has_terms(like, 0, d->schema, again, unseen, 3) &&
	        has_terms(like, 1, d->schema, first, value, 4),
	    "and give the same weights: %s", e.msg);
	dataset_free(like);
	want.base = of;
	more = load("body,y\nb e,1\n\"a b a\",0\n", options, &want, NULL, &e);
	ok(more && has_terms(more, 0, d->schema, again, unseen, 3) &&
	        more->schema->tfidf->rows == 4,
	    "a job that goes on keeps them: %s", e.msg);
	dataset_free(more);
	dataset_free(of);
	of = NULL;
	refused("body,y\nb e,1\n", "text_weight=none", d, "give them the same value");
	frequencies = json_object_get(json_object_get(facts, "schema"), "frequencies");
	json_array_set_new(frequencies, 1, json_integer(5));
	ok(data_of_facts(facts, &of, &e) == ERR_FORMAT && !of,
	    "a frequency above the number of rows is refused");
	json_array_set_new(frequencies, 1, json_integer(1));
	json_array_set_new(frequencies, 2, json_integer(0));
	ok(data_of_facts(facts, &of, &e) == ERR_FORMAT && !of,
	    "and so are places that do not ascend");
	json_decref(facts);
	dataset_free(d);
	d = load("body,y\na b,1\nb,0\n", "label=y&text=body", &two, NULL, &e);
	refused("body,y\na b,1\n", "text_weight=tfidf", d, "read with text_weight=none");
	like = d ? load("body,y\na b,1\nb,0\n", "text_weight=none", &two, d, &e) : NULL;
	ok(like, "the default may be given: %s", e.msg);
	dataset_free(like);
	dataset_free(d);
	refused("body,y\na b,1\n", "label=y&text_weight=tfidf", NULL, "name it by text=");
	refused("body,y\na b,1\n", "label=y&text=body&text_weight=tfidf&bits=23", NULL,
	    "must be at most 22");
}

/* Two texts of a row that are hashed to one place count once. */
static void shared_places(void)
{
	struct err e = { 0 };
	struct dataset *d = load("a,b,y\nx,x,1\nx,x,0\n",
	    "label=y&text=a,b&text_weight=tfidf&bits=1", &two, NULL, &e);

	ok(d && d->schema->tfidf->frequency[0] <= 2 && d->schema->tfidf->frequency[1] <= 2,
	    "a row counts once: %s", e.msg);
	dataset_free(d);
}

/* Numbers far from 0 keep their differences, in the table, in data that are read like it, and as targets. */
static void test_far_numbers(void)
{
	static const char text[] = "t,y\n1600000000001,1000000001\n1600000000003,1000000002\n"
	                           "1600000000002,1000000003\n1600000000006,1000000006\n";
	struct data_want want = { .scale = "auto", .shifts_targets = true };
	struct dataset *d, *v, *more;
	struct err e;

	d = load(text, "", &want, NULL, &e);
	ok(d && fabs((double)d->x[0] + 2 / sqrt(3.5)) < 1e-6 &&
	        fabs((double)d->x[3] - 3 / sqrt(3.5)) < 1e-6,
	    "milliseconds keep their differences: %s", e.msg);
	ok(d && (double)(d->y[1] - d->y[0]) == 1 && (double)(d->y[3] - d->y[0]) == 5 &&
	        fabs(dataset_target_origin(d, 0) + (double)d->y[0] - 1000000001) < 1e-6,
	    "and so do targets");
	v = load(text, "", &want, d, &e);
	ok(v && d && memcmp(v->y, d->y, 4 * sizeof *v->y) == 0 &&
	        fabs((double)(v->x[0] - d->x[0])) < 1e-6 &&
	        fabs((double)(v->x[3] - d->x[3])) < 1e-6,
	    "evaluation data are read alike: %s", e.msg);
	dataset_free(v);
	want.base = d;
	more = load(text, "", &want, NULL, &e);
	ok(more && d && memcmp(more->y, d->y, 4 * sizeof *more->y) == 0 &&
	        fabs((double)(more->x[3] - d->x[3])) < 1e-6,
	    "and data of a job that goes on: %s", e.msg);
	dataset_free(more);
	dataset_free(d);
}

/* Loads evaluation data, and puts the warnings of values that the training data lack into out, which a warning is
 * written to twice if it is logged twice. */
static void note_unseen(const char *text, const struct dataset *like, char out[static 1000])
{
	struct data_want want = real;
	FILE *f = tmpfile();
	struct log log;
	struct err e;
	ssize_t n;

	want.unseen = data_unseen_new();
	log_init(&log, "test", fileno(f), LOG_LEVEL_INFO);
	dataset_free(load(text, "", &want, like, &e));
	data_unseen_log(want.unseen, "the data", &log);
	data_unseen_log(want.unseen, "the data", &log);
	n = pread(fileno(f), out, 999, 0);
	out[n > 0 ? n : 0] = 0;
	data_unseen_free(want.unseen);
	fclose(f);
}

static void unseen_values(void)
{
	struct err e;
	struct data_want want = real;
	char said[1000];
	struct dataset *d;

	want.scale = "standard";
	d = load("city,n,y\nA,1,1\nB,2,0\nA,3,1\n", "", &want, NULL, &e);
	ok(d != NULL, "training data: %s", e.msg);
	note_unseen("city,n,y\nA,1,1\nB,10,0\n", d, said);
	ok(!*said, "known values and a number that is not far need no warning: %s", said);
	note_unseen("city,n,y\nA,1,1\nZ,2,0\nY,2,0\n", d, said);
	ok(strstr(said, "training data lack") &&
	        strstr(said, "2 so far, such as \"Z\" in column \"city\""),
	    "values of categories that the training data lack: %s", said);
	ok(strstr(said, "lack") && !strstr(strstr(said, "lack") + 4, "lack"), "once");
	note_unseen("city,n,y\nA,1,1\nB,-5000,0\n", d, said);
	ok(strstr(said, "such as -5000 in column \"n\", whose mean is 2;"),
	    "a number that is far from the training data: %s", said);
	dataset_free(d);
	d = load("n,m,y\n1,1,1\n2,1,0\n3,2,1\n", "", &want, NULL, &e);
	note_unseen("n,m,y\n1,1e6,1\n2,1,0\n", d, said);
	ok(strstr(said, "such as 1000000 in column \"m\""), "in a table of numbers, too: %s", said);
	dataset_free(d);
	d = load("n,m,y\n1,1,1\n2,1,0\n3,2,1\n", "", &real, NULL, &e);
	note_unseen("n,m,y\n1,1e6,1\n2,1,0\n", d, said);
	ok(!*said, "without scaling no number is far: %s", said);
	dataset_free(d);
}

int main(void)
{
	unseen_values();
	impossible_days();
	latin_names();
	forms();
	decimal_commas();
	words();
	missing_category();
	weights();
	groups();
	labels();
	same_names();
	roles();
	target();
	several_targets();
	hashed();
	categories();
	headers();
	gaps();
	scales();
	wanted_scaling();
	evaluations();
	facts();
	extended();
	wide();
	refused("a,b,y\n1,x,2\n3,z,4\nfive,x,6\n", "categories=c", NULL, "categories=c");
	refused("a,b,y\n1,2,3\n", "scale=huge", NULL, "unknown scale \"huge\"");
	refused("a,b,y\n1,,3\n", "columns=a,b", NULL,
	    "columns= names 2 columns, but the file has 3");
	refused("a,b,y\n1,x,2\n3,\"z\n", "", NULL, "text:3:2: a quoted cell does not end");
	refused("a,b,y\n1,\"x\n\",2\n3,\"z\n4,x,5\n", "", NULL,
	    "text:4:2: a quoted cell does not end");
	refused("a,b,y\n1,x,2\n3,\"z,4\n5,\"x\",6\n", "", NULL, "text:3:2: the quotes of the cell");
	tabs();
	places();
	refused("a,b,y\n1,x,2\n3,\"z \"w\"\",4\n", "", NULL, "write a quote within quotes twice");
	refused("a,b,y\n1,2,3\nx,1,2,3\n", "", NULL,
	    "text:3: has 4 columns, but the first line has 3");
	refused("a,b,y\n1,t,3\nx,1,u,3\n", "", NULL,
	    "text:3: has 4 columns, but the first line has 3");
	/* R's write.table names the rows, and not their column. */
	refused("\"a\" \"y\"\n\"1\" 2 0\n\"2\" 5 1\n", "", NULL,
	    "text:2: has 3 columns, but the first line has 2; if the first column has no name");
	refused("a,b,y\n1,2,3,4\n", "", NULL, "add one at the start of the first line");
	refused("a,b,y\r1,2,3\r", "", NULL, "tr '\\r' '\\n'");
	inches();
	numbers();
	lies();
	splits();
	weighted_terms();
	shared_places();
	test_far_numbers();
	columns_as_fields();
	return tap_done();
}
