/* SPDX-License-Identifier: ISC */
/* Data in blocks: every line belongs to one block, whatever their size. */
#include "tap.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/mem.h"
#include "data/data_blocks.h"
#include "data/data_schema.h"

static const struct data_want real, two = { .two = true };
static char dir[] = "/tmp/pskit-blocks-XXXXXX";

static char *put_file(const char *name, const char *text, size_t n)
{
	char *path = mem_printf("%s/%s", dir, name);
	FILE *f = fopen(path, "w");

	if (!f || fwrite(text, 1, n, f) != n || fclose(f) != 0)
		abort();
	return path;
}

/* Loads all blocks, each `group` of them as one dataset, and adds up the labels, which are 1 .. rows.
 * Returns the number of examples; -1 after an error. */
static int64_t read_all(const char *const *paths, size_t npaths, uint64_t block, size_t group,
    double *sum, size_t *blocks)
{
	struct data_blocks *b;
	struct dataset *d;
	struct err e = { 0 };
	int64_t rows = 0;

	*sum = 0;
	if (data_blocks_open(paths, npaths, NULL, &real, 1, block, &b, &e) || !b) {
		printf("# %s\n", b ? "" : e.msg);
		return -1;
	}
	*blocks = data_blocks_count(b);
	for (uint32_t i = 0; i < *blocks; i += (uint32_t)group) {
		uint32_t number[64];
		size_t n = 0;

		for (; n < group && i + n < *blocks; n++)
			number[n] = i + (uint32_t)n;
		if (data_blocks_load(b, number, n, &d, &e)) {
			printf("# %s\n", e.msg);
			data_blocks_free(b);
			return -1;
		}
		for (size_t r = 0; d && r < d->rows; r++)
			*sum += (double)d->y[r];
		rows += d ? (int64_t)d->rows : 0;
		dataset_free(d);
	}
	data_blocks_free(b);
	return rows;
}

/* Lines of many lengths, with or without a heading and a last newline, in two files. */
static void every_line_once(bool heading, bool newline)
{
	struct buf a = BUF_INIT, b = BUF_INIT;
	char *one, *other;
	bool good = true;
	double sum;
	size_t blocks;

	if (heading) {
		buf_puts(&a, "price,x,long name\n");
		buf_puts(&b, "price,x,long name\n");
	}
	for (int i = 1; i <= 300; i++)
		buf_printf(i <= 200 ? &a : &b, "%d,%.*f,%d\n", i, i % 17, i / 7.0, i * i);
	if (!newline) {
		a.len--;
		b.len--;
	}
	one = put_file("a.csv", (char *)a.data, a.len);
	other = put_file("b.csv", (char *)b.data, b.len);

	const char *paths[2] = { mem_printf("%s?label=%s", one, heading ? "price" : "1"),
		mem_printf("%s?label=%s", other, heading ? "price" : "1") };

	for (uint64_t block = 40; good && block < 9000; block += block < 80 ? 1 : 613)
		for (size_t group = 1; good && group <= 5; group += 2) {
			good = read_all(paths, 2, block, group, &sum, &blocks) == 300 &&
			    sum == 300 * 301 / 2.0;
			if (!good)
				printf("# blocks of %llu bytes, %zu at once: sum %g\n",
				    (unsigned long long)block, group, sum);
		}
	ok(good, "every line once, %s heading, %s last newline", heading ? "with" : "without",
	    newline ? "with" : "without");
	free((void *)(uintptr_t)paths[0]);
	free((void *)(uintptr_t)paths[1]);
	free(one);
	free(other);
	buf_release(&a);
	buf_release(&b);
}

