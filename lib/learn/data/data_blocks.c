/* SPDX-License-Identifier: ISC */
#include "data/data_blocks.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/mem.h"
#include "data/data_build.h"
#include "data/data_uri.h"
#include "format/uri.h"

/* Bytes that are read at once behind the end of a block, to find the end of its last line. */
#define TAIL 65536u
/* Blocks of all files together: their order is an array of 32-bit numbers. */
#define BLOCKS_MAX UINT32_MAX

struct file {
	char *name;
	uint64_t size;
	struct data_options options;
	char *heading; /* its first line, with the newline, when that has names; else NULL */
};

struct block {
	uint32_t file;
	uint64_t begin, end; /* bytes of the file */
};

struct data_blocks {
	struct file *file;
	size_t nfiles;
	struct block *block;
	size_t n;
	uint64_t bytes;
	double memory; /* bytes of all data in memory, estimated */
	struct data_want want;
	struct dataset *head;
};

void data_blocks_free(struct data_blocks *b)
{
	if (!b)
		return;
	for (size_t i = 0; i < b->nfiles; i++) {
		free(b->file[i].name);
		free(b->file[i].heading);
		data_uri_release(&b->file[i].options);
	}
	free(b->file);
	free(b->block);
	dataset_free(b->head);
	free(b);
}

size_t data_blocks_count(const struct data_blocks *b)
{
	return b->n;
}

uint64_t data_blocks_bytes(const struct data_blocks *b)
{
	return b->bytes;
}

double data_blocks_memory(const struct data_blocks *b)
{
	return b->memory;
}

const struct dataset *data_blocks_head(const struct data_blocks *b)
{
	return b->head;
}

/* ---- reading ---- */

static enum err_code read_at(int fd, const char *name, uint64_t at, uint8_t *p, size_t n,
    size_t *got, struct err *e)
{
	ssize_t r = 1;

	for (*got = 0; *got < n && r > 0; *got += (size_t)(r > 0 ? r : 0))
		r = pread(fd, p + *got, n - *got, (off_t)(at + *got));
	return r < 0 ? err_sys(e, ERR_IO, "cannot read %s", name) : ERR_OK;
}

/* Appends the file's bytes from `at` up to the end of the line that byte end - 1 belongs to. */
static enum err_code read_lines(int fd, const struct file *f, uint64_t at, uint64_t end,
    struct buf *out, struct err *e)
{
	size_t got, want = (size_t)(end - at);
	const uint8_t *nl = NULL;
	enum err_code rc;

	buf_reserve(out, want + TAIL);
	rc = read_at(fd, f->name, at, out->data + out->len, want, &got, e);
	if (!rc && got < want)
		return err_set(e, ERR_IO, "%s has become shorter while it was read", f->name);
	out->len += want;
	nl = want && out->data[out->len - 1] == '\n' ? out->data : NULL;
	for (at = end; !rc && !nl && at < f->size; at += got) {
		if (at - end > STREAM_LINE_MAX)
			return err_set(e, ERR_LIMIT, "%s: a line at byte %" PRIu64 " is too long",
			    f->name, end);
		buf_reserve(out, TAIL);
		rc = read_at(fd, f->name, at, out->data + out->len, TAIL, &got, e);
		nl = rc ? NULL : memchr(out->data + out->len, '\n', got);
		out->len += nl ? (size_t)(nl - (out->data + out->len)) + 1 : got;
		if (got == 0)
			break;
	}
	return rc;
}

/* Reads the lines that begin in a block, behind the heading of the file. *at: where they begin in `text`,
 * which is overwritten; text->len when none does. */
static enum err_code read_block(const struct data_blocks *b, const struct block *k,
    struct buf *text, size_t *at, struct err *e)
{
	const struct file *f = &b->file[k->file];
	int fd = open(f->name, O_RDONLY | O_CLOEXEC);
	/* A line begins at `begin` if the byte before it is a newline: read that byte, too. */
	uint64_t from = k->begin ? k->begin - 1 : 0;
	size_t heading = k->begin && f->heading ? strlen(f->heading) : 0;
	const uint8_t *first;
	enum err_code rc;

	if (fd < 0)
		return err_sys(e, ERR_IO, "cannot open %s", f->name);
	buf_clear(text);
	buf_append(text, f->heading, heading);
	rc = read_lines(fd, f, from, k->end, text, e);
	close(fd);
	*at = 0;
	if (rc || !k->begin)
		return rc;
	first = memchr(text->data + heading, '\n', (size_t)(k->end - from));
	*at = first ? (size_t)(first - text->data) + 1 : text->len;
	/* A line that begins at `end` belongs to the next block. */
	if (from + (*at - heading) >= k->end)
		*at = text->len;
	if (*at == text->len)
		return ERR_OK;
	/* Put the heading right before the first line. */
	*at -= heading;
	memmove(text->data + *at, f->heading, heading);
	return ERR_OK;
}

