/* SPDX-License-Identifier: ISC */
#include "data/data_blocks.h"

#include "core/buf.h"
#include "core/mem.h"
#include "data/data_build.h"
#include "data/reader/data_head.h"
#include "data/source/data_object.h"
#include "data/source/data_option.h"
#include "data/reader/data_parts.h"
#include "data/shape/data_shape.h"
#include "data/source/data_uri.h"

/* Blocks of all files together: their order is an array of 32-bit numbers. */
#define BLOCKS_MAX UINT32_MAX
/* Places of the data that the head is taken from, and the bytes of all of them, in blocks. */
#define PLACES        64u
#define PLACES_BLOCKS 8u
#define PLACE_MIN     ((uint64_t)512)
/* A head of fewer examples gets more from the first blocks, of this many bytes at most or half of
 * the memory. */
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
	bool fit;                       /* all files can be read in parts */
	const struct data_parts *parts; /* of the format of all files */
	struct block *block;
	size_t n;
	uint64_t size;  /* bytes that a block was to have */
	uint64_t bytes; /* of all files */
	double memory;  /* bytes of all data in memory, estimated */
	double density; /* rows of the head by the bytes of the files that it was read from */
	struct data_want want;
	struct dataset *head;
	struct data_cache_entry *cache; /* NULL: none */
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
	data_cache_close(b->cache);
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

/* ---- a walk over blocks ---- */

struct range {
	const struct data_blocks *blocks;
	uint32_t *number;
	size_t n;
	bool begun;            /* a dataset was */
	uint64_t size, memory; /* of the present dataset, and of the largest ones */
	struct data_walk *walk;
};

static void place_block(void *ctx, size_t number, struct data_place *out)
{
	const struct range *r = ctx;
	const struct block *k = &r->blocks->block[r->number[number]];

	out->file = &r->blocks->file[k->file];
	out->part = &k->part;
}

static uint64_t chunk_of_block(void *ctx, const struct data_cursor *c)
{
	const struct range *r = ctx;

	(void)c;
	return r->blocks->size;
}

/* Bytes of an example of the head in memory, on average. */
static double bytes_per_row(const struct dataset *d)
{
	return data_shape_bytes(d) / (double)d->rows;
}

/* The room that the examples of the next dataset will take, by the density of the head. */
static void expect_rows(const struct range *r, struct data_build *build)
{
	const struct data_blocks *b = r->blocks;
	const struct dataset *d = b->head;
	uint64_t bytes = 0;
	double rows, share, most = (double)r->size / bytes_per_row(d);

	for (size_t i = data_walk_done(r->walk, &share); i < r->n; i++)
		bytes += b->block[r->number[i]].part.bytes;
	rows = (double)bytes * b->density;
	rows = (rows < most ? rows : most) * 1.03 + 64;
	data_build_expect(build, (size_t)rows,
	    (size_t)(rows * (double)data_shape_of(d)->values(d) / (double)d->rows));
}

/* Begins a build of examples that are read like the head. Each dataset may take twice as much
 * memory as the one before it. */
static struct data_build *begin_range(void *ctx, bool chunk_only)
{
	struct range *r = ctx;
	struct data_build *build = data_build_new(&r->blocks->want, r->blocks->head, NULL);

	build->by_lines = true;
	build->transient = true;
	if (chunk_only)
		return build;
	if (r->begun)
		r->size = r->size < r->memory / 2 ? 2 * r->size : r->memory;
	r->begun = true;
	expect_rows(r, build);
	return build;
}

/* Does the dataset take as much memory as it may? */
static bool is_range_full(void *ctx, const struct data_build *build)
{
	const struct range *r = ctx;

	return data_build_memory(build) >= (double)r->size;
}

static bool load_chunk(void *ctx, size_t place, uint32_t chunk, struct dataset **out, bool *last)
{
	const struct range *r = ctx;

	return data_cache_load(r->blocks->cache, r->number[place], chunk, out, last);
}

static void store_chunk(void *ctx, size_t place, uint32_t chunk, const struct dataset *d, bool last)
{
	const struct range *r = ctx;
	uint32_t number = r->number[place];

	data_cache_store(r->blocks->cache, r->blocks->block[number].file, number, chunk, d, last);
}

static void free_range(void *ctx)
{
	struct range *r = ctx;

	free(r->number);
	free(r);
}

static enum err_code finish_dataset(void *ctx, struct dataset *d, struct err *e)
{
	const struct data_blocks *b = ((const struct range *)ctx)->blocks;

	return b->finish ? b->finish(b->finish_ctx, d, e) : ERR_OK;
}

static const struct data_walk_policy range_policy = { .place = place_block,
	.chunk = chunk_of_block,
	.begin = begin_range,
	.is_full = is_range_full,
	.finish = finish_dataset,
	.free = free_range };
static const struct data_walk_policy cached_range_policy = { .place = place_block,
	.chunk = chunk_of_block,
	.begin = begin_range,
	.is_full = is_range_full,
	.load = load_chunk,
	.store = store_chunk,
	.finish = finish_dataset,
	.free = free_range };

