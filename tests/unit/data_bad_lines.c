/* SPDX-License-Identifier: ISC */
/* Bad lines: skipping them leaves the examples of the others, in each format. */
#include "tap.h"

#include <stdlib.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/mem.h"
#include "data/reader/data_bad_lines.h"
#include "data/data_blocks.h"
#include "data/table/data_schema.h"
#include "data/data_sequence.h"

static char dir[] = "/tmp/pskit-bad-XXXXXX";
static struct log quiet = { .fd = -1 };

static const struct {
	const char *options;
	struct data_want want;
	bool heading; /* the first of the good lines is one */
	const char *good[6], *bad[5];
} formats[] = {
	{ "format=libsvm", { .two = true }, false, { "1 1:2 7:1", "0 2:3", "1 5:1 5:2", "0 1:1" },
	    { "x 1:2", "1 1:y", "0 a:1", "1 3:1e99", "7 3:x" } },
	{ "format=ffm", { .two = true }, false, { "1 0:1:2 1:7:1", "0 0:2:3", "1 1:5:1" },
	    { "1 1:2", "x 1:2:3", "0 1:2:z" } },
	{ "format=vw", { .two = true }, false, { "1 |a b:2 c", "-1 |a c", "1 |d e f:0.5" },
	    { "1 |a b:z", "x |a b" } },
	{ "format=fasttext", { .classes = true }, false,
	    { "__label__a x y x", "z __label__b", "__label__a" }, { "x y z", "__label__ x" } },
	{ "format=criteo", { .two = true }, false,
	    { "1\t1\t2\t3\t4\t5\t6\t7\t8\t9\t10\t11\t12\t13\ta\tb\tc\td\te\tf\tg\th\ti\tj\tk\tl\tm\tn\to\tp\tq\tr\ts\tt\tu\tv\tw\tx\ty\tz",
	        "0\t\t2\t3\t4\t5\t6\t7\t8\t9\t10\t11\t12\t13\ta\tb\tc\td\te\tf\tg\th\ti\tj\tk\tl\tm\tn\to\tp\tq\tr\ts\tt\tu\tv\tw\tx\ty\tz" },
	    { "1\t2\t3",
	        "0\tx\t2\t3\t4\t5\t6\t7\t8\t9\t10\t11\t12\t13\ta\tb\tc\td\te\tf\tg\th\ti\tj\tk\tl\tm\tn\to\tp\tq\tr\ts\tt\tu\tv\tw\tx\ty\tz" } },
	{ "format=ratings", { 0 }, false, { "1\t2\t3.5", "2\t2\t1", "7\t1\t4" },
	    { "1\t2", "3\t4\tgood" } },
	{ "format=csv", { .classes = true }, false, { "1,2,a", "3,4,b", "5,6,c", "7,8,a" },
	    { "1,x,d", "1,2", "1,2,3,e", "1,1e99,f" } },
	{ "format=csv", { 0 }, true, { "u,v,y", "1,2,1.5", "3,4,2", "5,6,3" },
	    { "1,2,none", "1,x,3", "u,v,y", "\"1\"x,2,3" } },
	{ "format=csv&label=y", { .two = true }, true,
	    { "town,n,y", "Rome,1,no", "Oslo,2,yes", "Rome,,no", "Lima,4,yes" },
	    { "Rome,many,no", "Rome,2", "Oslo,1e99,yes", "Lima,5x,no", "Bonn,1,2,yes" } },
	{ "format=jsonl&label=y", { .two = true }, false,
	    { "{\"town\":\"Rome\",\"n\":1,\"y\":0}", "{\"town\":\"Oslo\",\"n\":2,\"y\":1}",
	        "{\"n\":3,\"y\":1}" },
	    { "{\"town\":\"Rome\",\"n\":1", "{\"town\":\"Rome\",\"n\":\"many\",\"y\":0}",
	        "{\"n\":1,\"y\":2}", "[1,2]", "{\"n\":[{}],\"y\":1}" } },
};

static char *put_file(const char *name, const char *text, size_t n)
{
	char *path = mem_printf("%s/%s", dir, name);
	FILE *f = fopen(path, "w");

	if (!f || fwrite(text, 1, n, f) != n || fclose(f) != 0)
		abort();
	return path;
}

static bool same_rows(const struct dataset *a, const struct dataset *b)
{
	bool good = a->rows == b->rows && a->cols == b->cols && a->classes == b->classes &&
	    a->nids == b->nids && a->sparse == b->sparse;

	for (size_t i = 0; good && i < a->classes; i++)
		good = strcmp(a->class_name[i], b->class_name[i]) == 0;
	for (size_t r = 0; good && r < a->rows; r++) {
		good = a->y ? a->y[r] == b->y[r] : a->label[r] == b->label[r];
		for (size_t k = 0; good && !a->sparse && k < a->cols; k++)
			good = a->x[r * a->cols + k] == b->x[r * a->cols + k];
		good = good && (!a->sparse || a->start[r + 1] == b->start[r + 1]);
		for (uint64_t k = 0; good && a->sparse && k < a->start[a->rows]; k++)
			good = a->col[k] == b->col[k] && a->val[k] == b->val[k];
	}
	return good;
}

