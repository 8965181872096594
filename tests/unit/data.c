/* SPDX-License-Identifier: ISC */
#include "tap.h"

#include <math.h>
#include <stdarg.h>

#include "core/buf.h"
#include "core/file.h"
#include "core/mem.h"
#include "data/data.h"
#include "data/data_build.h"
#include "format/npy.h"
#include "format/stream.h"

static char dir[] = "/tmp/pskit-data-XXXXXX";

static const struct data_want real, classes = { .classes = true }, two = { .two = true };

static void write_bytes(const char *name, const void *p, size_t n)
{
	char *path = path_join(dir, name);
	struct err e = { 0 };

	if (file_replace(path, p, n, 0600, &e) != ERR_OK)
		printf("# %s\n", e.msg);
	free(path);
}

static void write_text(const char *name, const char *text)
{
	write_bytes(name, text, strlen(text));
}

/* One path in the test's directory; NULL and e when it does not load. */
static struct dataset *load(const char *path, const struct data_want *want,
    const struct dataset *like, struct err *e)
{
	struct dataset *d;

	*e = (struct err){ 0 };
	data_load(&path, 1, dir, want, like, &d, e);
	return d;
}

/* Text under the name x, loaded; e says why not. */
static struct dataset *load_text(const char *text, const char *options,
    const struct data_want *want, const struct dataset *like, struct err *e)
{
	struct dataset *d;
	char *path = mem_printf("x%s", options);

	write_text("x", text);
	d = load(path, want, like, e);
	free(path);
	return d;
}

/* Refused, with both texts in the sentence. */
static bool refused(const char *text, const char *options, const struct data_want *want,
    const struct dataset *like, const char *a, const char *b)
{
	struct err e;
	struct dataset *d = load_text(text, options, want, like, &e);
	bool good = !d && e.code != ERR_OK && strstr(e.msg, a) && strstr(e.msg, b);

	printf("# %s\n", d ? "loaded" : e.msg);
	dataset_free(d);
	return good;
}

static bool row_is(const struct dataset *d, size_t r, size_t n, ...)
{
	bool good = d->start[r + 1] - d->start[r] == n;
	uint64_t k = d->start[r];
	va_list ap;

	va_start(ap, n);
	for (size_t i = 0; good && i < n; i++, k++) {
		int id = va_arg(ap, int);
		double v = va_arg(ap, double);

		good = d->id[d->col[k]] == (uint64_t)id && d->val[k] == (float)v;
	}
	va_end(ap);
	return good;
}

static void test_libsvm(void)
{
	struct dataset *d;
	struct err e;

	d = load_text("# heading\n+1 1:0.5 3:2 # note\n-1 qid:3 2:1e-1\n\n1.0\t5:-3 2:7 \r\n-1", "",
	    &two, NULL, &e);
	ok(d && d->rows == 4 && d->sparse && d->cols == 5 && d->index_base == 1,
	    "libsvm: one-based %s", e.msg);
	if (!d)
		return;
	ok(row_is(d, 0, 2, 0, .5, 2, 2.) && row_is(d, 1, 1, 1, .1) &&
	        row_is(d, 2, 2, 4, -3., 1, 7.) && row_is(d, 3, 0),
	    "entries");
	ok(d->y[0] == 1 && d->y[1] == 0 && d->y[2] == 1 && d->y[3] == 0 && d->classes == 2 &&
	        strcmp(d->class_name[0], "-1") == 0 && strcmp(d->class_name[1], "1") == 0,
	    "two classes");
	ok(d->nids == 4 && d->id[0] == 0 && d->id[3] == 4, "distinct ids, ascending");
	dataset_free(d);

	d = load_text("3 0:1 7:2\n12 1:1\n3 2:1\n", "", &classes, NULL, &e);
	ok(d && d->cols == 8 && d->index_base == 0 && row_is(d, 0, 2, 0, 1., 7, 2.),
	    "zero-based by content");
	ok(d && d->classes == 2 && d->label[0] == 0 && d->label[1] == 1 && d->label[2] == 0 &&
	        strcmp(d->class_name[1], "12") == 0,
	    "classes sort as numbers");
	dataset_free(d);
	d = load_text("3 1:1 7:2\n12 1:1\n", "?index_base=0", &classes, NULL, &e);
	ok(d && d->cols == 8 && d->id[0] == 1, "zero-based as told");
	dataset_free(d);
	d = load_text("yes 1:0.5 7:2\nnot now 1:1\n", "", &classes, NULL, &e);
	ok(!d && strstr(e.msg, "expected index:value, got \"now\""), "a name has no blank");
	dataset_free(d);
	d = load_text("yes 1:0.5 7:2\n\tno\t1:1 # text\nyes\n", "", &classes, NULL, &e);
	ok(d && d->classes == 2 && strcmp(d->class_name[1], "yes") == 0 && d->label[0] == 1 &&
	        d->label[1] == 0 && d->label[2] == 1 && row_is(d, 0, 2, 0, .5, 6, 2.) &&
	        row_is(d, 1, 1, 0, 1.),
	    "classes with names: %s", e.msg);
	dataset_free(d);
	d = load_text("mon 08:30 12:15\ntue 09:00 13:45\nmon 10:00 11:00\n", "?label=1", &classes,
	    NULL, &e);
	ok(d && d->rows == 3 && !d->sparse && d->cols == 2, "times are no entries: %s", e.msg);
	dataset_free(d);
	d = load_text("3.5 1:1 7:2\n-1e2 1:1\n", "", &real, NULL, &e);
	ok(d && d->y[0] == 3.5f && d->y[1] == -100 && d->classes == 0 && !d->label, "real targets");
	dataset_free(d);
	d = load_text("1 5:1 999999999999999999:2\n2 123456789012:3 5:1\n", "", &two, NULL, &e);
	ok(d && d->cols == 999999999999999999u && d->nids == 3 && d->id[1] == 123456789011u &&
	        d->col[2] == 1 && d->col[3] == 0,
	    "large ids");
	dataset_free(d);
}

