/* SPDX-License-Identifier: ISC */
/* Examples in pieces: the same ones in the same order as all at once. */
#include "tap.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include "core/buf.h"
#include "core/mem.h"
#include "data/data_sequence.h"

static const struct data_want real, two = { .two = true };
static char dir[] = "/tmp/pskit-sequence-XXXXXX";
static struct data_cache no_cache;

static char *put_file(const char *name, const char *text, size_t n)
{
	char *path = mem_printf("%s/%s", dir, name);
	FILE *f = fopen(path, "w");

	if (!f || fwrite(text, 1, n, f) != n || fclose(f) != 0)
		abort();
	return path;
}

static char *put_gz(const char *name, const char *text, size_t n)
{
	char *path = mem_printf("%s/%s", dir, name);
	gzFile f = gzopen(path, "w");

	if (!f || gzwrite(f, text, (unsigned)n) != (int)n || gzclose(f) != Z_OK)
		abort();
	return path;
}

/* Compares a pass over the sequence with the whole data. Returns the number of pieces; -1: they differ. */
static int compare_pass(struct data_sequence *s, const struct dataset *all)
{
	const struct dataset *p;
	struct err e = { 0 };
	size_t at = 0;
	int pieces = 0;

	while (data_sequence_next(s, &p, &e) == ERR_OK && p) {
		pieces++;
		for (size_t r = 0; r < p->rows; r++, at++) {
			if (at >= all->rows || (all->y && p->y[r] != all->y[at]))
				return -1;
			for (size_t k = 0; p->x8 && k < p->cols; k++)
				if (p->x8[r * p->cols + k] != all->x8[at * p->cols + k])
					return -1;
			for (size_t k = 0; !p->sparse && !p->x8 && k < p->cols; k++)
				if (p->x[r * p->cols + k] != all->x[at * p->cols + k])
					return -1;
			for (uint64_t k = 0; p->sparse && k < p->start[r + 1] - p->start[r]; k++)
				if (p->id[p->col[p->start[r] + k]] !=
				        all->id[all->col[all->start[at] + k]] ||
				    p->val[p->start[r] + k] != all->val[all->start[at] + k])
					return -1;
		}
	}
	if (e.code || at != all->rows) {
		printf("# %zu of %zu rows: %s\n", at, all->rows, e.msg);
		return -1;
	}
	return pieces;
}

/* Reads the paths at once and in pieces, twice each. */
static void same_examples(const char *const *paths, size_t npaths, const struct data_want *want,
    const char *what)
{
	struct data_sequence_spec spec = { .paths = paths,
		.npaths = npaths,
		.want = want,
		.cache = &no_cache,
		.memory = 200000 };
	struct data_sequence *s = NULL;
	struct dataset *all = NULL;
	struct err e = { 0 };
	int first, second;

	if (data_load(paths, npaths, NULL, want, NULL, &all, &e)) {
		ok(false, "%s: %s", what, e.msg);
		return;
	}
	spec.like = all;
	if (data_sequence_open(&spec, &s, &e)) {
		ok(false, "%s: %s", what, e.msg);
		return;
	}
	first = compare_pass(s, all);
	second = compare_pass(s, all);
	ok(first > 2 && second == first && !data_sequence_whole(s), "%s: %d pieces, %d again", what,
	    first, second);
	data_sequence_free(s);
	spec.memory = 1 << 30;
	ok(data_sequence_open(&spec, &s, &e) == ERR_OK && data_sequence_whole(s) &&
	        compare_pass(s, all) == 1 && compare_pass(s, all) == 1,
	    "%s: one piece where memory is enough", what);
	data_sequence_free(s);
	dataset_free(all);
}

