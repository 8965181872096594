/* SPDX-License-Identifier: ISC */
#include "data/data_blocks.h"

#include "core/buf.h"
#include "core/mem.h"
#include "data/data_block_cache.h"
#include "data/data_build.h"
#include "data/data_head.h"
#include "data/data_object.h"
#include "data/data_option.h"
#include "data/data_parts.h"
#include "data/data_uri.h"

/* Blocks of all files together: their order is an array of 32-bit numbers. */
#define BLOCKS_MAX UINT32_MAX
/* Places of the data that the head is taken from, and the bytes of all of them, in blocks. */
#define PLACES        64u
#define PLACES_BLOCKS 8u
#define PLACE_MIN     ((uint64_t)512)
/* A head of fewer examples gets more from the first blocks, of so many bytes at most or half of the
 * memory. */
#define ROWS_MIN   200u
#define MORE_BYTES ((uint64_t)16 << 20)
/* How much of a compressed file was read is known only after some bytes. */
#define PLACE_MIN_COMPRESSED ((uint64_t)128 << 10)
/* The largest growth: bytes in memory for each byte of a file: "0," is a float, and deflate and
 * zstd shrink runs a thousandfold. */
#define GROWTH            4u
#define GROWTH_COMPRESSED 4096u

struct block {
	uint32_t file;
	struct data_part part;
};

struct data_blocks {
	struct data_file *file;
	size_t nfiles;
	const struct data_parts *parts; /* of the format of all files */
	struct block *block;
	size_t n;
	uint64_t size;  /* bytes that a block was to have */
	uint64_t bytes; /* of all files */
	double memory;  /* bytes of all data in memory, estimated */
	double density; /* rows of the head by the bytes of the files that it was read from */
	struct data_want want;
	struct dataset *head;
	struct data_block_cache *cache; /* NULL: none */
	/* NULL: chunks are as they were read */
	enum err_code (*finish)(const void *ctx, struct dataset *chunk, struct err *e);
	const void *finish_ctx;
};

void data_blocks_free(struct data_blocks *b)
{
	if (!b)
		return;
	for (size_t i = 0; i < b->nfiles; i++)
		data_file_release(&b->file[i]);
	free(b->file);
	free(b->block);
	dataset_free(b->head);
	data_block_cache_close(b->cache);
	free(b);
}

size_t data_blocks_count(const struct data_blocks *b)
{
	return b->n;
}

void data_blocks_finish_by(struct data_blocks *b,
    enum err_code (*finish)(const void *ctx, struct dataset *chunk, struct err *e), const void *ctx)
{
	b->finish = finish;
	b->finish_ctx = ctx;
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

struct dataset *data_blocks_own_head(struct data_blocks *b)
{
	return b->head;
}

/* ---- chunks ---- */

struct data_chunks {
	const struct data_blocks *blocks;
	uint32_t *number;
	size_t n, next; /* blocks, and those that were begun */
	bool inside;    /* the block before `next` has more pieces */
	uint32_t piece; /* the next one */
	/* The reader of that block, and how many pieces it has read; NULL: the pieces so far came from the
	 * cache. */
	struct data_cursor *cursor;
	uint32_t cursor_piece;
	uint64_t size, memory; /* of the next chunk, and of the largest ones */
	struct buf text;       /* of the cursors */
	struct dataset *used;  /* a chunk that is no longer needed; NULL: none */
};

struct data_chunks *data_chunks_new(const struct data_blocks *b, const uint32_t *number, size_t n,
    uint64_t first, uint64_t memory)
{
	struct data_chunks *c = mem_alloc(sizeof *c);

	*c = (struct data_chunks){ .blocks = b,
		.number = mem_array(n + 1, sizeof *number),
		.n = n,
		.size = first < memory ? first : memory,
		.memory = memory,
		.text = BUF_INIT };
	for (size_t i = 0; i < n; i++)
		c->number[i] = number[i];
	return c;
}

void data_chunks_free(struct data_chunks *c)
{
	if (!c)
		return;
	if (c->cursor)
		c->cursor->parts->close(c->cursor);
	buf_release(&c->text);
	dataset_free(c->used);
	free(c->number);
	free(c);
}

void data_chunks_reuse(struct data_chunks *c, struct dataset *used)
{
	dataset_free(c->used);
	c->used = used;
}

/* A build of examples that are read like the head. */
static struct data_build *begin_build(const struct data_blocks *b)
{
	struct data_build *build = data_build_new(&b->want, b->head, NULL);