static void test_libsvm_sums(void)
{
	struct err e;
	struct dataset *d = load_text("1 1:1 3:2\n-1 3:1 1:1 2:1 1:5 3:0.5\n", "", &two, NULL, &e);

	ok(d && row_is(d, 0, 2, 0, 1., 2, 2.) && row_is(d, 1, 3, 2, 1.5, 0, 6., 1, 1.),
	    "values of an index that comes again are added %s", e.msg);
	dataset_free(d);
	d = load_text("1 10000000000:1 7:2 10000000000:3\n-1 1:1\n", "", &two, NULL, &e);
	ok(d && d->start[1] == 2 && d->val[0] == 4 && d->val[1] == 2, "large indices, too %s",
	    e.msg);
	dataset_free(d);
}

static void test_libsvm_errors(void)
{
	struct dataset *like;
	struct err e;

	ok(refused("1 1:1\n-1 2:x\n", "", &two, NULL, "/x:2: ", "\"2:x\""), "bad value");
	ok(refused("1 1:1\n-1 2\n", "", &two, NULL, "/x:2: ", "expected index:value, got \"2\""),
	    "no colon");
	ok(refused("1 1:1\n-1 a:1\n", "", &two, NULL, "/x:2: ", "\"a:1\""), "bad index");
	ok(refused("1 1:1\n-1 -1:1\n", "", &two, NULL, "/x:2: expected an index of at least 0",
	       "\"-1:1\""),
	    "negative index");
	ok(refused("1 1:1\n-1 1:1e39\n", "", &two, NULL, "/x:2: ", "finite"), "beyond float32");
	ok(refused("1 1:1\n-1 1:nan\n", "", &two, NULL, "/x:2: expected a finite number as value",
	       "\"1:nan\""),
	    "not a number");
	ok(refused("1 1:1\n-1 7 1:3\n", "", &two, NULL, "/x:2: expected index:value",
	       "written as qid:7"),
	    "the number of a query");
	ok(refused("1 1:1\n-1 qid 1:3\n", "", &two, NULL, "/x:2: expected index:value",
	       "written as qid:1"),
	    "the number of a query is missing");
	ok(refused("1 1:1\n-1 9999999999999999999:1\n", "", &two, NULL, "/x:2: ", "below 10^18"),
	    "huge index");
	ok(refused("1 1:1\nspam 1:1\n", "", &real, NULL, "/x:2: ", "got \"spam\""), "bad label");
	ok(refused("1 1:1\n1spam 1:1\n", "", &two, NULL, "/x:2: ", "got \"1spam\""),
	    "a label that begins as a number");
	ok(refused("yes 1:1\nage:2 1:1\n", "?format=libsvm", &two, NULL, "/x:2: ", "got \"age:2\""),
	    "no label");
	ok(refused("yes age:1.5 pay:1\n", "", &two, NULL,
	       "/x:1: ", "got \"age:1.5\"; features with names need format=vw"),
	    "names of features");
	ok(refused("0,1 1:1\n1 3:7\n", "", &two, NULL, "/x:1: ", "several labels"),
	    "several labels in the first line");
	ok(refused("1 1:1\n1,2 1:1\n", "", &two, NULL, "/x:2: ", "several labels"),
	    "several labels");
	ok(refused("1 1:1\n1 3:7:1\n", "", &two, NULL, "/x:2: ", "field:index:value"), "libffm");
	ok(refused("1 1:1\n2 1:1\n3 1:1\n", "", &two, NULL, "/x:3: ", "job.model softmax"),
	    "a third class");
	ok(refused("1 1:1\n1 1:1\n", "", &two, NULL, "all labels are \"1\"", "at least two"),
	    "one class");
	ok(refused("1 1:1\n2.5 1:1\n", "", &classes, NULL,
	       "/x:2: labels look like real numbers (2.5)", "job.model linear"),
	    "real labels");
	ok(refused("1 0:1\n", "?index_base=1", &real, NULL, "/x:1: ", "index 0"), "index 0");
	ok(refused("# nothing\n", "?format=libsvm", &real, NULL, "has no examples", "x"),
	    "no examples");
	ok(refused("1\n2\n", "?format=libsvm", &real, NULL, "no example has a feature", "x"),
	    "no features");
	ok(refused("", "", &real, NULL, "is empty", "x"), "empty");
	ok(refused("\001\002\003", "", &real, NULL, "none of the formats", "?format="), "unknown");
	like = load_text("1 1:1 4:1\n2 1:1\n", "", &classes, NULL, &e);
	ok(like &&
	        refused("1 1:1\n7 1:1\n", "", &classes, like, "/x:2: label \"7\" does not occur",
	            "1, 2"),
	    "a class that training has not");
	ok(refused("1 0:1\n", "", &classes, like, "/x:1: index 0", "training"),
	    "base of the training data");
	ok(refused("1,2,3\n", "", &classes, like, "dense", "sparse"), "another kind of rows");
	dataset_free(like);
}