static void test_formats(void)
{
	struct buf csv = BUF_INIT, svm = BUF_INIT, table = BUF_INIT;
	char *a, *b, *c, *d, *t;

	buf_puts(&csv, "price,x,long name\n");
	buf_puts(&table, "town,n,y\n");
	for (int i = 0; i < 40000; i++) {
		buf_printf(&csv, "%d,%.*f,%d\n", i, i % 7, i / 7.0, i * 3);
		buf_printf(&svm, "%d %d:%d 70:0.5\n%s", i % 2, 1 + i % 50, i,
		    i % 900 ? "" : "# note\n\n");
		buf_printf(&table, "%s,%d,%d\n", i % 3 ? "Rome" : "Oslo", i % 10, i);
	}
	a = put_file("a.csv", (char *)csv.data, csv.len);
	b = put_gz("b.csv.gz", (char *)csv.data, csv.len);
	c = put_file("c.svm", (char *)svm.data, svm.len - 1);
	d = put_gz("d.svm.gz", (char *)svm.data, svm.len);
	t = put_file("t.csv", (char *)table.data, table.len);

	const char *both[2] = { mem_printf("%s?label=price", a), mem_printf("%s?label=price", b) },
	           *text[1] = { mem_printf("%s?label=y&scale=standard", t) }, *one[1] = { c },
	           *packed[1] = { d };

	same_examples(both, 1, &real, "csv with a heading");
	same_examples(both + 1, 1, &real, "csv.gz");
	same_examples(both, 2, &real, "two files");
	same_examples(text, 1, &real, "a table");
	same_examples(one, 1, &two, "libsvm without a last newline");
	same_examples(packed, 1, &two, "libsvm.gz");
	for (size_t i = 0; i < 2; i++)
		free((void *)(uintptr_t)both[i]);
	free((void *)(uintptr_t)text[0]);
	free(a);
	free(b);
	free(c);
	free(d);
	free(t);
	buf_release(&csv);
	buf_release(&svm);
	buf_release(&table);
}

static void put_be32(struct buf *b, uint32_t n)
{
	const uint8_t bytes[] = { (uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8),
		(uint8_t)n };

	buf_append(b, bytes, sizeof bytes);
}

/* A header of npy for an array of one or two dimensions. */
static void put_npy_header(struct buf *b, const char *type, const char *shape)
{
	char *text = mem_printf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", type,
	    shape);
	const uint8_t size[] = { 118, 0 };

	buf_append(b, "\x93NUMPY\x01\x00", 8);
	buf_append(b, size, sizeof size);
	buf_printf(b, "%-117s\n", text);
	free(text);
}

#define ROWS 24500

/* Images of 5 by 4 bytes with labels of two classes. */
static void test_idx(void)
{
	static const struct data_want any = { .any = true };
	struct buf x = BUF_INIT, y = BUF_INIT;
	char *paths[4];

	put_be32(&x, 0x803);
	put_be32(&x, ROWS);
	put_be32(&x, 5);
	put_be32(&x, 4);
	put_be32(&y, 0x801);
	put_be32(&y, ROWS);
	for (int i = 0; i < ROWS; i++) {
		uint8_t row[20], label = (uint8_t)(i / 7 % 2);

		for (int k = 0; k < 20; k++)
			row[k] = (uint8_t)(i * 7 + k);
		buf_append(&x, row, sizeof row);
		buf_append(&y, &label, 1);
	}
	paths[0] = put_file("a-images-idx3-ubyte", (char *)x.data, x.len);
	paths[1] = put_file("a-labels-idx1-ubyte", (char *)y.data, y.len);
	paths[2] = put_gz("b-images-idx3-ubyte.gz", (char *)x.data, x.len);
	paths[3] = put_gz("b-labels-idx1-ubyte.gz", (char *)y.data, y.len);
	same_examples((const char *const[]){ paths[0], paths[2] }, 1, &two, "idx");
	same_examples((const char *const[]){ paths[2], paths[0] }, 1, &two, "idx.gz");
	same_examples((const char *const[]){ paths[0], paths[2] }, 2, &two, "two files of idx");
	unlink(paths[1]);
	same_examples((const char *const[]){ paths[0] }, 1, &any, "idx without labels");
	for (size_t i = 0; i < 4; i++)
		free(paths[i]);
	buf_release(&x);
	buf_release(&y);
}

/* Rows of 6 numbers, one of which is the label. */
static void test_npy(void)
{
	struct buf x = BUF_INIT, y = BUF_INIT;
	char *path, *labels, *column, *file;

	put_npy_header(&x, "<f4", "24500, 6");
	put_npy_header(&y, "<f8", "24500,");
	for (int i = 0; i < ROWS; i++) {
		const float row[] = { (float)i, 1.5f, (float)(i % 5), (float)-i, 2,
			(float)(i % 3) };
		const double label = i;

		buf_append(&x, row, sizeof row);
		buf_append(&y, &label, sizeof label);
	}
	path = put_file("x.npy", (char *)x.data, x.len);
	labels = put_file("y.npy", (char *)y.data, y.len);
	column = mem_printf("%s?label=1&norm=l2", path);
	file = mem_printf("%s?labels=%s", path, labels);
	same_examples((const char *const[]){ column }, 1, &real, "npy with a column of labels");
	same_examples((const char *const[]){ file }, 1, &real, "npy with a file of labels");
	free(file);
	free(column);
	free(labels);
	free(path);
	buf_release(&x);
	buf_release(&y);
}