/* A table: values, scaling and classes are the head's. */
static void the_head_holds(void)
{
	struct buf text = BUF_INIT;
	struct data_blocks *b;
	struct dataset *d;
	struct err e;
	char *path, *with;
	uint32_t last;

	buf_puts(&text, "town,n,y\n");
	for (int i = 0; i < 100; i++)
		buf_printf(&text, "%s,%d,%s\n", i % 2 ? "Rome" : "Oslo", i % 10,
		    i % 3 ? "no" : "yes");
	buf_puts(&text, "Lima,4.5,yes\n");
	path = put_file("t.csv", (char *)text.data, text.len);
	with = mem_printf("%s?scale=standard", path);
	const char *paths[1] = { with };
	ok(data_blocks_open(paths, 1, NULL, &two, 1, 500, &b, &e) == ERR_OK && b, "a table: %s",
	    e.msg);
	last = (uint32_t)data_blocks_count(b) - 1;
	ok(data_blocks_load(b, &last, 1, &d, &e) == ERR_OK && d && d->cols == 3 &&
	        d->x[(d->rows - 1) * 3 + 1] == 0 && d->x[(d->rows - 1) * 3 + 2] == 0 &&
	        fabsf(d->x[(d->rows - 1) * 3]) < 0.2f && d->y[d->rows - 1] == 1,
	    "a value that the head lacks is no feature; the head's scaling holds");
	dataset_free(d);
	data_blocks_free(b);
	buf_puts(&text, "Oslo,1,perhaps\n");
	free(path);
	path = put_file("t.csv", (char *)text.data, text.len);
	data_blocks_open(paths, 1, NULL, &two, 1, 500, &b, &e);
	last = (uint32_t)data_blocks_count(b) - 1;
	d = NULL;
	ok(data_blocks_load(b, &last, 1, &d, &e) == ERR_FORMAT && !d && strstr(e.msg, "t.csv+") &&
	        strstr(e.msg, "perhaps"),
	    "a further class is an error: %s", e.msg);
	data_blocks_free(b);
	ok(data_blocks_open(paths, 1, NULL, &two, 1 << 20, 500, &b, &e) == ERR_OK && !b,
	    "small data are not cut");
	ok(truncate(path, 700) == 0, "a shorter file");
	free(path);
	free(with);
	buf_release(&text);
}

static void shrinks(void)
{
	struct buf text = BUF_INIT;
	struct data_blocks *b;
	struct dataset *d = NULL;
	struct err e;
	char *path;
	uint32_t last;

	for (int i = 0; i < 100; i++)
		buf_printf(&text, "%d 1:%d 7:1\n", i % 2, i);
	path = put_file("s.svm", (char *)text.data, text.len);
	const char *paths[1] = { path };
	ok(data_blocks_open(paths, 1, NULL, &two, 1, 300, &b, &e) == ERR_OK && b, "libsvm");
	last = (uint32_t)data_blocks_count(b) - 1;
	ok(truncate(path, 400) == 0 && data_blocks_load(b, &last, 1, &d, &e) == ERR_IO &&
	        strstr(e.msg, "shorter"),
	    "a file that shrinks: %s", e.msg);
	unlink(path);
	ok(data_blocks_load(b, &last, 1, &d, &e) == ERR_IO, "a file that is gone: %s", e.msg);
	data_blocks_free(b);
	free(path);
	buf_release(&text);
}

/* Data that cannot be cut, or need not be, are left to data_load. */
static void not_cut(void)
{
	struct buf text = BUF_INIT;
	struct data_blocks *b;
	struct err e = { 0 };
	char *path;

	/* IDX: 3 rows of 1000 bytes, more than fits into the first block. */
	buf_append(&text, "\0\0\x08\x02\0\0\0\x03\0\0\x03\xe8", 12);
	for (int i = 0; i < 3000; i++)
		buf_append(&text, "\x01", 1);
	path = put_file("x-images", (char *)text.data, text.len);
	const char *paths[1] = { path };
	ok(data_blocks_open(paths, 1, NULL, &two, 1, 300, &b, &e) == ERR_OK && !b,
	    "IDX is not cut: %s", e.msg);
	free(path);
	buf_clear(&text);
	for (int i = 0; i < 100; i++)
		buf_printf(&text, "%d 1:%d\n", i >= 50, i);
	path = put_file("sorted", (char *)text.data, text.len);
	paths[0] = path;
	ok(data_blocks_open(paths, 1, NULL, &two, text.len, 100, &b, &e) == ERR_OK && !b,
	    "data sorted by label, which may fit, are not cut: %s", e.msg);
	ok(data_blocks_open(paths, 1, NULL, &two, 10, 100, &b, &e) == ERR_FORMAT && !b,
	    "larger ones are refused: %s", e.msg);
	free(path);
	buf_clear(&text);
	for (int i = 0; i < 100; i++)
		buf_puts(&text, "nothing that we know\n");
	path = put_file("strange", (char *)text.data, text.len);
	paths[0] = path;
	ok(data_blocks_open(paths, 1, NULL, &two, 1, 100, &b, &e) == ERR_OK && !b,
	    "a file that is none of the formats is left to data_load");
	free(path);
	buf_release(&text);
}

int main(void)
{
	if (!mkdtemp(dir))
		return 1;
	for (int i = 0; i < 4; i++)
		every_line_once(i & 1, i & 2);
	the_head_holds();
	shrinks();
	not_cut();
	return tap_done();
}