	build->by_lines = true;
	build->brief = true;
	return build;
}

uint64_t data_chunks_read(const struct data_chunks *c, uint64_t *left)
{
	const struct block *block = c->blocks->block;
	uint64_t bytes = 0;

	*left = c->n - c->next + c->inside;
	for (size_t i = 0; i < c->n - *left; i++)
		bytes += block[c->number[i]].part.bytes;
	if (c->cursor)
		bytes += (uint64_t)(c->cursor->done *
		    (double)block[c->number[c->next - 1]].part.bytes);
	return bytes;
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
	double rows, most = (double)c->size / bytes_per_row(d);

	for (size_t i = c->next - c->inside; i < c->n; i++)
		bytes += b->block[c->number[i]].part.bytes;
	rows = (double)bytes * b->density;
	rows = (rows < most ? rows : most) * 1.03 + 64;
	data_build_expect(build, (size_t)rows,
	    (size_t)(d->sparse ? rows * (double)d->start[d->rows] / (double)d->rows
	                       : rows * (double)d->cols));
}

/* Does the chunk take as much memory as it may? */
static bool is_full(const struct data_chunks *c, const struct data_build *build)
{
	return data_build_memory(build) >= (double)c->size;
}

/* Parses the next piece of the present block, for which it opens the block, and reads over pieces that came
 * from the cache. *last: no piece follows. */
static enum err_code parse_piece(struct data_chunks *c, struct data_build *build, bool *last,
    struct err *e)
{
	const struct data_blocks *b = c->blocks;
	const struct block *k = &b->block[c->number[c->next - 1]];
	enum err_code rc = ERR_OK;

	if (!c->cursor) {
		c->cursor_piece = 0;
		rc = b->parts->open(&b->file[k->file], &k->part, &c->text, &c->cursor, e);
	}
	for (; !rc && c->cursor_piece < c->piece; c->cursor_piece++) {
		struct data_build *known = begin_build(b);

		rc = b->parts->read(c->cursor, b->size, known, e);
		data_build_free(known);
	}
	if (!rc)
		rc = b->parts->read(c->cursor, b->size, build, e);
	c->cursor_piece++;
	*last = !rc && c->cursor->ended;
	return rc;
}

/* Takes the next piece from the cache, or parses it and stores it there, and appends it to the build. The
 * chunks are the same in both cases, since they end between pieces, by the number of examples and values. */
static enum err_code take_piece(struct data_chunks *c, struct data_build *build, bool *last,
    struct err *e)
{
	const struct data_blocks *b = c->blocks;
	uint32_t number = c->number[c->next - 1];
	struct data_build *own;
	struct dataset *d = NULL;
	enum err_code rc = ERR_OK;

	if (!data_block_cache_load(b->cache, number, c->piece, &d, last)) {
		bool skipped;

		own = begin_build(b);
		rc = parse_piece(c, own, last, e);
		skipped = own->d->skipped > 0;
		if (!rc && data_build_count(own))
			rc = data_build_finish(own, &d, e);
		if (!rc && (d || (*last && !skipped)))
			data_block_cache_store(b->cache, b->block[number].file, number, c->piece, d,
			    *last);
		data_build_free(own);
	}
	if (!rc && d)
		rc = data_build_append(build, d, e);
	dataset_free(d);
	return rc;
}

/* Appends the next examples of the blocks to the build. */
static enum err_code read_on(struct data_chunks *c, struct data_build *build, struct err *e)
{
	bool last = false;
	enum err_code rc;