static void test_many_classes(void)
{
	static const struct data_want many = { .classes = true, .many = true };
	struct buf b = BUF_INIT;
	struct dataset *d;
	struct err e;

	for (int i = 0; i <= 100000; i++)
		buf_printf(&b, "%d 1:1\n", i);
	ok(refused((char *)b.data, "", &classes, NULL, "/x:100001: ", "real numbers"),
	    "too many classes");
	d = load_text((char *)b.data, "", &many, NULL, &e);
	ok(d && d->classes == 100001 && d->label[100000] == 100000,
	    "not for a model that is meant for very many: %s", e.msg);
	dataset_free(d);
	buf_release(&b);
}

static void test_like(void)
{
	struct dataset *train, *eval;
	struct err e;

	train = load_text("b 1 2\n", "", &classes, NULL, &e);
	ok(!train, "blanks do not separate: %s", e.msg);
	train = load_text("0 0:1 5:1\n1 1:1\n2 1:1\n", "", &classes, NULL, &e);
	eval = load_text("2 1:1\n", "", &classes, train, &e);
	ok(eval && eval->index_base == 0 && eval->id[0] == 1 && eval->cols == 6 &&
	        eval->classes == 3 && eval->label[0] == 2,
	    "classes, base and width of the training data");
	dataset_free(eval);
	eval = load_text("1 1:1 99:1\n", "", &classes, train, &e);
	ok(eval && eval->cols == 100 && eval->id[1] == 99, "ids beyond the training data stay");
	dataset_free(eval);
	dataset_free(train);
	train = load_text("a,b,y\n1,2,cat\n3,4,dog\n", "", &classes, NULL, &e);
	eval = load_text("a,b,y\n1,2,dog\n", "", &classes, train, &e);
	ok(eval && eval->label[0] == 1 && eval->classes == 2, "names of classes %s", e.msg);
	dataset_free(eval);
	eval = load_text("b,a,y\n1,2,dog\n", "", &classes, train, &e);
	ok(eval && eval->x[0] == 2 && eval->x[1] == 1, "columns in other order %s", e.msg);
	dataset_free(eval);
	ok(refused("b,c,y\n1,2,dog\n", "", &classes, train, "/x:1: has no column", "\"a\""),
	    "a column is missing");
	ok(refused("1,2,3,dog\n", "", &classes, train, "/x:1: has 3 features", "has 2"),
	    "another width");
	ok(refused("1,2,cow\n", "", &classes, train, "/x:1: label \"cow\"", "cat, dog"),
	    "an unknown class");
	dataset_free(train);
	train = load_text("-1,5\n+1,6\n", "?label=1", &two, NULL, &e);
	eval = load_text("1,6\n", "?label=1", &two, train, &e);
	ok(eval && eval->y[0] == 1, "one class alone in evaluation data");
	dataset_free(eval);
	dataset_free(train);
}

