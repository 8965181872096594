/* SPDX-License-Identifier: ISC */
/* Data in blocks: every line belongs to one block, whatever their size. */
#include "tap.h"

#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "core/buf.h"
#include "core/mem.h"
#include "data/reader/data_bad_lines.h"
#include "data/data_blocks.h"
#include "data/table/data_schema.h"
#include "format/npy.h"

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
	struct data_walk *c = data_blocks_walk(b, number, n, memory, memory);
	enum err_code rc = ERR_OK;
	bool last = false;

	while (!rc && !last) {
		struct dataset *d;

		rc = data_walk_next(c, &d, &last, e);
		for (size_t r = 0; d && d->y && r < d->rows; r++)
			sum->labels += (double)d->y[r];
		sum->rows += d ? (int64_t)d->rows : 0;
		sum->chunks += d != NULL;
		dataset_free(d);
	}
	data_walk_free(c);
	return rc;
}

/* Loads one block as one dataset. */
static enum err_code load_block(const struct data_blocks *b, uint32_t number, struct dataset **out,
    struct err *e)
{
	struct data_walk *c = data_blocks_walk(b, &number, 1, UINT64_MAX, UINT64_MAX);
	bool last;
	enum err_code rc = data_walk_next(c, out, &last, e);

	data_walk_free(c);
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
	struct data_blocks *blocks = NULL;
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
	/* A stream that goes on with the model of these data looks for its names there. */
	good = !data_blocks_open(paths, 2, NULL, &(const struct data_want){ 0 }, 100, 60, &blocks,
	           &e) &&
	    blocks;
	ok(good && data_blocks_head(blocks)->reading.heading == heading,
	    "the head says in which line the names are: %d %s", heading, e.msg);
	data_blocks_free(blocks);
	free((void *)(uintptr_t)paths[0]);
	free((void *)(uintptr_t)paths[1]);
	free(one);
	free(other);
	buf_release(&a);
	buf_release(&b);
}

enum { HEAD_BLOCK = 4000, HEAD_ROWS = 60000 };

/* A table of HEAD_ROWS lines in blocks of HEAD_BLOCK bytes, of which one half way, in the middle of
 * a block, is `stray`. Returns the number of its block. */
static uint32_t put_table(struct buf *text, const char *stray)
{
	uint32_t at = 0;

	buf_clear(text);
	buf_puts(text, "town,n,y\n");
	for (int i = 0; i < HEAD_ROWS; i++) {
		buf_printf(text, "%s,%d,%s\n", i % 2 ? "Rome" : "Oslo", i % 10,
		    i % 3 ? "no" : "yes");
		if (!at && i > HEAD_ROWS / 2 && text->len % HEAD_BLOCK > HEAD_BLOCK / 2) {
			at = (uint32_t)(text->len / HEAD_BLOCK);
			buf_puts(text, stray);
		}
	}
	return at;
}

/* A table: values, scaling and classes are the head's. */
static void the_head_holds(void)
{
	struct buf text = BUF_INIT;
	struct data_blocks *b;
	struct dataset *d;
	struct err e;
	char *path, *with;
	uint32_t at = put_table(&text, "Lima,4.5,yes\n");
	bool found = false;

	path = put_file("t.csv", (char *)text.data, text.len);
	with = mem_printf("%s?scale=standard", path);
	const char *paths[1] = { with };
	ok(data_blocks_open(paths, 1, NULL, &two, 1, HEAD_BLOCK, &b, &e) == ERR_OK && b,
	    "a table: %s", e.msg);
	ok(data_blocks_head(b)->rows > 1000 && data_blocks_head(b)->rows < HEAD_ROWS / 10 &&
	        data_blocks_memory(b) > 15.0 * HEAD_ROWS &&
	        data_blocks_memory(b) < 17.0 * HEAD_ROWS,
	    "a head of %zu of %d rows, which suggests %.0f bytes", data_blocks_head(b)->rows,
	    HEAD_ROWS, data_blocks_memory(b));
	load_block(b, at, &d, &e);
	for (size_t r = 0; d && d->cols == 3 && r < d->rows; r++)
		found |= d->x[r * 3 + 1] == 0 && d->x[r * 3 + 2] == 0 &&
		    fabsf(d->x[r * 3]) < 0.2f && d->y[r] == 1;
	ok(found, "a value that the head lacks is no feature; the head's scaling holds");
	dataset_free(d);
	data_blocks_free(b);
	at = put_table(&text, "Oslo,1,perhaps\n");
	free(path);
	path = put_file("t.csv", (char *)text.data, text.len);
	data_blocks_open(paths, 1, NULL, &two, 1, HEAD_BLOCK, &b, &e);
	ok(load_block(b, at, &d, &e) == ERR_FORMAT && !d && strstr(e.msg, "t.csv+") &&
	        strstr(e.msg, "perhaps") && strstr(e.msg, "shuffle"),
	    "a further class is an error: %s", e.msg);
	data_blocks_free(b);
	ok(data_blocks_open(paths, 1, NULL, &two, 1 << 24, HEAD_BLOCK, &b, &e) == ERR_OK && !b,
	    "small data are not cut");
	free(path);
	free(with);
	buf_release(&text);
}