	if (!c->inside) {
		c->next++;
		c->piece = 0;
		c->inside = true;
	}
	rc = c->blocks->cache ? take_piece(c, build, &last, e) : parse_piece(c, build, &last, e);
	c->piece++;
	if (!last)
		return rc;
	if (c->cursor)
		c->cursor->parts->close(c->cursor);
	c->cursor = NULL;
	c->inside = false;
	return rc;
}

static enum err_code read_chunk(struct data_chunks *c, struct dataset **out, bool *last,
    struct err *e)
{
	struct data_build *build = begin_build(c->blocks);
	enum err_code rc = ERR_OK;

	*out = NULL;
	data_build_reuse(build, c->used);
	c->used = NULL;
	expect_rows(c, build);
	while (!rc && (c->inside || c->next < c->n) && !is_full(c, build))
		rc = read_on(c, build, e);
	*last = !c->inside && c->next == c->n;
	c->size = c->size < c->memory / 2 ? 2 * c->size : c->memory;
	/* Blocks inside a long line have no line of their own, and bad lines are no examples. */
	if (!rc && data_build_count(build))
		rc = data_build_finish(build, out, e);
	data_build_free(build);
	return rc;
}

/* Has the chunk pass through b->finish. It is freed and becomes NULL where no example is left. */
static enum err_code finish_chunk(const struct data_blocks *b, struct dataset **chunk,
    struct err *e)
{
	enum err_code rc = b->finish ? b->finish(b->finish_ctx, *chunk, e) : ERR_OK;

	if (rc || (*chunk)->rows == 0) {
		dataset_free(*chunk);
		*chunk = NULL;
	}
	return rc;
}

enum err_code data_chunks_next(struct data_chunks *c, struct dataset **out, bool *last,
    struct err *e)
{
	enum err_code rc;

	do {
		rc = read_chunk(c, out, last, e);
		if (!rc && *out)
			rc = finish_chunk(c->blocks, out, e);
	} while (!rc && !*out && !*last);
	return rc;
}

/* ---- the list ---- */

/* Adds the files of a path. *fit: they can be read in parts. */
static enum err_code add_path(struct data_blocks *b, const char *path, const char *base_dir,
    bool *fit, struct err *e)
{
	struct data_options o;
	char *file, **names = NULL;
	size_t n = 0;
	enum err_code rc = data_uri_parse(path, &file, &o, e);

	if (rc)
		return rc;
	rc = data_option_check_file(&o, path, e);
	if (!rc)
		rc = data_uri_expand(file, base_dir, &names, &n, e);
	b->file = mem_regrow(b->file, b->nfiles + n + 1, sizeof *b->file);
	for (size_t i = 0; !rc && *fit && i < n; i++) {
		rc = data_file_open(names[i], path, &b->file[b->nfiles], fit, e);
		b->bytes += b->file[b->nfiles++].size;
	}
	data_uri_free(names, n);
	data_uri_release(&o);
	free(file);
	return rc;
}

/* Makes blocks as large as is worth opening a part, if that is little of the memory. */
static void choose_size(struct data_blocks *b, uint64_t memory)
{
	for (size_t i = 0; i < b->nfiles; i++) {
		uint64_t worth = b->file[i].ops->worth;

		worth = worth < memory / 24 ? worth : memory / 24;
		b->size = worth > b->size ? worth : b->size;
	}
}

/* May the data take more memory than this? */
static bool may_exceed(const struct data_blocks *b, uint64_t memory)
{
	double most = 0;

	for (size_t i = 0; i < b->nfiles; i++)
		most += (double)b->file[i].size * (b->file[i].plain ? GROWTH : GROWTH_COMPRESSED);
	return most > (double)memory;
}

/* Finds the format by the first file that has bytes. b->parts stays NULL when it cannot be read in
 * parts, and for a file that is none of the formats, which data_load then reports. */
static void find_format(struct data_blocks *b)
{
	const struct data_reader *reader = NULL;
	struct data_file *f = b->file, *end = b->file + b->nfiles;
	struct stream *s;

	while (f < end && f->size == 0)
		f++;
	if (f < end && data_file_part(f, 0, data_file_cut(f, DATA_PROBE), &s, NULL) == ERR_OK) {
		reader = data_build_reader(s, &f->options, &b->want, NULL, NULL);
		stream_close(s);
	}
	b->parts = reader ? reader->parts : NULL;
	for (size_t i = 0; b->parts && i < b->nfiles; i++) {
		b->file[i].parts = b->parts;
		if (!b->file[i].options.format)
			b->file[i].options.format = mem_strdup(data_reader_name(reader));
	}
}

/* *fit: all files can be cut. */
static enum err_code cut_files(struct data_blocks *b, const char *base_dir, bool *fit,
    struct err *e)
{
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && *fit && i < b->nfiles; i++) {
		struct data_part *part = NULL;
		size_t n = 0;

		rc = b->parts->cut(&b->file[i], base_dir, &b->want, NULL, b->size, &part, &n, e);
		*fit = n > 0 || b->file[i].size == 0;
		if (!rc && n > BLOCKS_MAX - b->n)
			rc = err_set(e, ERR_LIMIT, "the data have more than %u blocks", BLOCKS_MAX);
		if (!rc)
			b->block = mem_regrow(b->block, b->n + n + 1, sizeof *b->block);
		for (size_t k = 0; !rc && k < n; k++)
			b->block[b->n++] = (struct block){ (uint32_t)i, part[k] };
		free(part);
	}
	*fit = *fit && b->n > 0;
	return rc;
}