static bool dense_is(const struct dataset *d, size_t cols, const float *want)
{
	return d && !d->sparse && d->cols == cols &&
	    memcmp(d->x, want, d->rows * cols * sizeof(*want)) == 0;
}

static void test_csv(void)
{
	static const float v[] = { 1, 2.5f, -3, 4 }, first[] = { 2.5f, 7, 4, 8 },
	                   middle[] = { 1, 7, -3, 8 };
	struct dataset *d;
	struct err e;

	d = load_text("1,2.5,7\n-3,4,8\n", "", &real, NULL, &e);
	ok(dense_is(d, 2, v) && d->y[0] == 7 && d->y[1] == 8 && !d->feature_name,
	    "no header, label last");
	dataset_free(d);
	d = load_text("a,b,y\r\n1,2.5,7\r\n-3,4,8\r\n", "?label=last", &real, NULL, &e);
	ok(dense_is(d, 2, v) && d->y[1] == 8 && strcmp(d->feature_name[1], "b") == 0,
	    "header, CRLF");
	dataset_free(d);
	d = load_text("y,b,c\n1,2.5,7\n-3,4,8\n", "?label=y", &real, NULL, &e);
	ok(dense_is(d, 2, first) && d->y[0] == 1 && strcmp(d->feature_name[0], "b") == 0,
	    "label by name");
	dataset_free(d);
	d = load_text("1;2.5;7\n-3;4;8", "?label=2", &real, NULL, &e);
	ok(dense_is(d, 2, middle) && d->y[0] == 2.5f && d->y[1] == 4,
	    "semicolons, label by number");
	dataset_free(d);
	d = load_text("1\t2.5\t7\n-3\t4\t8\n", "", &real, NULL, &e);
	ok(dense_is(d, 2, v), "tabs");
	dataset_free(d);
	d = load_text("\xef\xbb\xbf 1 , \"2.5\" ,\"a \"\"b\"\"\"\n\n-3,4,\"c\nd, e\"\n", "",
	    &classes, NULL, &e);
	ok(dense_is(d, 2, v) && d->classes == 2 && strcmp(d->class_name[0], "a \"b\"") == 0 &&
	        strcmp(d->class_name[1], "c\nd, e") == 0,
	    "quotes, blanks, a byte order mark %s", e.msg);
	dataset_free(d);
	d = load_text("w,h,kind\n1,2.5,pear\n-3,4,apple\n", "", &classes, NULL, &e);
	ok(dense_is(d, 2, v) && d->label[0] == 1 && d->label[1] == 0 &&
	        strcmp(d->class_name[0], "apple") == 0,
	    "a header above class names");
	dataset_free(d);
	d = load_text("1,2.5,pear\n-3,4,apple\n", "", &classes, NULL, &e);
	ok(dense_is(d, 2, v) && d->rows == 2, "class names without a header");
	dataset_free(d);
	d = load_text("pear,2.5,7\napple,4,8\n", "?label=1", &two, NULL, &e);
	ok(dense_is(d, 2, first) && d->y[0] == 1 && d->y[1] == 0, "class names in front");
	dataset_free(d);
	d = load_text("0,1,y\n1,2.5,7\n-3,4,8\n", "", &real, NULL, &e);
	ok(dense_is(d, 2, v) && d->rows == 2, "a header with numbers for names");
	dataset_free(d);
	d = load_text("1,2,10\n1,2,9\n1,2,9.0\n1,2,x\n", "", &classes, NULL, &e);
	ok(d && d->classes == 3 && d->label[0] == 0 && d->label[1] == 1 && d->label[2] == 1 &&
	        d->label[3] == 2,
	    "numbers among names sort bytewise, once each");
	dataset_free(d);
}