/* Data that are sorted by their labels have all classes in the head. */
static void sorted(void)
{
	struct buf text = BUF_INIT;
	const struct data_want classes = { .classes = true };
	struct data_blocks *b;
	struct err e;
	char *path;
	size_t n = 0;

	for (int i = 0; i < 60000; i++)
		buf_printf(&text, "%d 1:%d 7:1\n", i / 2000, i % 9);
	for (int i = 0; i < 10; i++)
		buf_printf(&text, "99 1:%d 7:1\n", i);
	path = put_file("sorted.svm", (char *)text.data, text.len);
	const char *paths[1] = { path };
	ok(data_blocks_open(paths, 1, NULL, &classes, 1, HEAD_BLOCK, &b, &e) == ERR_OK && b &&
	        data_blocks_head(b)->classes == 31,
	    "sorted by label: all classes are found, also a rare last one");
	n = data_blocks_count(b);
	for (uint32_t i = 0; i < n; i++) {
		struct sum sum = { 0 };

		if (read_blocks(b, &i, 1, UINT64_MAX, &sum, &e)) {
			ok(false, "%s", e.msg);
			break;
		}
	}
	data_blocks_free(b);
	free(path);
	buf_release(&text);
}

/* ---- compressed files ---- */

static void append_gzip(struct buf *out, const uint8_t *p, size_t n)
{
	z_stream z = { .next_in = (Bytef *)(uintptr_t)p, .avail_in = (uInt)n };

	buf_reserve(out, n + 1000);
	if (deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		abort();
	z.next_out = out->data + out->len;
	z.avail_out = (uInt)(n + 1000);
	if (deflate(&z, Z_FINISH) != Z_STREAM_END)
		abort();
	out->len += z.total_out;
	deflateEnd(&z);
}

/* Every other frame does not tell the size of its contents, and has a checksum. */
static void append_zstd(struct buf *out, const uint8_t *p, size_t n)
{
	static unsigned frames;
	ZSTD_CCtx *c = ZSTD_createCCtx();
	size_t room = ZSTD_compressBound(n);

	buf_reserve(out, room);
	ZSTD_CCtx_setParameter(c, ZSTD_c_compressionLevel, 1);
	ZSTD_CCtx_setParameter(c, ZSTD_c_contentSizeFlag, frames % 2 == 0);
	ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, frames++ % 2);
	out->len += ZSTD_compress2(c, out->data + out->len, room, p, n);
	ZSTD_freeCCtx(c);
}

/* Compresses the text in pieces of `piece` bytes, each by itself, with a skippable frame before
 * each of zstd. */
static char *put_packed(const char *name, const struct buf *text, bool zstd, size_t piece)
{
	static const uint8_t skip[12] = { 0x53, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4 };
	struct buf out = BUF_INIT;
	char *path;

	for (size_t at = 0; at < text->len; at += piece) {
		size_t n = text->len - at < piece ? text->len - at : piece;

		if (zstd)
			buf_append(&out, skip, sizeof skip);
		zstd ? append_zstd(&out, text->data + at, n)
		     : append_gzip(&out, text->data + at, n);
	}
	path = put_file(name, (char *)out.data, out.len);
	buf_release(&out);
	return path;
}

