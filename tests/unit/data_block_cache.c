/* SPDX-License-Identifier: ISC */
/* Parsed blocks in the cache: the same chunks, with and without the files that they were made of. */
#include "tap.h"

#include <dirent.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "core/buf.h"
#include "core/mem.h"
#include "data/reader/data_bad_lines.h"
#include "data/data_blocks.h"

#define MEMORY 20000
#define BLOCK  2000

static char dir[] = "/tmp/pskit-block-cache-XXXXXX";
static char *cache_dir;
static char said[4096]; /* what was logged */
static int lines_said;

static void take_line(void *ctx, int level, const char *text)
{
	(void)ctx;
	lines_said += level == LOG_LEVEL_WARN;
	snprintf(said, sizeof said, "%s", text);
}

static struct log logger = { .level = LOG_LEVEL_WARN, .fd = -1, .sink = take_line };

static void put_text(const char *path, const struct buf *text)
{
	size_t n = strlen(path);
	bool packed = n > 3 && strcmp(path + n - 3, ".gz") == 0;
	FILE *f = packed ? NULL : fopen(path, "w");
	gzFile g = packed ? gzopen(path, "w") : NULL;

	if (packed ? gzwrite(g, text->data, (unsigned)text->len) != (int)text->len || gzclose(g)
	           : fwrite(text->data, 1, text->len, f) != text->len || fclose(f) != 0)
		abort();
}

static void add_bytes(struct buf *out, const void *p, size_t n)
{
	if (p)
		buf_append(out, p, n);
}

/* Writes all examples of all chunks to `out`, bit by bit, in an order that mixes blocks. */
static enum err_code read_chunks(struct data_blocks *b, struct buf *out, struct err *e)
{
	size_t n = data_blocks_count(b), step = n % 7 ? 7 : 1;
	uint32_t *number = mem_array(n, sizeof *number);
	struct data_walk *c;
	bool last = false;
	enum err_code rc = ERR_OK;

	for (size_t i = 0; i < n; i++)
		number[i] = (uint32_t)(i * step % n);
	c = data_blocks_walk(b, number, n, MEMORY, MEMORY);
	while (!rc && !last) {
		struct dataset *d = NULL;

		rc = data_walk_next(c, &d, &last, e);
		if (!rc && d) {
			size_t values = d->sparse ? d->start[d->rows] : d->rows * d->cols;

			buf_printf(out, "chunk %zu %zu %zu %zu %zu\n", d->rows, d->cols, d->classes,
			    d->fields, d->nids);
			add_bytes(out, d->x, values * 4);
			add_bytes(out, d->start, (d->rows + 1) * 8);
			add_bytes(out, d->sparse ? d->col : NULL, values * 4);
			add_bytes(out, d->sparse ? d->val : NULL, values * 4);
			add_bytes(out, d->field, values * 2);
			add_bytes(out, d->id, d->nids * 8);
			add_bytes(out, d->weight, d->rows * 4);
			add_bytes(out, d->group, d->rows * 8);
			add_bytes(out, d->y, d->rows * 4);
			add_bytes(out, d->label, d->rows * 4);
		}
		dataset_free(d);
	}
	data_walk_free(c);
	free(number);
	return rc;
}

static struct data_blocks *open_blocks(const char *path, const struct data_want *want, bool cached)
{
	const char *paths[1] = { path };
	const struct data_cache cache = { cache_dir, &logger };
	struct data_blocks *b = NULL;
	struct err e = { 0 };

	if (data_blocks_open(paths, 1, NULL, want, MEMORY, BLOCK, &b, &e) || !b)
		printf("# no blocks: %s\n", e.msg);
	else if (cached)
		data_blocks_use_cache(b, &cache, paths, 1, NULL);
	return b;
}

/* Calls fn for each chunk in the cache's directories: at most `most` of them. */
static int each_chunk(int most, void (*fn)(const char *path))
{
	DIR *top = opendir(cache_dir);
	const struct dirent *d, *f;
	int n = 0;

	while (top && (d = readdir(top))) {
		char *sub = mem_printf("%s/%s", cache_dir, d->d_name);
		DIR *files = d->d_name[0] == '.' ? NULL : opendir(sub);

		while (files && (f = readdir(files)) && n < most) {
			char *path = mem_printf("%s/%s", sub, f->d_name);

			if (strchr(f->d_name, '-')) {
				n++;
				if (fn)
					fn(path);
			}
			free(path);
		}
		if (files)
			closedir(files);
		free(sub);
	}
	if (top)
		closedir(top);
	return n;
}

static int count_directories(void)
{
	DIR *top = opendir(cache_dir);
	const struct dirent *d;
	int n = 0;

	while (top && (d = readdir(top)))
		n += d->d_name[0] != '.';
	if (top)
		closedir(top);
	return n;
}

static void remove_file(const char *path)
{
	unlink(path);
}

static void empty_cache(void)
{
	data_cache_remove(cache_dir);
}