/* ---- the head ---- */

/* Reads the first lines of a file, whole ones where there are several. */
static enum err_code read_first_lines(const struct data_file *f, struct buf *out, struct err *e)
{
	struct stream *s = NULL;
	size_t got = 0;
	enum err_code rc = data_file_part(f, 0, data_file_cut(f, DATA_PROBE), &s, e);
	const uint8_t *nl;

	if (!rc) {
		rc = stream_read(s, buf_reserve(out, DATA_PROBE + STREAM_PAD), DATA_PROBE, &got, e);
		buf_commit(out, got);
		nl = memrchr(out->data, '\n', out->len);
		if (nl)
			out->len = (size_t)(nl - out->data) + 1;
	}
	stream_close(s);
	return rc;
}

/* Takes over for a file what the examples read first have shown. Where the first file has a heading, others may
 * have one of their own. Those that split -l has made have none: the heading of the first file stands before
 * their lines. */
static enum err_code decide_file(struct data_file *f, const struct data_build *build,
    const struct data_file *first, struct err *e)
{
	struct buf text = BUF_INIT;
	uint64_t line = f == first ? build->d->heading : 0;
	enum err_code rc;

	data_head_decide(&f->options, build->d);
	if (!build->d->heading)
		return ERR_OK;
	rc = read_first_lines(f, &text, e);
	if (!rc && f != first)
		line = data_head_find((const char *)text.data, text.len, first->heading,
		    &f->options.decided.separator);
	if (!rc && line)
		f->heading = data_head_line((const char *)text.data, text.len, line);
	f->bare = !f->heading && first->heading;
	if (f->bare)
		f->heading = mem_strdup(first->heading);
	buf_release(&text);
	return rc;
}

/* Decides for all files how they are read, once the first examples are. */
static enum err_code decide_files(struct data_blocks *b, const struct data_build *build,
    struct err *e)
{
	struct data_file *first = &b->file[b->block[0].file];
	enum err_code rc = decide_file(first, build, first, e);

	for (size_t i = 0; !rc && i < b->nfiles; i++)
		if (&b->file[i] != first && b->file[i].size)
			rc = decide_file(&b->file[i], build, first, e);
	return rc;
}

/* The k-th of n places, which are as far apart as possible: the beginning of a block, or the end of
 * the last one, of about `size` bytes where parts of the file can begin and end anywhere. */
static struct block choose_place(const struct data_blocks *b, size_t k, size_t n, uint64_t size)
{
	struct block x = b->block[n > 1 ? k * (b->n - 1) / (n - 1) : 0];
	uint64_t units = x.part.end - x.part.begin;
	uint64_t kept = (uint64_t)((double)units * (double)size / (double)x.part.bytes) + 1;

	if (!b->file[x.file].plain || kept >= units)
		return x;
	if (k > 0 && k + 1 == n)
		x.part.begin = x.part.end - kept;
	else
		x.part.end = x.part.begin + kept;
	x.part.bytes = size;
	return x;
}