/* Every line of a compressed file once, also where its pieces end in the middle of a line or behind it. */
static void compressed(bool zstd, bool heading)
{
	const char *name = zstd ? "p.csv.zst" : "p.csv.gz";
	struct buf text = BUF_INIT;
	struct err e = { 0 };
	struct sum sum;
	bool good = true;
	size_t most = 0;

	if (heading)
		buf_puts(&text, "price,x,long name\n");
	for (int i = 1; i <= 20000; i++)
		buf_printf(&text, "%06d,%04d,%07d\n", i, i % 1000, i * 17 % 9999);
	for (size_t piece = 1 << 20; good && piece > 3000; piece = piece * 2 / 5) {
		/* Lines have 20 bytes, so that some pieces end with a line. */
		char *path = put_packed(name, &text, zstd, piece / 20 * 20 + (piece % 3 ? 0 : 7));
		const char *paths[1] = { mem_printf("%s?label=1", path) };

		for (uint64_t block = 500; good && block < 300000; block *= 5) {
			good = !read_all(paths, 1, block, 3, 30000, &sum, &e) &&
			    sum.rows == 20000 && sum.labels == 20000.0 * 20001 / 2;
			most = sum.chunks > most ? sum.chunks : most;
			if (!good)
				printf(
				    "# pieces of %zu bytes, blocks of %llu: %lld lines, sum %.0f: %s\n",
				    piece, (unsigned long long)block, (long long)sum.rows,
				    sum.labels, e.msg);
		}
		free((void *)(uintptr_t)paths[0]);
		free(path);
	}
	ok(good && most > 4, "every line of %s once, %s heading, in up to %zu chunks", name,
	    heading ? "with" : "without", most);
	buf_release(&text);
}

/* Runs that deflate shrinks a thousandfold. */
static void bombs(void)
{
	struct buf text = BUF_INIT;
	struct data_blocks *b = NULL;
	struct err e = { 0 };
	struct sum sum = { 0 };
	char *path;
	uint32_t zero = 0;

	for (int i = 0; i < 2000000; i++)
		buf_puts(&text, i == 7 ? "3,4\n" : "1,2\n");
	path = put_packed("bomb.csv.gz", &text, false, SIZE_MAX);
	const char *paths[1] = { path };
	enum err_code rc = data_blocks_open(paths, 1, NULL, &real, 1 << 20, 8192, &b, &e);
	ok(!rc && b && data_blocks_count(b) == 1 && data_blocks_bytes(b) < text.len / 200,
	    "few bytes that become %zu are cut: %s", text.len, e.msg);
	rc = b ? read_blocks(b, &zero, 1, 1 << 20, &sum, &e) : ERR_FAILED;
	ok(!rc && sum.rows == 2000000 && sum.chunks > 10, "and read in %u chunks: %s", sum.chunks,
	    e.msg);
	data_blocks_free(b);
	free(path);
	/* A line without end. */
	buf_clear(&text);
	buf_puts(&text, "1,2\n1,2\n");
	while (text.len < 80 << 20)
		buf_append(&text,
		    "0000000000000000000000000000000000000000000000000000000000000000", 64);
	path = put_packed("line.csv.gz", &text, false, SIZE_MAX);
	paths[0] = path;
	e = (struct err){ 0 };
	b = NULL;
	rc = data_blocks_open(paths, 1, NULL, &real, 1, 8192, &b, &e);
	ok(!rc && b && read_blocks(b, &zero, 1, 1 << 20, &sum, &e) == ERR_LIMIT &&
	        strstr(e.msg, "longer than 64 MiB"),
	    "a line without end is an error: %s", e.msg);
	data_blocks_free(b);
	b = NULL;
	free(path);
	path = put_file("line.csv", (char *)text.data, text.len);
	paths[0] = path;
	e = (struct err){ 0 };
	ok(data_blocks_open(paths, 1, NULL, &real, 1 << 20, 8192, &b, &e) == ERR_LIMIT && !b &&
	        strstr(e.msg, "longer than 64 MiB"),
	    "also in a file that is not compressed: %s", e.msg);
	free(path);
	buf_release(&text);
}

static void damaged(void)
{
	struct buf text = BUF_INIT;
	struct data_blocks *b = NULL;
	struct err e = { 0 };
	struct sum sum = { 0 };
	char *path;
	uint32_t last;

	for (int i = 0; i < 20000; i++)
		buf_printf(&text, "%06d,%04d,%07d\n", i, i % 1000, i * 17 % 9999);
	path = put_packed("d.zst", &text, true, 20000);
	const char *paths[1] = { path };
	data_blocks_open(paths, 1, NULL, &real, 1 << 10, 20000, &b, &e);
	last = (uint32_t)data_blocks_count(b) - 1;
	ok(last > 5 && truncate(path, (off_t)data_blocks_bytes(b) - 20) == 0 &&
	        read_blocks(b, &last, 1, UINT64_MAX, &sum, &e) == ERR_IO,
	    "a compressed file that shrinks: %s", e.msg);
	data_blocks_free(b);
	b = NULL;
	ok(data_blocks_open(paths, 1, NULL, &real, 1 << 10, 20000, &b, &e) == ERR_FORMAT && !b,
	    "and that is not complete: %s", e.msg);
	free(path);
	buf_release(&text);
}