static void flip_byte(const char *path)
{
	FILE *f = fopen(path, "r+");
	int c;

	if (!f || fseek(f, -5, SEEK_END) || (c = fgetc(f)) == EOF || fseek(f, -5, SEEK_END) ||
	    fputc(c ^ 16, f) == EOF || fclose(f))
		abort();
}

static void cut_file(const char *path)
{
	if (truncate(path, 100))
		abort();
}

struct reading {
	struct data_blocks *blocks;
	struct buf got;
	enum err_code rc;
};

static void *read_in_thread(void *ctx)
{
	struct reading *r = ctx;

	r->rc = read_chunks(r->blocks, &r->got, NULL);
	return NULL;
}

/* Two threads read the same blocks while their pieces are stored. */
static bool read_by_two_threads(struct data_blocks *b, const struct buf *plain)
{
	struct reading r[2] = { { b, BUF_INIT, 0 }, { b, BUF_INIT, 0 } };
	pthread_t thread[2];
	bool good = true;

	for (int i = 0; i < 2; i++)
		if (pthread_create(&thread[i], NULL, read_in_thread, &r[i]))
			abort();
	for (int i = 0; i < 2; i++) {
		pthread_join(thread[i], NULL);
		good = good && !r[i].rc && r[i].got.len == plain->len &&
		    memcmp(r[i].got.data, plain->data, plain->len) == 0;
		buf_release(&r[i].got);
	}
	return good;
}

/* Reads the file without the cache; with it; with damaged files; and then the cache without the file. */
static void test_format(const char *name, const char *options, struct data_want want,
    const struct buf *text)
{
	char *path = mem_printf("%s/%s", dir, name), *away = mem_printf("%s.away", path),
	     *with = mem_printf("%s%s", path, options);
	struct buf plain = BUF_INIT, got = BUF_INIT;
	struct data_blocks *b;
	struct err e = { 0 };
	int stored;
	bool good;

	put_text(path, text);
	empty_cache();
	b = open_blocks(with, &want, false);
	good = b && read_chunks(b, &plain, &e) == ERR_OK && plain.len > 1000;
	data_blocks_free(b);
	b = open_blocks(with, &want, true);
	good = good && b && read_chunks(b, &got, &e) == ERR_OK && got.len == plain.len &&
	    memcmp(got.data, plain.data, got.len) == 0;
	stored = each_chunk(INT_MAX, NULL);
	ok(good && stored >= (strstr(name, ".gz") ? 5 : (int)data_blocks_count(b)),
	    "%s%s: the same chunks while %d pieces are stored %s", name, options, stored, e.msg);
	data_blocks_free(b);
	empty_cache();
	b = open_blocks(with, &want, true);
	good = b && read_by_two_threads(b, &plain);
	ok(good && each_chunk(INT_MAX, NULL) == stored, "%s: two threads read them at once", name);
	data_blocks_free(b);
	lines_said = 0;
	each_chunk(INT_MAX, flip_byte);
	each_chunk(stored / 2, cut_file);
	b = open_blocks(with, &want, true);
	buf_clear(&got);
	good = b && read_chunks(b, &got, &e) == ERR_OK && got.len == plain.len &&
	    memcmp(got.data, plain.data, got.len) == 0;
	ok(good && lines_said == 1 && strstr(said, "is rebuilt"),
	    "%s: damaged files are made anew, with one warning: %s", name, said);
	if (rename(path, away))
		abort();
	for (int i = 0; i < 2; i++) {
		buf_clear(&got);
		good = good && read_chunks(b, &got, &e) == ERR_OK && got.len == plain.len &&
		    memcmp(got.data, plain.data, got.len) == 0;
	}
	ok(good, "%s: and from the cache alone %s", name, e.msg);
	data_blocks_free(b);
	unlink(away);
	free(path);
	free(away);
	free(with);
	buf_release(&plain);
	buf_release(&got);
}

static void test_formats(void)
{
	const struct data_want real = { 0 }, two = { .two = true }, classes = { .classes = true };
	struct buf csv = BUF_INIT, svm = BUF_INIT, wide = BUF_INIT, ffm = BUF_INIT,
	           table = BUF_INIT, towns = BUF_INIT, vw = BUF_INIT;

	buf_puts(&csv, "price,x,long name\n");
	buf_puts(&table, "town,n,y\n");
	buf_puts(&towns, "town,n,y\n");
	for (int i = 0; i < 3000; i++) {
		buf_printf(&csv, "%d,%.*f,%d\n", i, i % 7, i / 7.0, i * 3);
		buf_printf(&svm, "%d %d:%d 70:0.5%s\n", i % 3, 1 + i % 50, i, i % 2 ? " 9:1" : "");
		buf_printf(&wide, "%d %d:1 %llu:2\n", i % 2, i % 9,
		    5000000000ULL + (unsigned)(i * i));
		buf_printf(&ffm, "%d 0:%d:1 1:%d:0.5\n", i % 2, i % 300, 400 + i % 7);
		buf_printf(&table, "%s,%d,%d\n", i % 3 ? "Rome" : "Oslo", i % 10, i);
		buf_printf(&vw, "%d %d |a x%d:%d.5 y\n", i % 2 ? 1 : -1, i % 4, i % 9, i);
		buf_printf(&towns, "town%d,%d,%d\n", i % 1500, i % 10, i);
	}
	test_format("a.csv", "?label=price", real, &csv);
	test_format("b.svm", "", classes, &svm);
	test_format("c.svm", "?format=libsvm", two, &wide);
	test_format("d.ffm", "?format=ffm&norm=l2", two, &ffm);
	test_format("e.csv", "?label=y&scale=standard", real, &table);
	test_format("f.csv", "?label=y", real, &towns);
	test_format("g.svm.gz", "", classes, &svm);
	test_format("h.csv", "?label=y&weight=n", real, &table);
	test_format("i.vw", "", two, &vw);
	test_format("j.csv", "?label=y&group=town", real, &towns);
	buf_release(&csv);
	buf_release(&svm);
	buf_release(&wide);
	buf_release(&ffm);
	buf_release(&table);
	buf_release(&towns);
	buf_release(&vw);
}

