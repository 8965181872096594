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

/* Reads the blocks of these numbers in chunks of at most `memory` bytes, adds up the labels and counts the
 * examples and the chunks. */
struct sum {
	double labels;
	int64_t rows;
	unsigned chunks;
};

static enum err_code read_blocks(const struct data_blocks *b, const uint32_t *number, size_t n,
    uint64_t memory, struct sum *sum, struct err *e)
{
	struct data_chunks *c = data_chunks_new(b, number, n, memory);
	enum err_code rc = ERR_OK;
	bool last = false;

	while (!rc && !last) {
		struct dataset *d;

		rc = data_chunks_next(c, &d, &last, e);
		for (size_t r = 0; d && r < d->rows; r++)
			sum->labels += (double)d->y[r];
		sum->rows += d ? (int64_t)d->rows : 0;
		sum->chunks += d != NULL;
		dataset_free(d);
	}
	data_chunks_free(c);
	return rc;
}

/* Loads one block as one dataset. */
static enum err_code load_block(const struct data_blocks *b, uint32_t number, struct dataset **out,
    struct err *e)
{
	struct data_chunks *c = data_chunks_new(b, &number, 1, UINT64_MAX);
	bool last;
	enum err_code rc = data_chunks_next(c, out, &last, e);

	data_chunks_free(c);
	return rc;
}

/* Loads all blocks, `group` of them at a time. */
static enum err_code read_all(const char *const *paths, size_t npaths, uint64_t block, size_t group,
    uint64_t memory, struct sum *sum, struct err *e)
{
	struct data_blocks *b;
	uint32_t n;
	enum err_code rc = data_blocks_open(paths, npaths, NULL, &real, 1, block, &b, e);

	*sum = (struct sum){ 0 };
	if (rc)
		return rc;
	n = (uint32_t)data_blocks_count(b);
	for (uint32_t i = 0; !rc && i < n; i += (uint32_t)group) {
		uint32_t number[64];
		size_t k = 0;

		for (; k < group && i + k < n; k++)
			number[k] = i + (uint32_t)k;
		rc = read_blocks(b, number, k, memory, sum, e);
	}
	data_blocks_free(b);
	return rc;
}

/* Lines of many lengths, with or without a heading and a last newline, in two files. */
static void every_line_once(bool heading, bool newline)
{
	struct buf a = BUF_INIT, b = BUF_INIT;
	char *one, *other;
	bool good = true;
	struct sum sum;
	struct err e = { 0 };

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
			good = !read_all(paths, 2, block, group, group == 3 ? 1 : 1 << 20, &sum,
			           &e) &&
			    sum.rows == 300 && sum.labels == 300 * 301 / 2.0;
			if (!good)
				printf("# blocks of %llu bytes, %zu at once: sum %g: %s\n",
				    (unsigned long long)block, group, sum.labels, e.msg);
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
	ok(load_block(b, last, &d, &e) == ERR_OK && d && d->cols == 3 &&
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
	ok(load_block(b, last, &d, &e) == ERR_FORMAT && !d && strstr(e.msg, "t.csv+") &&
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

/* A group of blocks is read in chunks of bounded size. */
static void in_chunks(void)
{
	struct buf text = BUF_INIT;
	struct sum whole, cut, least;
	struct err e = { 0 };
	char *path;

	for (int i = 1; i <= 1000; i++)
		buf_printf(&text, "%d 1:%d 7:1\n", i, i);
	path = put_file("c.svm", (char *)text.data, text.len);
	const char *paths[1] = { path };
	/* 1000 examples of 28 bytes */
	read_all(paths, 1, 1000, 64, 1 << 20, &whole, &e);
	read_all(paths, 1, 1000, 64, 14000, &cut, &e);
	read_all(paths, 1, 1000, 64, 1, &least, &e);
	ok(whole.rows == 1000 && cut.rows == 1000 && least.rows == 1000 &&
	        whole.labels == cut.labels && whole.labels == least.labels,
	    "all examples, however small the chunks are: %s", e.msg);
	ok(whole.chunks == 1 && cut.chunks == 2 && least.chunks == (text.len + 999) / 1000,
	    "chunks: %u, %u, %u", whole.chunks, cut.chunks, least.chunks);
	free(path);
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
	ok(truncate(path, 400) == 0 && load_block(b, last, &d, &e) == ERR_IO &&
	        strstr(e.msg, "shorter"),
	    "a file that shrinks: %s", e.msg);
	unlink(path);
	ok(load_block(b, last, &d, &e) == ERR_IO, "a file that is gone: %s", e.msg);
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
	in_chunks();
	shrinks();
	not_cut();
	return tap_done();
}