/* ---- arrays ---- */

enum { ARRAY_ROWS = 240, ARRAY_COLS = 50 };

/* The rows of an array once, each with its label, which is the value of its first column. */
static void check_array(const char *path, size_t least_chunks, const char *title)
{
	const char *paths[1] = { path };
	struct err e = { 0 };
	struct sum sum = { 0 };
	struct data_blocks *b = NULL;
	struct dataset *d = NULL;
	unsigned most = 0;
	bool good = true;

	for (uint64_t block = 30; good && block < 30000; block *= 3)
		for (size_t group = 1; good && group < 10; group += 4) {
			good = !read_all(paths, 1, block, group, 2000, &sum, &e) &&
			    sum.rows == ARRAY_ROWS &&
			    sum.labels == ARRAY_ROWS * (ARRAY_ROWS + 1) / 2.0;
			most = sum.chunks > most ? sum.chunks : most;
		}
	ok(good && most >= least_chunks, "%s: every row once (%lld, %.0f, up to %u chunks) %s",
	    title, (long long)sum.rows, sum.labels, most, e.msg);
	if (data_blocks_open(paths, 1, NULL, &real, 1, 1000, &b, &e) || !b) {
		ok(false, "%s", e.msg);
		return;
	}
	good = !load_block(b, (uint32_t)data_blocks_count(b) / 2, &d, &e);
	for (size_t r = 0; good && r < d->rows; r++)
		good = d->cols == ARRAY_COLS &&
		    (d->x8 ? (float)d->x8[r * ARRAY_COLS] : d->x[r * ARRAY_COLS]) == d->y[r];
	ok(good, "%s: the rows of a block have their labels: %s", title, e.msg);
	dataset_free(d);
	data_blocks_free(b);
}

static void arrays(void)
{
	struct buf images = BUF_INIT, labels = BUF_INIT, npy = BUF_INIT, apart = BUF_INIT,
	           column = BUF_INIT;
	const uint64_t shape[2] = { ARRAY_ROWS, ARRAY_COLS + 1 },
	               alone[2] = { ARRAY_ROWS, ARRAY_COLS };
	char *path, *other, *with;
	const char *paths[1];
	struct data_blocks *b = NULL;
	struct err e = { 0 };

	buf_append(&images, "\0\0\x08\x03\0\0\0\xf0\0\0\0\x05\0\0\0\x0a", 16);
	buf_append(&labels, "\0\0\x08\x01\0\0\0\xf0", 8);
	npy_put_header(&npy, shape, 2);
	npy_put_header(&apart, alone, 2);
	npy_put_header(&column, alone, 1);
	for (int i = 1; i <= ARRAY_ROWS; i++) {
		for (int k = 0; k < ARRAY_COLS; k++) {
			float v = (float)(k ? k : i);

			buf_append(&images, &(uint8_t){ (uint8_t)(k ? k : i) }, 1);
			buf_append(&npy, &v, sizeof v);
			buf_append(&apart, &v, sizeof v);
		}
		buf_append(&labels, &(uint8_t){ (uint8_t)i }, 1);
		buf_append(&npy, &(float){ (float)i }, sizeof(float));
		buf_append(&column, &(float){ (float)i }, sizeof(float));
	}
	other = put_file("x-labels", (char *)labels.data, labels.len);
	path = put_file("x-images", (char *)images.data, images.len);
	check_array(path, 6, "IDX");
	unlink(path);
	free(path);
	path = put_packed("x-images.gz", &images, false, SIZE_MAX);
	check_array(path, 6, "compressed IDX");
	ok(truncate(other, 100) == 0, "fewer labels");
	paths[0] = path;
	ok(data_blocks_open(paths, 1, NULL, &real, 1, 1000, &b, &e) == ERR_OK && !b,
	    "labels that are cut off are left to data_load: %s", e.msg);
	free(other);
	free(path);
	path = put_file("x.npy", (char *)npy.data, npy.len);
	check_array(path, 20, "npy");
	free(path);
	path = put_file("x2.npy", (char *)apart.data, apart.len);
	other = put_file("y2.npy", (char *)column.data, column.len);
	with = mem_printf("%s?labels=%s", path, other);
	check_array(with, 20, "npy with labels apart");
	free(with);
	free(path);
	free(other);
	buf_release(&images);
	buf_release(&labels);
	buf_release(&npy);
	buf_release(&apart);
	buf_release(&column);
}