static void test_faults(void)
{
	struct data_want want = { 0 };
	struct buf text = BUF_INIT, plain = BUF_INIT, got = BUF_INIT;
	char *path = mem_printf("%s/faults.csv", dir);
	struct rlimit was, small = { 300, RLIM_INFINITY };
	struct data_blocks *b, *other;
	struct err e = { 0 };
	bool good;
	int first;

	for (int i = 0; i < 3000; i++)
		buf_printf(&text, "%d,%d,%d\n", i, i % 7, i % 5);
	put_text(path, &text);
	empty_cache();
	b = open_blocks(path, &want, false);
	read_chunks(b, &plain, &e);
	data_blocks_free(b);

	/* A disk that takes no more: files cannot be longer than 300 bytes. */
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &was);
	small.rlim_max = was.rlim_max;
	setrlimit(RLIMIT_FSIZE, &small);
	lines_said = 0;
	b = open_blocks(path, &want, true);
	good = read_chunks(b, &got, &e) == ERR_OK && got.len == plain.len;
	data_blocks_free(b);
	setrlimit(RLIMIT_FSIZE, &was);
	ok(good && lines_said == 1 && strstr(said, "training continues without") &&
	        each_chunk(INT_MAX, NULL) == 0,
	    "a full disk: one warning: %s", said);

	/* Two that read the same data share the directory. */
	buf_clear(&got);
	b = open_blocks(path, &want, true);
	other = open_blocks(path, &want, true);
	read_chunks(b, &got, &e);
	first = each_chunk(INT_MAX, NULL);
	buf_clear(&got);
	ok(read_chunks(other, &got, &e) == ERR_OK && got.len == plain.len && first > 10 &&
	        each_chunk(INT_MAX, NULL) == first,
	    "%d pieces are shared", first);

	/* Somebody does something to the file: what is read from now on is not stored. */
	each_chunk(INT_MAX, remove_file);
	if (chmod(path, 0600) != 0)
		abort();
	lines_said = 0;
	read_chunks(b, &got, &e);
	read_chunks(b, &got, &e);
	ok(each_chunk(INT_MAX, NULL) == 0 && lines_said == 1 && strstr(said, "has changed"),
	    "a file with other times: %s", said);
	/* Its contents change: it is not read any more. */
	buf_printf(&text, "7,7,7\n");
	put_text(path, &text);
	ok(read_chunks(b, &got, &e) == ERR_IO && strstr(e.msg, "has changed since") &&
	        each_chunk(INT_MAX, NULL) == 0,
	    "a file that has changed: %s", e.msg);
	data_blocks_free(b);
	data_blocks_free(other);
	b = open_blocks(path, &want, true);
	buf_clear(&got);
	read_chunks(b, &got, &e);
	first = each_chunk(INT_MAX, NULL);
	data_blocks_free(b);
	ok(first > 10 && count_directories() == 1,
	    "the directory of the file's earlier state is gone");

	/* Skipped lines are counted by everybody. */
	buf_printf(&text, "7,7,x\n");
	for (int i = 0; i < 300; i++)
		buf_printf(&text, "7,7,7\n");
	put_text(path, &text);
	for (int i = 0; i < 2; i++) {
		want.bad = data_bad_lines_new(5, &logger);
		b = open_blocks(path, &want, true);
		buf_clear(&got);
		ok(read_chunks(b, &got, &e) == ERR_OK && data_bad_lines_count(want.bad) == 1,
		    "bad lines are counted, time %d: %s", i, e.msg);
		data_blocks_free(b);
		data_bad_lines_free(want.bad);
	}
	unlink(path);
	free(path);
	buf_release(&text);
	buf_release(&plain);
	buf_release(&got);
}

int main(void)
{
	if (!mkdtemp(dir))
		return 1;
	cache_dir = mem_printf("%s/cache", dir);
	test_formats();
	test_faults();
	empty_cache();
	ok(rmdir(dir) == 0, "nothing is left");
	free(cache_dir);
	return tap_done();
}
