/* SPDX-License-Identifier: ISC */
/* Tables with text, missing cells and scaled numbers. */
#include "table_fixture.h"

#include "core/buf.h"
#include "data/data_schema.h"
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
	refused("age,city,fee\n20,Paris,1\n", "", d, "has no column of labels");
	refused("age,fee,paid\n20,1,yes\n", "", d, "has no column \"city\"");
	refused("1,2\n3,4\n", "", d, "has 2 columns, and there were 4 before");
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

int main(void)
{
	categories();
	headers();
	gaps();
	scales();
	evaluations();
	facts();
	extended();
	wide();
	refused("a,b,y\n1,x,2\n3,z,4\nfive,x,6\n", "categories=c", NULL, "categories=c");
	refused("a,b,y\n1,2,3\n", "scale=huge", NULL, "unknown scale \"huge\"");
	refused("a,b,y\n1,,3\n", "columns=a,b", NULL,
	    "columns= names 2 columns, and the file has 3");
	refused("a,b,y\n1,x,2\n3,\"z\n", "", NULL, "does not end");
	return tap_done();
}