/* A fault in rows is found when the evaluation reaches it, or before anything is read. */
static void test_bad_rows(void)
{
	static const float odd = INFINITY;
	struct buf x = BUF_INIT;
	const struct dataset *p;
	struct data_sequence *s;
	struct err e = { 0 };
	size_t rows = 0;
	char *path;
	struct data_sequence_spec spec = { .npaths = 1,
		.want = &real,
		.cache = &no_cache,
		.memory = 200000 };

	put_npy_header(&x, "<f4", "24500, 6");
	for (int i = 0; i < 6 * ROWS; i++) {
		const float v = (float)i;

		buf_append(&x, i == 6 * 20000 ? &odd : &v, sizeof v);
	}
	path = put_file("bad.npy", (char *)x.data, x.len);
	spec.paths = (const char *const[]){ path };
	ok(data_sequence_open(&spec, &s, &e) == ERR_OK, "an array with a fault: %s", e.msg);
	while (data_sequence_next(s, &p, &e) == ERR_OK && p)
		rows += p->rows;
	ok(rows % DATA_SEQUENCE_LINES == 0 && rows > 15000 && rows <= 20000 &&
	        strstr(e.msg, "row 20001, column 1 is not a finite"),
	    "a fault behind %zu rows: %s", rows, e.msg);
	data_sequence_free(s);
	free(path);
	path = put_file("short.npy", (char *)x.data, x.len / 2);
	spec.paths = (const char *const[]){ path };
	ok(data_sequence_open(&spec, &s, &e) == ERR_FORMAT && strstr(e.msg, "short.npy"),
	    "an array that is cut off: %s", e.msg);
	free(path);
	buf_release(&x);
}

/* The heading of a stream is known only when the first piece has been read, and is no example. */
static void test_stream_heading(void)
{
	struct buf text = BUF_INIT;
	const struct dataset *p = NULL;
	struct data_sequence *s = NULL;
	struct dataset *all;
	struct err e = { 0 };
	const char *dash[1] = { "-?label=y" };
	size_t pieces = 0, odd = 0, rows = 0;
	int fd, stdin_was = dup(0);

	buf_puts(&text, "a,b,y\n");
	for (int i = 0; i < 30500; i++)
		buf_printf(&text, "%d,%d,%d\n", i, i % 7, i % 2);

	char *path = put_file("h.csv", (char *)text.data, text.len),
	     *uri = mem_printf("%s?label=y", path);
	const char *paths[1] = { uri };
	struct data_sequence_spec spec = { .paths = dash,
		.npaths = 1,
		.want = &two,
		.cache = &no_cache,
		.memory = 100000,
		.once = true };

	if (data_load(paths, 1, NULL, &two, NULL, &all, &e))
		abort();
	spec.like = all;
	fd = open(path, O_RDONLY);
	if (fd < 0 || stdin_was < 0 || dup2(fd, 0) < 0)
		abort();
	if (data_sequence_open(&spec, &s, &e) == ERR_OK)
		for (; data_sequence_next(s, &p, &e) == ERR_OK && p; pieces++) {
			rows += p->rows;
			odd += p->rows % DATA_SEQUENCE_LINES != 0;
		}
	ok(!e.code && pieces > 2 && rows == 30500 && odd == 1,
	    "standard input with a heading: %zu pieces, %zu of them without a whole number of batches",
	    pieces, odd);
	data_sequence_free(s);
	if (dup2(stdin_was, 0) < 0)
		abort();
	close(fd);
	close(stdin_was);
	unlink(path);
	dataset_free(all);
	free(uri);
	free(path);
	buf_release(&text);
}

