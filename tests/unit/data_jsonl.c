/* SPDX-License-Identifier: ISC */
/* JSON Lines. */
#include "table_fixture.h"

#include "core/buf.h"

static const char people[] =
    "{\"paid\": true, \"user\": {\"age\": 30, \"city\": \"Paris\"}, \"fee\": 1, \"likes\": [\"tea\", \"jazz\"]}\n"
    "{\"user\": {\"city\": \"New York\", \"age\": 50}, \"paid\": false, \"fee\": null, \"likes\": []}\n"
    "\n"
    "{\"paid\": true, \"fee\": 3, \"user\": {\"city\": \"Paris\"}, \"likes\": [\"tea\", \"tea\"], \"new\": 7}\r\n"
    "{\"paid\": false, \"fee\": \"2\", \"user\": {\"age\": 40, \"city\": null}}";

static void members(void)
{
	struct err e;
	struct dataset *d = load(people, "label=paid&ignore=new", &two, NULL, &e);

	/* age, fee, two cities, two likes */
	ok(d && d->rows == 4 && d->cols == 6, "nested members are columns: %s", d ? "" : e.msg);
	ok(ROW(d, 0, 30, 1, 0, 1, 1, 1), "an array of texts is several categories");
	ok(ROW(d, 1, 50, 2, 1, 0, 0, 0), "null is a missing number");
	ok(ROW(d, 2, 40, 3, 0, 1, 0, 1), "so is an absent one; a text counts once");
	ok(ROW(d, 3, 40, 2, 0, 0, 0, 0), "a text of digits is a number, null no category");
	ok(d && !strcmp(d->feature_name[0], "user.age") &&
	        !strcmp(d->feature_name[2], "user.city=New York") &&
	        !strcmp(d->feature_name[5], "likes=tea"),
	    "features have names with dots");
	ok(d && d->y[0] == 1 && d->y[1] == 0 && !strcmp(d->class_name[1], "1"),
	    "true and false are classes");
	dataset_free(d);
	d = load("{\"x\": [1.5, 2], \"zip\": 12345678901234567, \"y\": 3}\n"
	         "{\"x\": [2.5], \"zip\": 9, \"y\": 4}\n",
	    "categories=zip", &real, NULL, &e);
	ok(ROW(d, 0, 1.5, 2, 1, 0) && ROW(d, 1, 2.5, 2, 0, 1),
	    "elements of an array of numbers are columns: %s", d ? "" : e.msg);
	ok(d && !strcmp(d->feature_name[1], "x.1") &&
	        !strcmp(d->feature_name[2], "zip=12345678901234567") && d->y[1] == 4,
	    "ids keep their digits; y is the label");
	dataset_free(d);
	d = load("{\"tags\": [7, 9], \"y\": 1}\n{\"tags\": [9], \"y\": 2}\n", "categories=tags",
	    &real, NULL, &e);
	ok(ROW(d, 0, 1, 1) && ROW(d, 1, 0, 1), "an array of ids is several categories");
	dataset_free(d);
	d = load("{\"a\": 1, \"b\": 2, \"c\": 3, \"target\": 4}\n", "columns=c,a,target", &real,
	    NULL, &e);
	ok(ROW(d, 0, 3, 1), "columns= chooses members: %s", d ? "" : e.msg);
	dataset_free(d);
}

static void evaluations(void)
{
	struct err e;
	struct dataset *d = load(people, "label=paid&scale=standard", &two, NULL, &e), *v, *w;

	v = load("{\"user\": {\"age\": 40, \"city\": \"Oslo\"}, \"other\": {\"x\": 1}}\n", "", &any,
	    d, &e);
	ok(v && v->rows == 1 && v->cols == d->cols && v->x[0] == 0 && v->x[1] == 0,
	    "members are found by name, and the label may be missing: %s", v ? "" : e.msg);
	dataset_free(v);
	v = load("{\"user\": {\"age\": 40}}\n", "", &two, d, &e);
	ok(!v && strstr(e.msg, "no row has a label"), "or not: %s", e.msg);
	dataset_free(v);
	w = load("paid,user.city,user.age,fee,likes,new\nfalse,Paris,30,1,tea,\n", "", &any, d, &e);
	v = load("{\"user\": {\"age\": 30, \"city\": \"Paris\"}, \"fee\": 1, \"likes\": [\"tea\"]}",
	    "", &any, d, &e);
	ok(v && w && !memcmp(v->x, w->x, v->cols * sizeof *v->x),
	    "a model of JSON Lines scores CSV: %s", w ? "" : e.msg);
	dataset_free(v);
	dataset_free(w);
	dataset_free(d);
}