/* Parses a block, by way of `text`; *found: it had a line. */
static enum err_code parse_block(const struct data_blocks *b, const struct block *k,
    struct buf *text, struct data_build *build, bool *found, struct err *e)
{
	const struct file *f = &b->file[k->file];
	struct stream *s = NULL;
	char *name = k->begin ? mem_printf("%s+%" PRIu64, f->name, k->begin) : mem_strdup(f->name);
	size_t at = 0;
	enum err_code rc = read_block(b, k, text, &at, e);

	if (!rc && at < text->len) {
		*found = true;
		rc = stream_memory(text->data + at, text->len - at, name, &s, e);
	}
	if (s)
		rc = data_build_read(build, s, &f->options, e);
	stream_close(s);
	free(name);
	return rc;
}

/* ---- chunks ---- */

struct data_chunks {
	const struct data_blocks *blocks;
	uint32_t *number;
	size_t n, next; /* blocks, and those that are in chunks already */
	uint64_t memory;
	struct buf text; /* of a block */
};

struct data_chunks *data_chunks_new(const struct data_blocks *b, const uint32_t *number, size_t n,
    uint64_t memory)
{
	struct data_chunks *c = mem_alloc(sizeof *c);

	*c = (struct data_chunks){ .blocks = b,
		.number = mem_array(n + 1, sizeof *number),
		.n = n,
		.memory = memory };
	memcpy(c->number, number, n * sizeof *number);
	return c;
}

void data_chunks_free(struct data_chunks *c)
{
	if (!c)
		return;
	buf_release(&c->text);
	free(c->number);
	free(c);
}

/* Bytes of an example of the head in memory, on average. */
static double bytes_per_row(const struct dataset *d)
{
	double values = d->sparse ? (double)d->start[d->rows] / (double)d->rows : (double)d->cols;

	return values * (d->sparse ? d->field ? 10 : 8 : d->x8 ? 1 : 4) + (d->sparse ? 12 : 4);
}

/* The room that the examples of the next chunk will take, by the density of the head. */
static void expect_rows(const struct data_chunks *c, struct data_build *build)
{
	const struct data_blocks *b = c->blocks;
	const struct dataset *d = b->head;
	uint64_t bytes = 0;
	double rows, most = (double)c->memory / bytes_per_row(d);

	for (size_t i = c->next; i < c->n; i++)
		bytes += b->block[c->number[i]].end - b->block[c->number[i]].begin;
	rows = (double)bytes / (double)(b->block[0].end - b->block[0].begin) * (double)d->rows;
	rows = (rows < most ? rows : most) * 1.03 + 64;
	data_build_expect(build, (size_t)rows,
	    (size_t)(d->sparse ? rows * (double)d->start[d->rows] / (double)d->rows
	                       : rows * (double)d->cols));
}

/* Does the chunk take as much memory as it may? */
static bool is_full(const struct data_chunks *c, const struct data_build *build)
{
	return data_build_memory(build) >= (double)c->memory;
}

enum err_code data_chunks_next(struct data_chunks *c, struct dataset **out, bool *last,
    struct err *e)
{
	struct data_build *build = data_build_new(&c->blocks->want, c->blocks->head, NULL);
	bool found = false;
	enum err_code rc = ERR_OK;

	*out = NULL;
	expect_rows(c, build);
	for (; !rc && c->next < c->n && !is_full(c, build); c->next++)
		rc = parse_block(c->blocks, &c->blocks->block[c->number[c->next]], &c->text, build,
		    &found, e);
	*last = c->next == c->n;
	/* Blocks inside a long line have no line of their own. */
	if (!rc && found)
		rc = data_build_finish(build, out, e);
	data_build_free(build);
	return rc;
}

/* ---- the list ---- */

/* Adds the files of a path. *fit: they can be cut. */
static enum err_code add_path(struct data_blocks *b, const char *path, const char *base_dir,
    bool *fit, struct err *e)
{
	struct data_options o;
	char *file, **names = NULL;
	size_t n = 0;
	enum err_code rc = data_uri_parse(path, &file, &o, e);

	if (rc)
		return rc;
	*fit = strcmp(file, "-") != 0 && !uri_is(file);
	if (*fit)
		rc = data_uri_expand(file, base_dir, &names, &n, e);
	b->file = mem_regrow(b->file, b->nfiles + n + 1, sizeof *b->file);
	for (size_t i = 0; !rc && i < n; i++) {
		struct file *f = &b->file[b->nfiles];
		struct stat st;

		if (stat(names[i], &st) != 0) {
			rc = err_sys(e, ERR_IO, "cannot open %s", names[i]);
			break;
		}
		*fit = *fit && S_ISREG(st.st_mode);
		*f = (struct file){ .name = mem_strdup(names[i]), .size = (uint64_t)st.st_size };
		/* Parsed once for each file, since each owns its texts. */
		free(file);
		rc = data_uri_parse(path, &file, &f->options, e);
		b->bytes += f->size;
		b->nfiles++;
	}
	data_uri_free(names, n);
	data_uri_release(&o);
	free(file);
	return rc;
}