/* Writes the good lines, with the bad ones between and behind them, and returns the number of those. */
static uint64_t write_lines(size_t f, struct buf *good, struct buf *both)
{
	uint64_t bad = 0;

	for (size_t i = 0; i < 6 && formats[f].good[i]; i++) {
		buf_printf(good, "%s\n", formats[f].good[i]);
		buf_printf(both, "%s\n", formats[f].good[i]);
		for (size_t k = 0; k < 5 && formats[f].bad[k]; k++)
			if (i > 0 && k % 2 == i % 2) {
				buf_printf(both, "%s\n", formats[f].bad[k]);
				bad++;
			}
	}
	for (size_t k = 0; k < 5 && formats[f].bad[k]; k++, bad++)
		buf_printf(both, "%s\n", formats[f].bad[k]);
	return bad;
}

static void test_format(size_t f)
{
	struct buf good = BUF_INIT, both = BUF_INIT;
	uint64_t bad = write_lines(f, &good, &both);
	char *clean = put_file("clean", (char *)good.data, good.len),
	     *dirty = put_file("dirty", (char *)both.data, both.len);
	const char *paths[2] = { mem_printf("%s?%s", clean, formats[f].options),
		mem_printf("%s?%s", dirty, formats[f].options) };
	struct data_want want = formats[f].want;
	struct dataset *a = NULL, *b = NULL;
	struct err e = { 0 };

	want.bad = data_bad_lines_new(bad, &quiet);
	ok(data_load(paths, 1, NULL, &want, NULL, &a, &e) == ERR_OK && !a->reading.skipped &&
	        data_load(paths + 1, 1, NULL, &want, NULL, &b, &e) == ERR_OK && same_rows(a, b) &&
	        b->reading.skipped == bad && data_bad_lines_count(want.bad) == bad,
	    "%s: %llu bad lines, %zu rows %s", formats[f].options, (unsigned long long)bad,
	    b ? b->rows : 0, e.msg);
	dataset_free(b);
	b = NULL;
	ok(data_load(paths + 1, 1, NULL, &want, a, &b, &e) == ERR_OK && same_rows(a, b) &&
	        data_bad_lines_count(want.bad) == bad,
	    "%s: as evaluation data; lines count once %s", formats[f].options, e.msg);
	dataset_free(b);
	data_bad_lines_free(want.bad);
	want.bad = data_bad_lines_new(bad - 1, &quiet);
	ok(data_load(paths + 1, 1, NULL, &want, NULL, &b, &e) == ERR_FORMAT && !b &&
	        strstr(e.msg, "the limit of job.bad_lines") && strstr(e.msg, "dirty:"),
	    "%s: one too many: %s", formats[f].options, e.msg);
	data_bad_lines_free(want.bad);
	want.bad = NULL;
	ok(data_load(paths + 1, 1, NULL, &want, NULL, &b, &e) == ERR_FORMAT && !b &&
	        !strstr(e.msg, "bad lines"),
	    "%s: none allowed: %s", formats[f].options, e.msg);
	dataset_free(a);
	free((void *)(uintptr_t)paths[0]);
	free((void *)(uintptr_t)paths[1]);
	free(clean);
	free(dirty);
	buf_release(&good);
	buf_release(&both);
}

/* A NUL byte after the lines by which the format is guessed makes a bad line. */
static void test_nul_byte(void)
{
	struct data_want want = { .two = true };
	struct buf text = BUF_INIT;
	struct dataset *d = NULL;
	struct err e = { 0 };
	const char *path;
	char *file;

	for (int i = 0; i < 200; i++)
		buf_printf(&text, "%d,%d\n", i, i % 2);
	text.data[text.len - 3] = '\0';
	path = file = put_file("nul", (char *)text.data, text.len);
	want.bad = data_bad_lines_new(1, &quiet);
	ok(data_load(&path, 1, NULL, &want, NULL, &d, &e) == ERR_OK && d->rows == 199 &&
	        data_bad_lines_count(want.bad) == 1,
	    "a NUL byte is in a bad line, and the file is a table %s", e.msg);
	dataset_free(d);
	d = NULL;
	data_bad_lines_free(want.bad);
	want.bad = NULL;
	ok(data_load(&path, 1, NULL, &want, NULL, &d, &e) == ERR_FORMAT &&
	        strstr(e.msg, "nul:200: holds a NUL"),
	    "none allowed: %s", e.msg);
	unlink(file);
	free(file);
	buf_release(&text);
}

/* Blocks of all sizes: bad lines are named by their byte, and do not spoil the lines behind them, also where
 * one is the first line of its block. */