/* More than 2^32 rows: a file with a hole of 10 GB. */
static void many_rows(void)
{
	const uint64_t rows = 5000000000;
	struct buf text = BUF_INIT;
	struct data_blocks *b = NULL;
	struct err e = { 0 };
	struct sum sum = { 0 };
	char *path, header[100];
	uint32_t last = 0;

	snprintf(header, sizeof header,
	    "{'descr': '|u1', 'fortran_order': False, 'shape': (%llu, 2), }",
	    (unsigned long long)rows);
	buf_append(&text, "\x93NUMPY\x01\x00\x76\x00", 10);
	buf_printf(&text, "%-117s\n", header);
	path = put_file("many.npy", (char *)text.data, text.len);
	const char *paths[1] = { path };
	enum err_code rc = truncate(path, (off_t)(text.len + 2 * rows))
	    ? ERR_IO
	    : data_blocks_open(paths, 1, NULL, &real, 1 << 28, 1 << 21, &b, &e);
	ok(!rc && b && data_blocks_bytes(b) > 2 * rows &&
	        data_blocks_memory(b) / 8 > (double)rows * 0.9,
	    "more than 2^32 rows: %s", e.msg);
	last = b ? (uint32_t)data_blocks_count(b) - 1 : 0;
	ok(b && (uint64_t)last * (1 << 20) + (rows - (uint64_t)last * (1 << 20)) == rows &&
	        !read_blocks(b, &last, 1, UINT64_MAX, &sum, &e) &&
	        (uint64_t)sum.rows == rows - (uint64_t)last * (1 << 20),
	    "the last ones are in block %u: %s", last, e.msg);
	data_blocks_free(b);
	unlink(path);
	free(path);
	buf_release(&text);
}

/* Examples that are longer than a place of the head. */
static void long_lines(void)
{
	struct buf text = BUF_INIT;
	struct data_blocks *b = NULL;
	struct err e = { 0 };
	char *path;

	for (int i = 0; i < 60; i++) {
		buf_printf(&text, "%d", i % 2);
		for (int k = 0; k < 3000; k++)
			buf_printf(&text, ",%d", (i * k) % 10);
		buf_puts(&text, "\n");
	}
	path = put_file("long.csv", (char *)text.data, text.len);
	const char *paths[1] = { mem_printf("%s?label=1", path) };
	ok(!data_blocks_open(paths, 1, NULL, &two, 1, 1000, &b, &e) && b &&
	        data_blocks_head(b)->cols == 3000 && data_blocks_head(b)->classes == 2,
	    "lines that are longer than blocks: %s", e.msg);
	data_blocks_free(b);
	free((void *)(uintptr_t)paths[0]);
	free(path);
	buf_release(&text);
}