struct data_walk *data_blocks_walk(const struct data_blocks *b, const uint32_t *number, size_t n,
    uint64_t first, uint64_t memory)
{
	struct range *r = mem_alloc(sizeof *r);

	*r = (struct range){ .blocks = b,
		.number = mem_array(n + 1, sizeof *number),
		.n = n,
		.size = first < memory ? first : memory,
		.memory = memory };
	for (size_t i = 0; i < n; i++)
		r->number[i] = number[i];
	r->walk = data_walk_new(b->cache ? &cached_range_policy : &range_policy, r, n);
	return r->walk;
}

uint64_t data_blocks_walked(const struct data_walk *w, uint64_t *left)
{
	const struct range *r = data_walk_context(w);
	const struct block *block = r->blocks->block;
	uint64_t bytes = 0;
	double share;
	size_t done = data_walk_done(w, &share);

	*left = r->n - done;
	for (size_t i = 0; i < done; i++)
		bytes += block[r->number[i]].part.bytes;
	if (share > 0)
		bytes += (uint64_t)(share * (double)block[r->number[done]].part.bytes);
	return bytes;
}

/* ---- the list ---- */

/* Adds a file. */
static enum err_code add_block_file(void *ctx, const char *name, const char *path,
    const struct data_options *o, struct err *e)
{
	struct data_blocks *b = ctx;
	enum err_code rc;

	(void)o;
	if (!b->fit)
		return ERR_OK;
	b->file = mem_regrow(b->file, b->nfiles + 1, sizeof *b->file);
	rc = data_file_open(name, path, &b->file[b->nfiles], &b->fit, e);
	b->bytes += b->file[b->nfiles++].size;
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
		data_guess_reader(s, &f->options, &b->want, NULL, NULL, &reader, NULL);
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

/* Finds the heading of a file other than the first one, which has the heading `first`. The file may
 * have one of its own. Those that split -l has made have none: the heading of the first file holds
 * for them. */
static enum err_code find_file_heading(struct data_file *f, const char *first, struct err *e)
{
	struct data_decided *decided = &f->options.decided;
	struct buf text = BUF_INIT;
	enum err_code rc = read_first_lines(f, &text, e);
	uint64_t line = rc
	    ? 0
	    : data_head_find((const char *)text.data, text.len, first, &decided->separator);

	decided->heading = line ? DATA_HEADING_GIVEN : DATA_HEADING_ABOVE;
	decided->names = line ? data_head_line((const char *)text.data, text.len, line)
	                      : mem_strdup(first);
	buf_release(&text);
	return rc;
}

/* Decides for all files how they are read, once the parser has read the first examples. */
static enum err_code decide_files(struct data_blocks *b, const struct data_build *build,
    struct err *e)
{
	struct data_file *first = &b->file[b->block[0].file];
	enum err_code rc = ERR_OK;

	for (size_t i = 0; i < b->nfiles; i++)
		data_head_decide(&b->file[i].options, build->d, NULL);
	if (!build->stream_heading)
		return ERR_OK;
	first->options.decided.heading = DATA_HEADING_GIVEN;
	first->options.decided.names = mem_strdup(build->stream_heading);
	for (size_t i = 0; !rc && i < b->nfiles; i++)
		if (&b->file[i] != first && b->file[i].size)
			rc = find_file_heading(&b->file[i], build->stream_heading, e);
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

/* Appends the examples of a place, and adds the bytes of the files that they were read from to
 * *bytes. */
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
	uint64_t size = b->size * PLACES_BLOCKS / places, heading = 0;
	double bytes = 0;
	enum err_code rc = ERR_OK;

	build->by_lines = true;
	size = size < PLACE_MIN ? PLACE_MIN : size;
	size = size > b->size ? b->size : size;
	for (size_t k = 0; !rc && k < places; k++) {
		struct block place = choose_place(b, k, places, size);

		rc = read_place(b, &place, size, build, &bytes, e);
		if (k == 0)
			heading = build->d->reading.heading;
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
	b->head->reading.sampled = true;
	b->head->reading.heading = heading;
	b->density = (double)b->head->rows / bytes;
	b->memory = bytes_per_row(b->head) * b->density * (double)b->bytes;
	return ERR_OK;
}

enum err_code data_blocks_open(const char *const *paths, size_t npaths, const char *base_dir,
    const struct data_want *want, uint64_t memory, uint64_t block, struct data_blocks **out,
    struct err *e)
{
	struct data_blocks *b = mem_alloc(sizeof *b);
	bool fit;
	enum err_code rc;

	*out = NULL;
	b->want = *want;
	b->size = block;
	b->fit = npaths > 0 && !want->words;
	rc = b->fit ? data_walk_files(paths, npaths, base_dir, add_block_file, b, e) : ERR_OK;
	fit = !rc && b->fit && may_exceed(b, memory);
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
	b->cache = data_cache_open(c,
	    &(struct data_cache_source){ paths, npaths, base_dir, &b->want, b->head, b->size, name,
	        b->nfiles });
	free(name);
}