static void test_csv_errors(void)
{
	ok(refused("1,2,3\n4,spam,6\n", "", &real, NULL, "/x:2:2: expected a number, got \"spam\"",
	       ""),
	    "text");
	ok(refused("1,2,3\n4,5\n", "", &real, NULL, "/x:2: has 2 columns", "has 3"), "too few");
	ok(refused("1,2,3\n4,5,6,7\n", "", &real, NULL, "/x:2: has 4 columns", "has 3"),
	    "too many");
	ok(refused("1,2,3\n4,1e40,7\n", "", &real, NULL, "/x:2:2: ", "finite"), "beyond float32");
	ok(refused("1,2,3\n4,\"5\"x,7\n", "", &real, NULL, "/x:2:2: ", "quotes"),
	    "text behind a quote");
	ok(refused("1,2,3\n4,\"5,7\n", "", &real, NULL, "/x:2:2: ", "does not end"),
	    "an open quote");
	ok(refused("1,2,3\n4,5,cat\n", "", &real, NULL, "/x:2: ", "job.model softmax"),
	    "a class, not a number");
	ok(refused("1,2,3\n4,5,6.5\n", "", &classes, NULL, "/x:2: labels look like real numbers",
	       "linear"),
	    "a number, not a class");
	ok(refused("price,size,y\n4,5,6.5\n", "?label=prise", &real, NULL,
	       "did you mean \"price\"?", "/x:1"),
	    "no such column");
	ok(refused("1,2,3\n4,5,6.5\n", "?label=prise", &real, NULL, "no header", "number"),
	    "no header");
	ok(refused("1,2,3\n4,5,6.5\n", "?label=4", &real, NULL, "1 to 3", "label=4"),
	    "no such number");
	ok(refused("1,2,3\n4,5,6.5\n", "?label=0", &real, NULL, "1 to 3", "label=0"),
	    "columns count from 1");
	ok(refused("7\n8\n", "?format=csv", &real, NULL, "has one column", "/x:1"),
	    "a label alone");
	ok(refused("a,b,y\n", "", &real, NULL, "has no examples", "x"), "a header alone");
}