/* A range of blocks is read in chunks of bounded size. */
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
	struct data_blocks *b = NULL;
	struct data_walk *c;
	struct dataset *d;
	size_t rows[4] = { 0 };
	bool last = false;
	data_blocks_open(paths, 1, NULL, &real, 1, 100, &b, &e);
	c = data_blocks_walk(b,
	    (const uint32_t[64]){ 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14 }, 15, 560,
	    2240);
	for (int i = 0; i < 4 && !last; i++) {
		data_walk_next(c, &d, &last, &e);
		rows[i] = d ? d->rows : 0;
		dataset_free(d);
	}
	ok(rows[0] > 2 && rows[1] > rows[0] && rows[2] > rows[1],
	    "chunks begin small: %zu, %zu, %zu", rows[0], rows[1], rows[2]);
	data_walk_free(c);
	data_blocks_free(b);
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
	ok(truncate(path, (off_t)data_blocks_bytes(b)) == 0 &&
	        load_block(b, last, &d, &e) == ERR_IO && strstr(e.msg, "s.svm has changed since"),
	    "a file of the same size that was written to: %s", e.msg);
	free(put_file("s.svm", "1 1:1\n", 6));
	ok(load_block(b, 0, &d, &e) == ERR_IO, "another file: %s", e.msg);
	unlink(path);
	ok(mkfifo(path, 0600) == 0 && load_block(b, 0, &d, &e) == ERR_IO &&
	        strstr(e.msg, "has changed"),
	    "a pipe in its place is not waited for: %s", e.msg);
	unlink(path);
	ok(load_block(b, last, &d, &e) == ERR_NOTFOUND, "a file that is gone: %s", e.msg);
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

	/* IDX: its header promises another row. */
	buf_append(&text, "\0\0\x08\x02\0\0\0\x03\0\0\x03\xe8", 12);
	for (int i = 0; i < 2000; i++)
		buf_append(&text, "\x01", 1);
	free(put_file("y-labels", "\0\0\x08\x01\0\0\0\x03\1\2\3", 11));
	path = put_file("y-images", (char *)text.data, text.len);
	const char *paths[1] = { path };
	ok(data_blocks_open(paths, 1, NULL, &two, 1, 300, &b, &e) == ERR_OK && !b,
	    "IDX of another size than its header says is not cut: %s", e.msg);
	free(path);
	buf_clear(&text);
	for (int i = 0; i < 100; i++)
		buf_printf(&text, "1 1:%d\n", i);
	path = put_file("one", (char *)text.data, text.len);
	paths[0] = path;
	ok(data_blocks_open(paths, 1, NULL, &two, text.len, 100, &b, &e) == ERR_OK && !b,
	    "data without a second class, which may fit, are left to data_load: %s", e.msg);
	ok(data_blocks_open(paths, 1, NULL, &two, 10, 100, &b, &e) == ERR_FORMAT && !b,
	    "larger ones are refused: %s", e.msg);
	free(path);
	buf_clear(&text);
	for (int i = 0; i < 100; i++)
		buf_puts(&text, "\1nothing that we know\n");
	path = put_file("strange", (char *)text.data, text.len);
	paths[0] = path;
	ok(data_blocks_open(paths, 1, NULL, &two, 1, 100, &b, &e) == ERR_OK && !b,
	    "a file that is none of the formats is left to data_load");
	free(path);
	buf_release(&text);
}

/* Two files of 3000 rows, as split -l makes them of one: only the first has the heading. */
static void one_heading(const char *options, const char *heading, const char *other)
{
	struct buf rows[2] = { BUF_INIT, BUF_INIT };
	char *file[2], *paths[2];
	struct dataset *d = NULL;
	struct sum s = { 0 };
	struct err e = { 0 };

	buf_puts(&rows[0], heading);
	buf_puts(&rows[1], other);
	for (int i = 0; i < 6000; i++)
		buf_printf(&rows[i / 3000], "%d,%d,%d\n", i % 70, i % 90, 1 + i % 5);
	for (int i = 0; i < 2; i++) {
		file[i] = put_file(i ? "part-ab" : "part-aa", (char *)rows[i].data, rows[i].len);
		paths[i] = mem_printf("%s?%s", file[i], options);
	}
	ok(!read_all((const char *const *)paths, 2, 2048, 1, UINT64_MAX, &s, &e) &&
	        s.rows == 6000 && fabs(s.labels - 18000) < 1e-3,
	    "%s: two files, of which %s has a heading (%d examples%s)", options,
	    *other ? "each" : "the first", (int)s.rows, e.msg);
	ok(!data_load((const char *const *)paths, 2, NULL, &real, NULL, &d, &e) && d->rows == 6000,
	    "%s: and the same at once (%s)", options, e.msg);
	dataset_free(d);
	for (int i = 0; i < 2; i++) {
		free(file[i]);
		free(paths[i]);
		buf_release(&rows[i]);
	}
}

/* The first lines of a block may have more semicolons than commas. */
static void one_separator(void)
{
	struct buf rows = BUF_INIT;
	char *file, *path;
	struct sum s = { 0 };
	struct err e = { 0 };

	for (int i = 0; i < 6000; i++)
		buf_printf(&rows, "%d,%s,%d\n", i % 97, i % 3 ? "new" : "old; big; red", i % 5);
	file = put_file("separator.csv", (char *)rows.data, rows.len);
	path = mem_printf("%s?format=csv", file);
	ok(!read_all((const char *const *)&path, 1, 2048, 1, UINT64_MAX, &s, &e) && s.rows == 6000,
	    "the head decides the separator of all blocks (%s)", e.msg);
	free(file);
	free(path);
	buf_release(&rows);
}