/* Is the file compressed? Its first bytes say so. */
static bool is_compressed(const char *name)
{
	uint8_t magic[4] = { 0 };
	int fd = open(name, O_RDONLY | O_CLOEXEC);
	bool packed;

	if (fd < 0)
		return false;
	packed = read(fd, magic, sizeof magic) == sizeof magic &&
	    ((magic[0] == 0x1f && magic[1] == 0x8b) || memcmp(magic, "\x28\xb5\x2f\xfd", 4) == 0);
	close(fd);
	return packed;
}

static enum err_code cut_files(struct data_blocks *b, uint64_t block, struct err *e)
{
	size_t n = 0;

	for (size_t i = 0; i < b->nfiles; i++)
		n += (size_t)((b->file[i].size + block - 1) / block);
	if (n > BLOCKS_MAX)
		return err_set(e, ERR_LIMIT, "the data have more than %u blocks", BLOCKS_MAX);
	b->block = mem_array(n + 1, sizeof *b->block);
	for (size_t i = 0; i < b->nfiles; i++)
		for (uint64_t at = 0; at < b->file[i].size; at += block)
			b->block[b->n++] = (struct block){ (uint32_t)i, at,
				at + block < b->file[i].size ? at + block : b->file[i].size };
	return ERR_OK;
}

/* Keeps the first line of each file as its heading, where the head's file has one. */
static enum err_code keep_headings(struct data_blocks *b, struct err *e)
{
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && b->head->heading && i < b->nfiles; i++) {
		struct file *f = &b->file[i];
		struct buf line = BUF_INIT;
		int fd = open(f->name, O_RDONLY | O_CLOEXEC);

		rc = fd < 0 ? err_sys(e, ERR_IO, "cannot open %s", f->name)
		            : read_lines(fd, f, 0, f->size ? 1 : 0, &line, e);
		if (fd >= 0)
			close(fd);
		if (!rc)
			f->heading = mem_printf("%.*s", (int)line.len, (const char *)line.data);
		buf_release(&line);
	}
	return rc;
}

/* Can the files be cut between lines? False also for a file that is none of the formats, which data_load
 * then reports. */
static bool has_lines(const struct data_blocks *b)
{
	const struct file *f = &b->file[b->block[0].file];
	const struct data_reader *reader = NULL;
	struct stream *s;

	if (stream_open(f->name, &s, NULL) == ERR_OK) {
		reader = data_build_reader(s, &f->options, NULL);
		stream_close(s);
	}
	return reader && reader->lines;
}

/* Reads the first block. */
static enum err_code read_head(struct data_blocks *b, struct err *e)
{
	struct data_build *build = data_build_new(&b->want, NULL, NULL);
	struct buf text = BUF_INIT;
	bool found = false;
	enum err_code rc = parse_block(b, &b->block[0], &text, build, &found, e);

	buf_release(&text);
	if (!rc)
		rc = data_build_finish(build, &b->head, e);
	data_build_free(build);
	if (!rc)
		b->memory = bytes_per_row(b->head) * (double)b->head->rows /
		    (double)(b->block[0].end - b->block[0].begin) * (double)b->bytes;
	return rc;
}

enum err_code data_blocks_open(const char *const *paths, size_t npaths, const char *base_dir,
    const struct data_want *want, uint64_t memory, uint64_t block, struct data_blocks **out,
    struct err *e)
{
	struct data_blocks *b = mem_alloc(sizeof *b);
	bool fit = npaths > 0 && !want->words;
	enum err_code rc = ERR_OK;

	*out = NULL;
	b->want = *want;
	for (size_t i = 0; !rc && fit && i < npaths; i++)
		rc = add_path(b, paths[i], base_dir, &fit, e);
	for (size_t i = 0; fit && i < b->nfiles; i++)
		fit = !is_compressed(b->file[i].name);
	/* A byte of text becomes at most about four in memory: "0," is a float. */
	fit = fit && b->bytes > memory / 4;
	if (!rc && fit)
		rc = cut_files(b, block, e);
	fit = !rc && fit && has_lines(b);
	if (fit)
		rc = read_head(b, e);
	/* A head that lacks a class, as of sorted data, does not matter where the data may fit. */
	if (rc == ERR_FORMAT && fit && b->bytes <= memory) {
		rc = ERR_OK;
		fit = false;
	}
	if (!rc && fit && b->memory > (double)memory) {
		rc = keep_headings(b, e);
		if (!rc) {
			*out = b;
			return ERR_OK;
		}
	}
	data_blocks_free(b);
	return rc;
}
