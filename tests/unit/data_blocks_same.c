/* SPDX-License-Identifier: ISC */
/* Examples that are read in blocks have the same bits as those that are read into memory, wherever
 * the blocks are cut. */
#include "tap.h"

#include <stdlib.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/log.h"
#include "core/mem.h"
#include "data/reader/data_bad_lines.h"
#include "data/data_blocks.h"

static char dir[] = "/tmp/pskit-same-XXXXXX";

/* Appends the examples to `out`, one by one, bit by bit. */
static void put_rows(const struct dataset *d, struct buf *out)
{
	struct batch b = { 0 };
	struct err e;

	for (uint32_t r = 0; r < d->rows; r++) {
		if (data_gather(d, &r, 1, &b, &e))
			abort();
		buf_append(out, &b.cols, sizeof b.cols);
		for (uint32_t k = 0; b.sparse && k < b.start[1]; k++) {
			buf_append(out, &b.id[b.col[k]], sizeof *b.id);
			buf_append(out, &b.val[k], sizeof *b.val);
			if (b.field)
				buf_append(out, &b.field[k], sizeof *b.field);
		}
		if (!b.sparse)
			buf_append(out, b.x, b.cols * sizeof *b.x);
		if (b.y)
			buf_append(out, b.y, sizeof *b.y);
		if (b.label)
			buf_append(out, b.label, sizeof *b.label);
		buf_append(out, &(float){ batch_weight(&b, 0) }, sizeof(float));
	}
	batch_release(&b);
}

/* Does the chunk know how much memory its arrays have, where other chunks may use it? */
static bool knows_room(const struct dataset *d)
{
	return d->memory.value_room >= (d->sparse ? d->start[d->rows] : d->rows * d->cols) &&
	    d->memory.start_room >= (d->sparse ? d->rows + 1 : 0) &&
	    d->memory.label_room >= d->rows;
}

/* Appends all examples of the blocks, in chunks of `memory` bytes that give their memory to those
 * behind them. */
static enum err_code put_blocks(const struct data_blocks *b, uint64_t memory, struct buf *out,
    struct err *e)
{
	size_t n = data_blocks_count(b);
	uint32_t *number = mem_array(n, sizeof *number);
	struct data_walk *c;
	bool last = false;
	enum err_code rc = ERR_OK;

	for (size_t i = 0; i < n; i++)
		number[i] = (uint32_t)i;
	c = data_blocks_walk(b, number, n, memory, memory);
	while (!rc && !last) {
		struct dataset *d = NULL;

		rc = data_walk_next(c, &d, &last, e);
		if (d)
			put_rows(d, out);
		if (d && !data_blocks_head(b)->schema && !knows_room(d))
			rc = err_set(e, ERR_FAILED,
			    "a chunk of %zu examples in room for %zu values", d->rows,
			    d->memory.value_room);
		data_walk_reuse(c, d);
	}
	data_walk_free(c);
	free(number);
	return rc;
}

/* Reads the file in blocks of `block` bytes and, as evaluation data of their head, into memory. */
static bool is_same(const char *path, const struct data_want *want, uint64_t block, struct err *e)
{
	struct buf blocks = BUF_INIT, whole = BUF_INIT;
	struct data_blocks *b = NULL;
	struct dataset *d = NULL;
	bool same = false;

	*e = (struct err){ 0 };
	if (!data_blocks_open(&path, 1, NULL, want, 1, block, &b, e) && b &&
	    !data_load(&path, 1, NULL, want, data_blocks_head(b), &d, e)) {
		put_rows(d, &whole);
		same = !put_blocks(b, block % 2 ? 300 : 1 << 20, &blocks, e) &&
		    blocks.len == whole.len && memcmp(blocks.data, whole.data, whole.len) == 0;
	}
	dataset_free(d);
	data_blocks_free(b);
	buf_release(&blocks);
	buf_release(&whole);
	return same;
}

/* Writes the text, perhaps with carriage returns and without its last newline. */
static char *put_text(const struct buf *text, bool dos, const char *options)
{
	char *path = mem_printf("%s/text", dir), *with;
	FILE *f = fopen(path, "w");

	for (size_t i = 0; f && i < text->len; i++) {
		if (dos && i + 1 == text->len)
			break;
		if (dos && text->data[i] == '\n')
			fputc('\r', f);
		fputc(text->data[i], f);
	}
	if (!f || fclose(f) != 0)
		abort();
	with = *options ? mem_printf("%s?%s", path, options) : mem_strdup(path);
	free(path);
	return with;
}

static void check_borders(const char *title, const struct buf *text, const char *options,
    const struct data_want *want)
{
	for (int dos = 0; dos < 2; dos++) {
		char *path = put_text(text, dos, options);
		uint64_t block = text->len / 12, bad = 0;
		struct err e = { 0 };

		for (; !bad && block < text->len / 2; block++)
			bad = is_same(path, want, block, &e) ? 0 : block;
		ok(!bad, "%s%s: blocks of %llu to %zu bytes%s%s", title,
		    dos ? ", CRLF, no last newline" : "",
		    (unsigned long long)(bad ? bad : text->len / 12), text->len / 2,
		    bad ? ": " : "", bad ? e.msg : "");
		free(path);
	}
}