static void put_be32(struct buf *b, uint32_t v)
{
	uint8_t p[4] = { (uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v };

	buf_append(b, p, 4);
}

/* n images of 2x3 and their labels, which are n % 3. */
static void write_idx(const char *images, const char *labels, uint32_t n, uint32_t cut)
{
	struct buf x = BUF_INIT, y = BUF_INIT;

	buf_append(&x, "\0\0\x08\x03", 4);
	put_be32(&x, n);
	put_be32(&x, 2);
	put_be32(&x, 3);
	buf_append(&y, "\0\0\x08\x01", 4);
	put_be32(&y, n);
	for (uint32_t i = 0; i < n; i++) {
		for (uint32_t k = 0; k < 6; k++)
			buf_append(&x, &(uint8_t){ (uint8_t)(i * 7 + k * 40) }, 1);
		buf_append(&y, &(uint8_t){ (uint8_t)(i % 3) }, 1);
	}
	write_bytes(images, x.data, x.len - cut);
	if (labels)
		write_bytes(labels, y.data, y.len);
	buf_release(&x);
	buf_release(&y);
}

static void test_idx(void)
{
	struct dataset *d;
	struct err e;

	write_idx("t-images-idx3-ubyte", "t-labels-idx1-ubyte", 50, 0);
	d = load("t-images-idx3-ubyte", &classes, NULL, &e);
	ok(d && d->rows == 50 && d->cols == 6 && d->x8 && !d->x && d->scale == 1.f / 255 &&
	        d->classes == 3 && d->label[4] == 1 && d->x8[7] == 47,
	    "idx: images and their labels %s", e.msg);
	dataset_free(d);
	d = load("t-images-idx3-ubyte?labels=t-labels-idx1-ubyte", &real, NULL, &e);
	ok(d && d->y[5] == 2, "idx: labels by name, as numbers %s", e.msg);
	dataset_free(d);
	write_idx("t-images-idx3-ubyte", NULL, 51, 0);
	d = load("t-images-idx3-ubyte", &classes, NULL, &e);
	ok(!d && strstr(e.msg, "50 labels") && strstr(e.msg, "51 examples"), "idx: %s", e.msg);
	write_idx("t-images-idx3-ubyte", NULL, 50, 8);
	d = load("t-images-idx3-ubyte", &classes, NULL, &e);
	ok(!d && strstr(e.msg, "cut off") && strstr(e.msg, "48 of 50"), "idx: %s", e.msg);
	write_idx("t-images-idx3-ubyte", NULL, 50, 304);
	d = load("t-images-idx3-ubyte", &classes, NULL, &e);
	ok(!d && strstr(e.msg, "cut off within"), "idx: %s", e.msg);
	d = load("t-labels-idx1-ubyte", &classes, NULL, &e);
	ok(!d && strstr(e.msg, "name the file of images"), "idx: %s", e.msg);
	write_idx("u-images-idx3-ubyte", NULL, 9, 0);
	d = load("u-images-idx3-ubyte", &classes, NULL, &e);
	ok(!d && e.code == ERR_IO && strstr(e.msg, "u-labels-idx1-ubyte"), "idx: %s", e.msg);
	write_idx("u", NULL, 9, 0);
	d = load("u", &classes, NULL, &e);
	ok(!d && e.code == ERR_IO && strstr(e.msg, "?labels="), "idx: %s", e.msg);
	write_bytes("u", "\0\0\x0d\x03\0\0\0\1\0\0\0\1\0\0\0\1\0\0\0\0", 20);
	d = load("u", &classes, NULL, &e);
	ok(!d && strstr(e.msg, "type 0x0d"), "idx: %s", e.msg);
	write_bytes("u", "\0\0\x08\x03\0\0\0\1\xff\xff\xff\xff\xff\xff\xff\xff", 16);
	d = load("u?labels=u", &classes, NULL, &e);
	ok(!d && strstr(e.msg, "more than"), "idx: %s", e.msg);
}

static void write_npy(const char *name, const float *x, const uint64_t *shape, size_t rank)
{
	struct buf b = BUF_INIT;
	uint64_t n = 1;

	for (size_t i = 0; i < rank; i++)
		n *= shape[i];
	npy_put_header(&b, shape, rank);
	buf_append(&b, x, n * sizeof(*x));
	write_bytes(name, b.data, b.len);
	buf_release(&b);
}

/* Writes an array of double, of rows by 2. */
static void write_doubles(const char *name, const double *x, size_t rows)
{
	struct buf b = BUF_INIT;
	FILE *f;
	char path[200];

	npy_put_header(&b, (uint64_t[]){ rows, 2 }, 2);
	((char *)memmem(b.data, b.len, "<f4", 3))[2] = '8';
	buf_append(&b, x, 2 * rows * sizeof *x);
	snprintf(path, sizeof path, "%s/%s", dir, name);
	f = fopen(path, "w");
	if (!f || fwrite(b.data, 1, b.len, f) != b.len || fclose(f) != 0)
		abort();
	buf_release(&b);
}

/* Large numbers that lie close together are refused where they are not centred. */
static void test_spread(void)
{
	static const double times[] = { 1.6e12, 1, 1.6e12 + 700, 2, 1.6e12 + 2000, 3 },
	                    targets[] = { 1, 1e9, 2, 1e9 + 1, 3, 1e9 + 3 },
	                    ids[] = { 16000001, 1, 16000002, 2, 16000003, 3 },
	                    noise[] = { 0.1, 1, 0.1 + 1e-17, 2, 0.1 - 2e-17, 3 };
	struct err e = { 0 };
	struct dataset *d;

	write_doubles("t.npy", times, 3);
	d = load("t.npy", &real, NULL, &e);
	ok(!d && strstr(e.msg, "t.npy: feature 1 lies between 1600000000000 and 1600000002000") &&
	        strstr(e.msg, "x - x.mean(0)"),
	    "npy: %s", e.msg);
	write_doubles("t.npy", targets, 3);
	d = load("t.npy", &real, NULL, &e);
	ok(!d && strstr(e.msg, "t.npy: the labels lie between 1000000000 and 1000000003"),
	    "npy: %s", e.msg);
	write_doubles("t.npy", ids, 3);
	d = load("t.npy", &real, NULL, &e);
	ok(d && d->x[1] - d->x[0] == 1, "npy: whole numbers that float32 has: %s", e.msg);
	dataset_free(d);
	write_doubles("t.npy", noise, 3);
	d = load("t.npy", &real, NULL, &e);
	ok(d != NULL, "npy: one value but for rounding: %s", e.msg);
	dataset_free(d);
	ok(refused("1000000000 1:1\n1000000001 1:2\n", "", &real, NULL, "the labels lie between",
	       "subtract the mean"),
	    "libsvm: targets near 10^9");
	ok(refused("1 2:1.6e12 3:1\n2 2:1600000000700\n3 3:4 2:1600000002000\n", "", &real, NULL,
	       "feature 2 lies between 1600000000000 and 1600000002000", "subtract the mean"),
	    "libsvm: a feature");
	ok(refused("1 5000000000:1.6e12\n2 5000000000:1600000000700\n", "", &real, NULL,
	       "feature 5000000000 lies between", ""),
	    "libsvm: a large index");
	d = load_text("1 1:1600000000001 2:1600000000001 70000:1600000000001 3:7\n"
	              "2 1:0 2:1700000000001 70000:1600000000002 80000:1600000000001\n",
	    "", &(struct data_want){ .spreads = 2 }, NULL, &e);
	ok(d && d->reading.unwatched == 3,
	    "libsvm: %llu numbers of features after those that are watched: %s",
	    d ? (unsigned long long)d->reading.unwatched : 0, e.msg);
	dataset_free(d);
	d = load_text("1 2:1.6e12 3:1\n2 2:1600000000700\n3 3:4\n", "", &real, NULL, &e);
	ok(d != NULL, "libsvm: 0 where a row lacks the feature: %s", e.msg);
	dataset_free(d);
	d = load_text("1 2:5\n2 2:1600000000700\n3 2:1600000002000\n", "", &real, NULL, &e);
	ok(d != NULL, "libsvm: small numbers before large ones: %s", e.msg);
	dataset_free(d);
	ok(refused("1 0:7:1.6e12\n2 0:7:1600000000700\n", "", &real, NULL, "feature 7 lies between",
	       ""),
	    "libffm: a feature");
	ok(refused("1000000000 0:7:1\n1000000001 0:7:2\n", "?format=ffm", &real, NULL,
	       "the labels lie between", ""),
	    "libffm: targets");
	ok(refused("1 |a t:1.6e12\n2 |a t:1600000000700\n", "", &real, NULL, "feature ",
	       " lies between 1600000000000 and 1600000000700"),
	    "vw: a feature");
	ok(refused("1 |a:1e9 t:1600\n2 |a:1e9 t:1600.0000007\n", "", &real, NULL, "feature ",
	       " lies between"),
	    "vw: a feature with a scale");
	ok(refused("1000000000 |a t\n1000000001 |a u\n", "", &real, NULL, "the labels lie between",
	       ""),
	    "vw: targets");
	d = load_text("t,y\n5,1\n1600000000700,2\n1600000002000,3\n", "", &real, NULL, &e);
	ok(d != NULL, "csv: small numbers before large ones: %s", e.msg);
	dataset_free(d);
	ok(refused("y,z,t\n1,1000000000,1\n2,1000000001,2\n", "?label=y,z", &real, NULL,
	       "the labels of target 2 lie between", ""),
	    "csv: the second target");
	d = load_text("t,y\n1600000000000,1\n1600000000700,2\n1600000002000,3\n", "", &real, NULL,
	    &e);
	ok(!d && strstr(e.msg, "feature 1 (t) lies between") && strstr(e.msg, "?scale=standard"),
	    "csv: %s", e.msg);
	d = load_text("t,c,y\n1600000000000,a,1\n1600000000700,b,2\n1600000002000,a,3\n",
	    "?scale=none", &real, NULL, &e);
	ok(!d && strstr(e.msg, "feature 1 (t) lies between"), "a table with scale=none: %s", e.msg);
	d = load_text("t,c,y\n1600000000000,a,1\n1600000000700,b,2\n1600000002000,a,3\n",
	    "?scale=standard", &real, NULL, &e);
	ok(d && d->x[0] < -1, "it is centred: %s", e.msg);
	dataset_free(d);
}

static void test_npy(void)
{
	static const float x[6] = { 1, 2, 3, 4, 5, 6 }, y[2] = { 7, 8 }, last[] = { 1, 2, 4, 5 };
	static const float bad[6] = { 1, 2, 3, 4, INFINITY, 6 };
	struct dataset *d;
	struct err e;

	write_npy("x.npy", x, (uint64_t[]){ 2, 3 }, 2);
	write_npy("y.npy", y, (uint64_t[]){ 2 }, 1);
	d = load("x.npy", &real, NULL, &e);
	ok(dense_is(d, 2, last) && d->y[0] == 3 && d->y[1] == 6, "npy: label last %s", e.msg);
	dataset_free(d);
	d = load("x.npy?label=1", &real, NULL, &e);
	ok(d && d->cols == 2 && d->y[1] == 4 && d->x[0] == 2, "npy: label by number");
	dataset_free(d);
	d = load("x.npy?labels=y.npy", &classes, NULL, &e);
	ok(dense_is(d, 3, x) && d->label[1] == 1 && strcmp(d->class_name[1], "8") == 0,
	    "npy: labels apart %s", e.msg);
	dataset_free(d);
	d = load("x.npy?label=y", &real, NULL, &e);
	ok(!d && strstr(e.msg, "1 to 3"), "npy: %s", e.msg);
	d = load("y.npy", &real, NULL, &e);
	ok(!d && strstr(e.msg, "expected two"), "npy: %s", e.msg);
	d = load("x.npy?labels=x.npy", &real, NULL, &e);
	ok(!d && e.code == ERR_FORMAT, "npy: %s", e.msg);
	write_npy("x.npy", bad, (uint64_t[]){ 2, 3 }, 2);
	d = load("x.npy", &real, NULL, &e);
	ok(!d && strstr(e.msg, "row 2, column 2"), "npy: %s", e.msg);
}

static void test_several(void)
{
	static const char *const both[] = { "p-1.csv", "p-2.csv" },
	                         *const mixed[] = { "p-1.csv", "q" };
	static const char *const bases[] = { "q0", "q?index_base=1" };
	struct dataset *d;
	char text[DATA_DESCRIPTION];
	struct err e = { 0 };

	write_text("p-1.csv", "a,y\n1,0\n2,1\n");
	write_text("p-2.csv", "a,y\n3,0\n");
	write_text("q", "1 1:1\n");
	ok(data_load(both, 2, dir, &two, NULL, &d, &e) == ERR_OK && d->rows == 3 && d->x[2] == 3,
	    "two files");
	dataset_free(d);
	d = load("p-?.csv?label=y", &two, NULL, &e);
	ok(d && d->rows == 3 && d->x[2] == 3, "a glob %s", e.msg);
	if (d)
		data_describe(d, text);
	ok(d && strstr(text, "3 examples, 1 feature, 2 classes, dense, CSV (") &&
	        strstr(text, " and 1 more)"),
	    "%s", text);
	dataset_free(d);
	d = load("none-*.csv", &two, NULL, &e);
	ok(!d && e.code == ERR_NOTFOUND && strstr(e.msg, "no file matches"), "%s", e.msg);
	d = load("none.csv", &two, NULL, &e);
	ok(!d && e.code == ERR_NOTFOUND && strstr(e.msg, "No such file"), "%s", e.msg);
	write_text("q0", "1 0:1\n");
	ok(data_load(bases, 2, dir, &real, NULL, &d, &e) == ERR_FORMAT && strstr(e.msg, "index 0"),
	    "%s", e.msg);
	ok(data_load(mixed, 2, dir, &two, NULL, &d, &e) == ERR_FORMAT &&
	        strstr(e.msg, "the same format"),
	    "%s", e.msg);
	write_text("p-2.csv", "b,y\n3,0\n");
	ok(data_load(both, 2, dir, &two, NULL, &d, &e) == ERR_FORMAT &&
	        strstr(e.msg, "named \"b\""),
	    "%s", e.msg);
	write_text("p-1.csv", "a,y\n");
	write_text("p-2.csv", "a,b,y\n3,0,1\n");
	ok(data_load(both, 2, dir, &two, NULL, &d, &e) == ERR_FORMAT, "%s", e.msg);
	ok(data_load(NULL, 0, dir, &two, NULL, &d, &e) == ERR_CONFIG, "%s", e.msg);
}

/* n examples with one id each: first, first + 3, ..., 1000 different ones. Are they numbered in their order? */
static bool numbers_ids(size_t n, uint64_t first)
{
	struct buf text = BUF_INIT;
	struct dataset *d;
	struct err e;
	bool good;

	for (size_t i = 0; i < n; i++)
		buf_printf(&text, "1 %llu:1\n", (unsigned long long)(first + 3 * (i * 7 % 1000)));
	buf_append(&text, "", 1);
	d = load_text((const char *)text.data, "", &real, NULL, &e);
	good = d && d->rows == n && d->nids == 1000 && d->index_base == (first > 0);
	for (size_t i = 0; good && i < n; i++)
		good = d->col[i] == i * 7 % 1000 &&
		    d->id[d->col[i]] == first + 3 * d->col[i] - (first > 0);
	dataset_free(d);
	buf_release(&text);
	return good;
}

/* Ids are marked in a table of DATA_DIRECT bytes, which must not be cleared for each batch of a stream and each
 * line to score. */
static void test_many_ids(void)
{
	struct data_build *b = data_build_new(&real, NULL, NULL);
	struct stream *s = NULL;
	struct err e = { 0 };
	uint32_t *id;
	uint64_t *wide;
	float *val;

	for (uint64_t first = 0; first <= 5000000; first = first ? 5 * first : 8)
		ok(numbers_ids(2000, first) && numbers_ids(DATA_SEEN_FROM + 2000, first),
		    "ids from %d on are numbered in order", (int)first);
	stream_memory("", 0, "nothing", &s, &e);
	for (size_t i = 0; i < DATA_SEEN_FROM; i++) {
		if (data_build_sparse(b, s, 1, &id, &wide, &val, &e))
			break;
		*id = 5;
		*val = 1;
		data_build_row(b, 1);
		if (i == DATA_SEEN_FROM - 2)
			ok(!b->seen, "no table is made for few values");
	}
	ok(b->seen && b->seen[5] && !b->seen[4] && b->min_id == 5, "one is made for many");
	stream_close(s);
	data_build_free(b);
}

int main(void)
{
	if (!mkdtemp(dir))
		return 1;
	test_libsvm();
	test_libsvm_sums();
	test_libsvm_errors();
	test_many_classes();
	test_like();
	test_csv();
	test_csv_errors();
	test_idx();
	test_npy();
	test_spread();
	test_several();
	test_many_ids();
	ok(file_remove_tree(dir, NULL) == ERR_OK, "cleaned up");
	return tap_done();
}