static void test_blocks(void)
{
	struct buf text = BUF_INIT;
	struct data_want real = { 0 }, fails = { 0 };
	struct err e = { 0 };
	char *path, place[40];
	size_t bad = 0, at = 0;
	bool good = true;

	for (int i = 0; i < 400; i++) {
		if (i % 20 == 10) {
			if (i == 370)
				at = text.len;
			buf_puts(&text, i % 40 == 10 ? "1,2\n" : "1,x,2\n");
			bad++;
		}
		buf_printf(&text, "%d,%d,%d\n", i % 7, i, i + 1);
	}
	path = put_file("blocks.csv", (char *)text.data, text.len);

	const char *paths[1] = { path };

	for (uint64_t block = 80; good && block < 400; block += 7) {
		struct data_blocks *b = NULL;
		struct data_walk *c;
		double sum = 0;
		bool last = false;
		uint32_t *all;

		real.bad = data_bad_lines_new(20, &quiet);
		good = data_blocks_open(paths, 1, NULL, &real, 1, block, &b, &e) == ERR_OK && b;
		if (!good) {
			printf("# %s\n", e.msg);
			break;
		}
		all = mem_array(data_blocks_count(b), sizeof *all);
		for (uint32_t i = 0; i < data_blocks_count(b); i++)
			all[i] = i;
		c = data_blocks_walk(b, all, data_blocks_count(b), 1000, 1000);
		while (good && !last) {
			struct dataset *d = NULL;

			good = data_walk_next(c, &d, &last, &e) == ERR_OK;
			for (size_t r = 0; d && r < d->rows; r++)
				sum += (double)d->y[r];
			dataset_free(d);
		}
		good = good && sum == 400 * 401 / 2.0 && data_bad_lines_count(real.bad) == bad;
		if (!good)
			printf("# blocks of %llu bytes: sum %g, %llu of %zu bad lines %s\n",
			    (unsigned long long)block, sum,
			    (unsigned long long)data_bad_lines_count(real.bad), bad, e.msg);
		data_bad_lines_free(real.bad);
		data_walk_free(c);
		data_blocks_free(b);
		free(all);
	}
	ok(good, "blocks: %zu bad lines", bad);
	fails.bad = data_bad_lines_new(18, &quiet);
	snprintf(place, sizeof place, "blocks.csv+%zu:", at);
	{
		struct data_blocks *b = NULL;
		struct data_walk *c;
		struct dataset *d;
		uint32_t all[60];
		bool last = false;
		enum err_code rc = data_blocks_open(paths, 1, NULL, &fails, 1, 100, &b, &e);

		for (uint32_t i = 0; i < 60; i++)
			all[i] = i;
		c = b ? data_blocks_walk(b, all, data_blocks_count(b), 1 << 20, 1 << 20) : NULL;
		while (!rc && !last) {
			rc = data_walk_next(c, &d, &last, &e);
			dataset_free(d);
		}
		ok(rc == ERR_FORMAT && strstr(e.msg, place), "the place is a byte, %s %s", place,
		    e.msg);
		data_walk_free(c);
		data_blocks_free(b);
	}
	data_bad_lines_free(fails.bad);
	free(path);
	buf_release(&text);
}

static void test_never_skipped(void)
{
	static const char open[] = "a,b,y\n1,2,3\n\"1,2,3\n4,5,6\n7,8,9\n";
	static const char label[] = "{\"a\":1,\"z\":1}\n{\"a\":2,\"z\":2}\n";
	struct data_want want = { .bad = data_bad_lines_new(1000, &quiet) };
	struct dataset *d = NULL;
	struct err e = { 0 };
	uint64_t allowed;
	char *path = put_file("clean", open, sizeof open - 1);
	const char *paths[1] = { path };

	ok(data_load(paths, 1, NULL, &want, NULL, &d, &e) == ERR_FORMAT &&
	        strstr(e.msg, "does not end"),
	    "a quoted cell without an end: %s", e.msg);
	free(path);
	path = put_file("dirty", label, sizeof label - 1);
	paths[0] = path;
	ok(data_load(paths, 1, NULL, &want, NULL, &d, &e) == ERR_FORMAT &&
	        strstr(e.msg, "name the label") && data_bad_lines_count(want.bad) == 0,
	    "no label in any line: %s", e.msg);
	free(path);
	data_bad_lines_free(want.bad);
	ok(data_bad_lines_parse("fail", &allowed, &e) == ERR_OK && allowed == 0 &&
	        data_bad_lines_parse("skip:7", &allowed, &e) == ERR_OK && allowed == 7 &&
	        data_bad_lines_parse("skip:0", &allowed, &e) == ERR_CONFIG &&
	        data_bad_lines_parse("skip", &allowed, &e) == ERR_CONFIG &&
	        data_bad_lines_parse("skip:-1", &allowed, &e) == ERR_CONFIG,
	    "forms of the setting: %s", e.msg);
}

int main(void)
{
	static const char *const names[] = { "clean", "dirty", "blocks.csv" };

	if (!mkdtemp(dir))
		return 1;
	for (size_t f = 0; f < sizeof formats / sizeof *formats; f++)
		test_format(f);
	test_nul_byte();
	test_blocks();
	test_never_skipped();
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		char *path = mem_printf("%s/%s", dir, names[i]);

		unlink(path);
		free(path);
	}
	ok(rmdir(dir) == 0, "nothing is left");
	return tap_done();
}