enum { LINES = 18 };

static const struct data_want two = { .two = true }, real = { 0 }, classes = { .classes = true };

static void every_format(void)
{
	struct buf t = BUF_INIT;

	for (int i = 0; i < LINES; i++)
		buf_printf(&t, "%+d %d:%.*f 2:1e%d 7:-0.25%s 9:%d\n", i % 2 ? 1 : -1, i % 3 + 1, i,
		    i / 7.0, i % 5 - 2, i % 4 ? "" : " 7:3", i * 12345);
	buf_puts(&t, "1\n-1 3:1 # a comment\n\n");
	check_borders("libsvm", &t, "", &two);
	buf_clear(&t);
	for (int i = 0; i < LINES; i++)
		buf_printf(&t, "%d 1:%d 5000000000%d:0.5 %d:1.25\n", i % 2, i, i % 10, i + 70);
	check_borders("libsvm with ids of more than 32 bits", &t, "index_base=1", &two);
	buf_clear(&t);
	for (int i = 0; i < LINES; i++)
		buf_printf(&t, "%d 0:%d:0.1601 1:4294967295:%.9g 1:%d:123456789.5%s\n", i % 2, i,
		    i / 3.0, i % 4 * 1000, i % 5 ? "" : " 0:3:1");
	check_borders("ffm", &t, "", &two);
	buf_clear(&t);
	for (int i = 0; i < LINES; i++)
		buf_printf(&t, "%d |a x%d:2 y |b:0.5 z%d\n", i % 2 ? 1 : -1, i, i % 3);
	check_borders("vw", &t, "pairs=ab", &two);
	buf_clear(&t);
	for (int i = 0; i < LINES; i++)
		buf_printf(&t, "__label__%c w%d some words\t%d some words%s\n", 'a' + i % 3, i,
		    i % 4, i % 5 ? "" : " __label__b");
	check_borders("fasttext", &t, "ngrams=3&bits=12", &classes);
	buf_clear(&t);
	for (int i = 0; i < LINES; i++)
		buf_printf(&t, "%d,%.17g, %d,%.3f\n", i % 3, i / 7.0, i, i * 0.1);
	check_borders("csv", &t, "label=1", &classes);
	buf_clear(&t);
	buf_puts(&t, "y,long name,x\n");
	for (int i = 0; i < LINES; i++)
		buf_printf(&t, "%.5f,%d,\"%.4f\"\n", i / 7.0, i, i * 0.1);
	check_borders("csv with a heading and quotes", &t, "label=y", &real);
	buf_clear(&t);
	buf_puts(&t, "town;price;kind;y;w\n");
	for (int i = 0; i < LINES; i++)
		buf_printf(&t, "%s;%s;\"a; %c\";%s;%d\n", i % 3 ? "Oslo" : "Rome",
		    i % 5 ? "1.5" : "", 'b' + i % 2, i % 2 ? "yes" : "no", i % 4 + 1);
	check_borders("csv with words and missing cells", &t, "label=y&weight=w&scale=standard",
	    &two);
	buf_clear(&t);
	for (int i = 0; i < LINES; i++)
		buf_printf(&t, "{\"y\": %d, \"x\": %.4f, \"town\": \"%s\"}\n", i % 2, i / 7.0,
		    i % 3 ? "Oslo" : "Rome");
	check_borders("jsonl", &t, "label=y", &two);
	buf_clear(&t);
	for (int i = 0; i < LINES / 2; i++) {
		buf_printf(&t, "%d", i % 2);
		for (int k = 0; k < 39; k++)
			(i + k) % 4 ? buf_printf(&t, "\t%d", i * k) : buf_puts(&t, "\t");
		buf_puts(&t, "\n");
	}
	check_borders("criteo", &t, "format=criteo&bits=10", &two);
	buf_clear(&t);
	for (int i = 0; i < LINES; i++)
		buf_printf(&t, "%d\titem%d\t%.1f\t%d\n", i % 7 + 1, i % 5, i % 5 + 0.5, i);
	check_borders("ratings", &t, "format=ratings", &real);
	buf_release(&t);
}

/* Lines that are longer than blocks, and than what is read at a time. */
static void long_lines(void)
{
	static const uint64_t size[] = { 1000, 4095, 65535, 65536, 65537, 140000 };
	struct buf t = BUF_INIT;
	struct err e = { 0 };
	bool good = true;
	char *path;

	for (int i = 0; i < 9; i++) {
		buf_printf(&t, "%d", i % 2);
		for (int k = 1; k < (i % 3 ? 300 : 9000); k++)
			buf_printf(&t, " %d:%d.5", k, (i + k) % 10);
		buf_puts(&t, "\n");
	}
	path = put_text(&t, false, "");
	for (size_t i = 0; good && i < sizeof size / sizeof size[0]; i++)
		good = is_same(path, &two, size[i], &e);
	ok(good, "lines of up to 90 KB: %s", e.msg);
	free(path);
	buf_release(&t);
}