/* Appends the examples of a place, and adds the bytes of the files that they were read from to *bytes. */
static enum err_code read_place(struct data_blocks *b, const struct block *k, uint64_t size,
    struct data_build *build, double *bytes, struct err *e)
{
	struct data_file *f = &b->file[k->file];
	struct buf text = BUF_INIT;
	struct data_cursor *c = NULL;
	enum err_code rc;

	if (!f->plain && size < PLACE_MIN_COMPRESSED)
		size = PLACE_MIN_COMPRESSED;
	rc = b->parts->open(f, &k->part, &text, &c, e);
	if (!rc)
		rc = b->parts->read(c, size, build, e);
	if (!rc)
		*bytes += c->done * (double)k->part.bytes;
	if (c)
		b->parts->close(c);
	buf_release(&text);
	return rc;
}

/* Appends examples of the first blocks while there are few: where examples are long, most places
 * have none. */
static enum err_code read_more(struct data_blocks *b, struct data_build *build, double *bytes,
    struct err *e)
{
	double most = *bytes + (double)(64 * b->size > MORE_BYTES ? 64 * b->size : MORE_BYTES);
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && i < b->n && data_build_count(build) < ROWS_MIN && *bytes < most;
	     i++)
		rc = read_place(b, &b->block[i], b->size, build, bytes, e);
	return rc;
}

/* Reads examples from many places of the data. */
static enum err_code read_head(struct data_blocks *b, struct err *e)
{
	struct data_build *build = data_build_new(&b->want, NULL, NULL);
	size_t most = b->file[b->block[0].file].ops->places;
	size_t places = b->n < most ? b->n : most;
	uint64_t size = b->size * PLACES_BLOCKS / places;
	double bytes = 0;
	enum err_code rc = ERR_OK;

	build->by_lines = true;
	size = size < PLACE_MIN ? PLACE_MIN : size;
	size = size > b->size ? b->size : size;
	for (size_t k = 0; !rc && k < places; k++) {
		struct block place = choose_place(b, k, places, size);

		rc = read_place(b, &place, size, build, &bytes, e);
		if (!rc && k == 0 && b->parts == &data_parts_lines)
			rc = decide_files(b, build, e);
	}
	if (!rc)
		rc = read_more(b, build, &bytes, e);
	if (!rc)
		rc = data_build_finish(build, &b->head, e);
	data_build_free(build);
	b->want.base = NULL;
	b->want.scale = NULL;
	if (rc)
		return rc;
	b->head->sampled = true;
	b->density = (double)b->head->rows / bytes;
	b->memory = bytes_per_row(b->head) * b->density * (double)b->bytes;
	return ERR_OK;
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
	b->size = block;
	for (size_t i = 0; !rc && fit && i < npaths; i++)
		rc = add_path(b, paths[i], base_dir, &fit, e);
	fit = !rc && fit && may_exceed(b, memory);
	if (fit) {
		choose_size(b, memory);
		find_format(b);
		fit = b->parts;
	}
	if (fit)
		rc = cut_files(b, base_dir, &fit, e);
	if (!rc && fit)
		rc = read_head(b, e);
	/* A head that lacks a class, as of sorted data, does not matter where the data may fit. */
	if (rc == ERR_FORMAT && fit && b->bytes <= memory) {
		rc = ERR_OK;
		fit = false;
	}
	if (!rc && fit && b->memory > (double)memory) {
		*out = b;
		return ERR_OK;
	}
	data_blocks_free(b);
	return rc;
}

void data_blocks_use_cache(struct data_blocks *b, const struct data_cache *c,
    const char *const *paths, size_t npaths, const char *base_dir)
{
	const char **name = mem_array(b->nfiles + 1, sizeof *name);

	for (size_t i = 0; i < b->nfiles; i++)
		name[i] = b->file[i].name;
	b->cache = data_block_cache_open(c,
	    &(struct data_block_cache_spec){ paths, npaths, base_dir, &b->want, b->head, b->size,
	        name, b->nfiles });
	free(name);
}