static void refusals(void)
{
	struct buf big = BUF_INIT;
	struct dataset *d;
	struct err e;

	refused("{\"a\": 1, \"y\": 2}\n{\"a\": [{\"b\": 1}], \"y\": 2}\n", "", NULL,
	    "text:2: \"a\" is an array with other items; a column has numbers");
	refused("{\"a\": 1, \"y\": 2}\n{\"a\": \"x\", \"y\": 2}\n{\"a\": 1, \"y\": 2}\n", "", NULL,
	    "text:2: \"x\" in the column of numbers \"a\"; correct or empty the cell, or, if the column has categories, "
	    "use ?categories=a");
	refused("{\"a\": 1, \"y\": 2}\n{\"a\": 1, \"y\": 2\n", "", NULL, "text:2:15: ");
	refused("{\n  \"a\": 1\n}\n", "", NULL,
	    "a line must be a complete object, which jq -c . writes");
	refused("{\"a\": 1, \"y\": 2},\n", "", NULL,
	    "text:1:17: end of file expected near ','; a line must be an object and nothing else");
	refused("{\"a\": NaN, \"y\": 2}\n", "", NULL,
	    "near 'NaN'; JSON has no such number: write null");
	refused("{\"a\": Infinity, \"y\": 2}\n", "", NULL, "JSON has no such number: write null");
	refused("{\"a\": 1, \"y\": 2}\n[1]\n", "", NULL,
	    "text:2: expected an object, got an array; convert an array with jq");
	refused("{\"a\": 1, \"y\": 2}\n{\"a\": 1, \"a\": 1}\n", "", NULL,
	    "text:2:12: duplicate object key");
	refused("{\"a\": {\"b\": 1}, \"a.b\": 2, \"y\": 1}\n", "", NULL, "\"a.b\" occurs twice");
	d = load("{\"\": \"x\", \"y\": 1}\n{\"y\": 2, \"\": \"z\"}\n", "", &real, NULL, &e);
	ok(d && d->cols == 2 && !strcmp(d->feature_name[1], "=z"), "a name may be empty: %s",
	    d ? "" : e.msg);
	dataset_free(d);
	refused("{\"a\": 1, \"b\": 2}\n", "", NULL, "name the label by ?label=");
	refused("{\"a\": 1, \"price\": 2}\n", "label=prize", NULL, "did you mean \"price\"?");
	refused("{\"a\": 1, \"y\": null}\n", "", NULL, "no row has a label");
	for (int i = 0; i < 40; i++)
		buf_puts(&big, "{\"a\":");
	buf_puts(&big, "1");
	for (int i = 0; i < 40; i++)
		buf_puts(&big, "}");
	refused((char *)big.data, "", NULL, "deeper than 32 objects");
	buf_clear(&big);
	buf_puts(&big, "{\"y\":1");
	for (int i = 0; i < 70000; i++)
		buf_printf(&big, ",\"%d\":1", i);
	buf_puts(&big, "}");
	refused((char *)big.data, "", NULL, "more than 65535 members");
	buf_clear(&big);
	buf_puts(&big, "{\"y\":1,\"a\":\"");
	for (int i = 0; i < 5 << 17; i++)
		buf_puts(&big, "01234567");
	buf_puts(&big, "\"}");
	refused((char *)big.data, "", NULL, "an object exceeds 4 MiB");
	buf_release(&big);
}

int main(void)
{
	members();
	evaluations();
	refusals();
	return tap_done();
}