/* Blocks whose examples have no feature at all, parsed, stored and read from the cache. */
static void labels_alone(void)
{
	struct data_cache cache = { mem_printf("%s/cache", dir), NULL };
	struct log log = { .level = LOG_LEVEL_WARN, .fd = 2 };
	struct buf t = BUF_INIT, whole = BUF_INIT, blocks = BUF_INIT;
	struct data_blocks *b = NULL;
	struct dataset *d = NULL;
	struct err e = { 0 };
	bool same = true;
	char *path;

	cache.log = &log;
	for (int i = 0; i < 3000; i++)
		buf_printf(&t, i < 1000 ? "%d\n" : "%d 1:2 70000:1\n", i % 2);
	/* By its first lines it could be a table of one column. */
	path = put_text(&t, false, "format=libsvm");
	if (data_blocks_open((const char *const *)&path, 1, NULL, &two, 1, 400, &b, &e) || !b ||
	    data_load((const char *const *)&path, 1, NULL, &two, data_blocks_head(b), &d, &e))
		abort();
	put_rows(d, &whole);
	for (int turn = 0; same && turn < 3; turn++) {
		buf_clear(&blocks);
		same = !put_blocks(b, 300, &blocks, &e) && blocks.len == whole.len &&
		    memcmp(blocks.data, whole.data, whole.len) == 0;
		if (turn == 0)
			data_blocks_use_cache(b, &cache, (const char *const *)&path, 1, NULL);
	}
	ok(same, "blocks of labels alone, parsed, stored and read again: %s", e.msg);
	dataset_free(d);
	data_blocks_free(b);
	free(path);
	free((char *)(uintptr_t)cache.dir);
	buf_release(&t);
	buf_release(&whole);
	buf_release(&blocks);
}

/* A line that is none of the head's has a missing cell, which the head does not know: the error
 * names the line, also where it is the first one of its block. */
static void missing_cells(void)
{
	struct buf t = BUF_INIT;
	unsigned named = 0, tried = 0;
	struct err e = { 0 };
	char *path;

	/* Lines have 8 bytes; the bad one begins at byte 12000. */
	for (int i = 0; i < 3000; i++)
		buf_puts(&t, i == 1500 ? "1,,0003\n" : i % 2 ? "0,1.5,2\n" : "1,2.5,3\n");
	path = put_text(&t, false, "label=1");
	for (uint64_t block = 100; block < 140; block += 5) {
		struct data_blocks *b = NULL;
		struct dataset *d = NULL;
		uint32_t number = (uint32_t)(12000 / block);
		struct data_walk *c;
		bool last;

		if (data_blocks_open((const char *const *)&path, 1, NULL, &real, 1, block, &b,
		        &e) ||
		    !b)
			continue;
		c = data_blocks_walk(b, &number, 1, 1 << 20, 1 << 20);
		tried++;
		named += data_walk_next(c, &d, &last, &e) == ERR_FORMAT && !d &&
		    strstr(e.msg, "text+12000:2: expected a number, got an empty cell") != NULL;
		data_walk_free(c);
		data_blocks_free(b);
	}
	ok(tried > 2 && named == tried, "a missing cell is named, in %u of %u blocks: %s", named,
	    tried, e.msg);
	free(path);
	buf_release(&t);
}

/* Lines so long that a block is judged by its first one, which has no label: the label is in the last column
 * all the same. */
static void missing_label(void)
{
	enum { EXAMPLES = 400, CELLS = 1200, BAD = 250 };
	struct data_bad_lines *bad = data_bad_lines_new(100, NULL);
	const struct data_want want = { .bad = bad };
	struct buf t = BUF_INIT;
	struct data_blocks *b = NULL;
	struct data_walk *c;
	struct dataset *d = NULL;
	struct err e = { 0 };
	uint64_t line = CELLS * 5 + 4;
	uint32_t number = BAD / 2;
	bool good, last;
	char *path;

	for (int i = 0; i < EXAMPLES; i++) {
		for (int k = 0; k < CELLS; k++)
			buf_puts(&t, "0.25,");
		buf_printf(&t, i == BAD ? "\n" : "%03d\n", i);
		if (i == BAD)
			buf_puts(&t, "\n\n\n");
	}
	path = put_text(&t, false, "");
	good = !data_blocks_open((const char *const *)&path, 1, NULL, &want, 1, 2 * line, &b, &e) &&
	    b;
	if (good) {
		c = data_blocks_walk(b, &number, 1, 1 << 30, 1 << 30);
		good = !data_walk_next(c, &d, &last, &e) && d && d->rows == 1 && d->y[0] == BAD + 1;
		data_walk_free(c);
	}
	ok(good, "a block's first line without a label leaves the label where it was: %s", e.msg);
	dataset_free(d);
	data_blocks_free(b);
	data_bad_lines_free(bad);
	free(path);
	buf_release(&t);
}

int main(void)
{
	if (!mkdtemp(dir))
		return 1;
	every_format();
	long_lines();
	labels_alone();
	missing_cells();
	missing_label();
	return tap_done();
}