static void test_errors(void)
{
	struct buf text = BUF_INIT;
	const struct dataset *p = NULL;
	struct data_sequence *s = NULL;
	struct dataset *all;
	struct err e = { 0 };
	char *path;
	int fd, stdin_was;

	for (int i = 0; i < 30000; i++)
		buf_printf(&text, "%d 1:%d 7:1\n", i % 2, i);
	path = put_file("s.svm", (char *)text.data, text.len);

	const char *paths[1] = { path }, *dash[1] = { "-" };
	struct data_sequence_spec spec = { .paths = paths,
		.npaths = 1,
		.want = &two,
		.cache = &no_cache,
		.memory = 100000 };

	if (data_load(paths, 1, NULL, &two, NULL, &all, &e))
		abort();
	spec.like = all;
	fd = open(path, O_RDONLY);
	stdin_was = dup(0);
	if (fd < 0 || stdin_was < 0 || dup2(fd, 0) < 0)
		abort();
	spec.paths = dash;
	spec.once = true;
	ok(data_sequence_open(&spec, &s, &e) == ERR_OK && compare_pass(s, all) > 2,
	    "standard input, for one pass: %s", e.msg);
	data_sequence_free(s);
	spec.paths = paths;
	spec.once = false;
	buf_puts(&text, "1 1:x\n");
	free(path);
	paths[0] = path = put_file("s.svm", (char *)text.data, text.len);
	s = NULL;
	if (data_sequence_open(&spec, &s, &e) == ERR_OK)
		while (data_sequence_next(s, &p, &e) == ERR_OK && p)
			;
	ok(s && !p && e.code == ERR_FORMAT && strstr(e.msg, "s.svm:30001:"), "a bad line: %s",
	    e.msg);
	ok(s && data_sequence_next(s, &p, &e) == ERR_OK && p && p->y[1] == 1,
	    "after an error it begins anew");
	data_sequence_free(s);
	if (truncate(path, 0) || dup2(stdin_was, 0) < 0)
		abort();
	ok(data_sequence_open(&spec, &s, &e) == ERR_FORMAT && !s && strstr(e.msg, "empty"),
	    "an empty file: %s", e.msg);
	unlink(path);
	ok(data_sequence_open(&spec, &s, &e) == ERR_IO && !s, "no file: %s", e.msg);
	close(fd);
	close(stdin_was);
	dataset_free(all);
	free(path);
	buf_release(&text);
}

static void remove_dir(void)
{
	static const char *const names[] = { "a.csv", "b.csv.gz", "c.svm", "d.svm.gz", "t.csv",
		"a-images-idx3-ubyte", "b-images-idx3-ubyte.gz", "b-labels-idx1-ubyte.gz", "x.npy",
		"y.npy", "bad.npy", "short.npy" };

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		char *path = mem_printf("%s/%s", dir, names[i]);

		unlink(path);
		free(path);
	}
	ok(rmdir(dir) == 0, "nothing is left");
}

/* The last piece of a file of text has one row; evaluation data of one row may have a heading, too. */
static void test_text_heading(void)
{
	const struct data_want classes = { .classes = true };
	struct buf text = BUF_INIT;
	struct dataset *all = NULL, *d = NULL;
	struct data_sequence *s = NULL;
	struct err e = { 0 };
	char *file[3];
	int pieces = 0;

	buf_puts(&text, "colour,animal,buys\n");
	for (int i = 0; i < 36001; i++)
		buf_printf(&text, "%s,%s,%s\n", i % 2 ? "red" : "blue", i % 3 ? "cat" : "dog",
		    i / 5 % 2 ? "yes" : "no");
	file[0] = put_file("text.csv", (char *)text.data, text.len);
	file[1] = put_file("one.csv", "animal,colour,buys\ndog,red,no\n", 30);
	file[2] = put_file("bare.csv", "red,dog,no\n", 11);
	if (!data_load((const char *const *)file, 1, NULL, &classes, NULL, &all, &e) &&
	    !data_sequence_open(&(struct data_sequence_spec){ .paths = (const char *const *)file,
	                            .npaths = 1,
	                            .want = &classes,
	                            .like = all,
	                            .memory = 1 << 17 },
	        &s, &e))
		pieces = compare_pass(s, all);
	ok(pieces > 1, "text with a heading in %d pieces (%s)", pieces, e.msg);
	ok(all && !data_load((const char *const *)file + 1, 1, NULL, &classes, all, &d, &e) &&
	        d->rows == 1,
	    "names of the training data are a heading above a single row (%s)", e.msg);
	dataset_free(d);
	d = NULL;
	ok(all && !data_load((const char *const *)file + 2, 1, NULL, &classes, all, &d, &e) &&
	        d->rows == 1,
	    "a single row without one is an example (%s)", e.msg);
	dataset_free(d);
	data_sequence_free(s);
	dataset_free(all);
	buf_release(&text);
	for (int i = 0; i < 3; i++) {
		unlink(file[i]);
		free(file[i]);
	}
}

int main(void)
{
	if (!mkdtemp(dir))
		return 1;
	test_formats();
	test_idx();
	test_npy();
	test_bad_rows();
	test_stream_heading();
	test_text_heading();
	test_errors();
	remove_dir();
	return tap_done();
}