/* A first line that is wrong in its block counts as any other line. */
static void bad_first_lines(void)
{
	struct log quiet = { .fd = -1 };
	struct data_want want = { .bad = data_bad_lines_new(100, &quiet) };
	struct buf rows = BUF_INIT;
	struct data_blocks *b = NULL;
	struct sum s = { 0 };
	char *file, *path;
	struct err e = { 0 };
	bool good;

	for (int i = 0; i < 6000; i++)
		buf_puts(&rows, i % 200 == 150 ? "1,\"2,3\n" : "1,2,3\n");
	file = put_file("quotes.csv", (char *)rows.data, rows.len);
	path = mem_printf("%s?format=csv", file);
	good = !data_blocks_open((const char *const *)&path, 1, NULL, &want, 1, 512, &b, &e) && b;
	for (uint32_t i = 0; good && i < data_blocks_count(b); i++)
		good = !read_blocks(b, &i, 1, UINT64_MAX, &s, &e);
	ok(good && s.rows == 5970 && data_bad_lines_count(want.bad) == 30,
	    "lines with an open quote are skipped, wherever they stand (%s)", e.msg);
	data_blocks_free(b);
	data_bad_lines_free(want.bad);
	free(file);
	free(path);
	buf_release(&rows);
}

/* Index 0 stands in a line that was not among the examples read first. */
static void late_zero(void)
{
	struct buf text = BUF_INIT;
	struct data_blocks *b = NULL;
	struct sum s = { 0 };
	char *path;
	struct err e = { 0 };
	enum err_code rc;

	for (int i = 0; i < 50000; i++)
		buf_printf(&text, "%d %d:1 7:1\n", i % 2, i == 31234 ? 0 : 1);
	path = put_file("zero.svm", (char *)text.data, text.len);
	rc = data_blocks_open((const char *const *)&path, 1, NULL, &real, 1, 512, &b, &e);
	for (uint32_t i = 0; !rc && i < data_blocks_count(b); i++)
		rc = read_blocks(b, &i, 1, UINT64_MAX, &s, &e);
	ok(rc == ERR_FORMAT && strstr(e.msg, "index 0, but the examples that were read first") &&
	        strstr(e.msg, "?index_base=0"),
	    "index 0 late: %s", e.msg);
	data_blocks_free(b);
	free(path);
	buf_release(&text);
}

/* Numbers that float32 does not tell apart are refused by the examples that are read first. */
static void lost_numbers(void)
{
	struct buf text = BUF_INIT;
	struct data_blocks *b;
	struct err e = { 0 };
	enum err_code rc;
	char *path;

	for (int i = 0; i < 1000; i++)
		buf_printf(&text, "%d 3:%.0f\n", i, 1.6e12 + i);
	path = put_file("lost", (char *)text.data, text.len);
	rc = data_blocks_open((const char *const *)&path, 1, NULL, &real, 1, 512, &b, &e);
	ok(rc == ERR_FORMAT && strstr(e.msg, "feature 3 lies between"),
	    "numbers that float32 does not tell apart: %s", e.msg);
	data_blocks_free(b);
	free(path);
	buf_release(&text);
}

int main(void)
{
	if (!mkdtemp(dir))
		return 1;
	one_heading("format=ratings", "user,item,rating\n", "");
	one_heading("label=y", "a,b,y\n", "");
	one_heading("label=y&columns=a,b,y", "a,b,y\n", "");
	one_heading("label=y", "\n \na,b,y\n", "");
	one_heading("label=y", "a,b,y\n",
	    "\xef\xbb\xbf"
	    "a,b,y\n");
	one_heading("format=ratings&user=u&item=i&rating=r", "u,i,r\n", "");
	one_separator();
	bad_first_lines();
	for (int i = 0; i < 4; i++)
		every_line_once(i & 1, i & 2);
	the_head_holds();
	sorted();
	in_chunks();
	for (int i = 0; i < 4; i++)
		compressed(i & 1, i & 2);
	arrays();
	many_rows();
	long_lines();
	bombs();
	damaged();
	shrinks();
	not_cut();
	late_zero();
	lost_numbers();
	return tap_done();
}
