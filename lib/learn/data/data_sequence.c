/* SPDX-License-Identifier: ISC */
#include "data/data_sequence.h"

#include <sys/stat.h>

#include "core/buf.h"
#include "core/mem.h"
#include "data/data_build.h"
#include "data/source/data_object.h"
#include "data/source/data_option.h"
#include "data/reader/data_parts.h"
#include "data/shape/data_shape.h"
#include "data/source/data_uri.h"
#include "format/uri.h"

/* Bytes of text of a chunk: a part of the memory, within bounds. Fewer would not show how much
 * memory all data need. */
#define CHUNK_MIN  ((uint64_t)64 << 10)
#define CHUNK_MAX  ((uint64_t)4 << 20)
#define CHUNK_PART 16
/* Bytes in memory that a byte of text may become: "0," is a float. */
#define GROWTH 4u

struct sequence_file {
	char *name, *shown; /* to open it, and for messages */
	struct data_options options;
	uint64_t size; /* in bytes, compressed or not; 0: a stream, which can be read once */
	bool plain;    /* its bytes are text or rows, not compressed */
	/* of objects, and of the files of a sequence that is read in chunks: cut into one part */
	bool opened;
	struct data_file file;
	struct data_part part;
};

struct data_sequence {
	struct dataset *whole; /* NULL: read in chunks */
	/* of rows of data in memory, and of blocks: borrowed, and how many they are */
	const struct dataset *of;
	const uint32_t *row;
	const struct data_blocks *blocks;
	const uint32_t *number;
	size_t n;
	/* of data that are read in chunks */
	struct data_want want;
	const struct dataset *like;
	struct sequence_file *file;
	size_t nfiles;
	uint64_t chunk_bytes;
	/* the present place: the walk over blocks or files (NULL: at the beginning), what can be
	 * read once, before the walk begins, and the examples of the chunk */
	struct data_walk *walk;
	struct stream *stream;
	struct dataset *chunk;
	bool ended;        /* the present chunk is the last one */
	uint64_t examples; /* before the next chunk */
};

void data_sequence_rewind(struct data_sequence *s)
{
	data_walk_free(s->walk);
	s->walk = NULL;
	stream_close(s->stream);
	s->stream = NULL;
	s->ended = false;
	dataset_free(s->chunk);
	s->chunk = NULL;
	s->examples = 0;
}

static void free_files(struct data_sequence *s)
{
	for (size_t i = 0; i < s->nfiles; i++) {
		free(s->file[i].name);
		free(s->file[i].shown);
		data_uri_release(&s->file[i].options);
		if (s->file[i].opened)
			data_file_release(&s->file[i].file);
	}
	free(s->file);
	s->file = NULL;
	s->nfiles = 0;
}

void data_sequence_free(struct data_sequence *s)
{
	if (!s)
		return;
	data_sequence_rewind(s);
	free_files(s);
	dataset_free(s->whole);
	free(s);
}

const struct dataset *data_sequence_whole(const struct data_sequence *s)
{
	return s->whole;
}

struct data_sequence *data_sequence_of_dataset(struct dataset *d)
{
	struct data_sequence *s = mem_alloc(sizeof *s);

	s->whole = d;
	return s;
}

struct data_sequence *data_sequence_of_rows(const struct dataset *d, const uint32_t *row, size_t n)
{
	struct data_sequence *s = mem_alloc(sizeof *s);

	s->of = d;
	s->row = row;
	s->n = n;
	return s;
}

struct data_sequence *data_sequence_of_blocks(const struct data_blocks *blocks,
    const uint32_t *number, size_t n, uint64_t memory)
{
	struct data_sequence *s = mem_alloc(sizeof *s);

	s->blocks = blocks;
	s->number = number;
	s->n = n;
	s->chunk_bytes = memory;
	return s;
}

const uint32_t *data_sequence_rows(const struct data_sequence *s, size_t *n)
{
	*n = s->n;
	return s->row;
}

/* The dataset of which all or some rows are the sequence, once. */
static void next_rows(struct data_sequence *s, const struct dataset *all,
    const struct dataset **chunk)
{
	*chunk = s->ended ? NULL : all;
	s->ended = !s->ended;
}

void data_sequence_describe(const struct data_sequence *s, char out[static DATA_DESCRIPTION])
{
	if (s->of)
		snprintf(out, DATA_DESCRIPTION, "%zu examples held out", s->n);
	else if (s->blocks)
		snprintf(out, DATA_DESCRIPTION, "%zu blocks held out", s->n);
	else if (s->whole)
		data_describe(s->whole, out);
	else if (s->nfiles > 1)
		snprintf(out, DATA_DESCRIPTION,
		    "%.150s and %zu more files, in pieces of %llu bytes", s->file[0].shown,
		    s->nfiles - 1, (unsigned long long)s->chunk_bytes);
	else
		snprintf(out, DATA_DESCRIPTION, "%.200s, in pieces of %llu bytes", s->file[0].shown,
		    (unsigned long long)s->chunk_bytes);
}

/* ---- reading ---- */

static void place_file(void *ctx, size_t number, struct data_place *out)
{
	struct data_sequence *s = ctx;
	const struct sequence_file *f = &s->file[number];

	if (f->file.parts && !s->stream)
		*out = (struct data_place){ .file = &f->file, .part = &f->part };
	else
		*out = (struct data_place){ .name = f->name,
			.stream = s->stream,
			.options = &f->options };
	out->multiple = DATA_SEQUENCE_LINES;
	s->stream = NULL;
}

/* A multiple of DATA_SEQUENCE_LINES rows has this many bytes unless rows are very long; the reader
 * of lines sees to that by itself. */
static uint64_t chunk_of_file(void *ctx, const struct data_cursor *c)
{
	const struct data_sequence *s = ctx;
	double share;
	uint64_t step;

	if (!c->parts->row_bytes)
		return s->chunk_bytes;
	step = c->parts->row_bytes(&s->file[data_walk_done(s->walk, &share)].file) *
	    DATA_SEQUENCE_LINES;
	return step > 4 * s->chunk_bytes ? s->chunk_bytes
	    : step > s->chunk_bytes      ? step
	                                 : s->chunk_bytes / step * step;
}

static struct data_build *begin_chunk(void *ctx, bool chunk_only)
{
	const struct data_sequence *s = ctx;

	(void)chunk_only;
	return data_build_new(&s->want, s->like, NULL);
}

static bool has_examples(void *ctx, const struct data_build *b)
{
	(void)ctx;
	return data_build_count(b) > 0;
}

static const struct data_walk_policy sequence_policy = { .place = place_file,
	.chunk = chunk_of_file,
	.begin = begin_chunk,
	.is_full = has_examples };

static struct data_walk *begin_walk(struct data_sequence *s)
{
	return s->blocks
	    ? data_blocks_walk(s->blocks, s->number, s->n, s->chunk_bytes, s->chunk_bytes)
	    : data_walk_new(&sequence_policy, s, s->nfiles);
}

static enum err_code fail_empty(const struct data_sequence *s, struct err *e)
{
	return err_set(e, ERR_FORMAT, "%s: has no examples", s->file[0].shown);
}

enum err_code data_sequence_next(struct data_sequence *s, const struct dataset **chunk,
    struct err *e)
{
	enum err_code rc = ERR_OK;

	*chunk = NULL;
	if (s->of || s->whole) {
		next_rows(s, s->of ? s->of : s->whole, chunk);
		return ERR_OK;
	}
	dataset_free(s->chunk);
	s->chunk = NULL;
	if (!s->walk)
		s->walk = begin_walk(s);
	if (!s->ended)
		rc = data_walk_next(s->walk, &s->chunk, &s->ended, e);
	if (!rc && !s->chunk && !s->examples && !s->blocks)
		rc = fail_empty(s, e);
	if (rc || !s->chunk) {
		data_sequence_rewind(s);
		return rc;
	}
	s->examples += s->chunk->rows;
	*chunk = s->chunk;
	return ERR_OK;
}

/* ---- opening ---- */

/* The sequence to which files are added. */
struct adding {
	struct data_sequence *s;
	const struct data_sequence_spec *spec;
	bool fit;     /* the files can be read in chunks, as far as their names tell */
	bool streams; /* one of them can be read once */
};

/* Adds a file. Objects are opened here, which tells their size. A stream, which can be read once,
 * may be read in chunks when it is all there is (choose_chunks). */
static enum err_code add_sequence_file(void *ctx, const char *name, const char *path,
    const struct data_options *o, struct err *e)
{
	struct adding *a = ctx;
	struct data_sequence *s = a->s;
	struct sequence_file *f;
	struct stat st = { 0 };
	enum err_code rc;

	(void)path;
	if (!a->fit)
		return ERR_OK;
	s->file = mem_regrow(s->file, s->nfiles + 1, sizeof *s->file);
	f = &s->file[s->nfiles++];
	*f = (struct sequence_file){ .name = mem_strdup(name),
		.shown = uri_is(name) ? uri_shown(name) : mem_strdup(name),
		.options = data_uri_copy(o) };
	data_option_take_format(&f->options, a->spec->like);
	if (uri_is(name)) {
		f->opened = true;
		rc = data_file_open(name, NULL, &f->file, &a->fit, e);
		f->size = f->file.size;
		f->plain = f->file.plain;
		a->fit = a->fit && f->size > 0;
		return rc;
	}
	if (strcmp(name, "-") != 0 && stat(name, &st) != 0)
		return err_sys(e, ERR_IO, "cannot open %s", name);
	f->size = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
	f->plain = f->size > 0 && data_file_is_plain(name);
	a->streams = a->streams || !S_ISREG(st.st_mode);
	a->fit = !a->streams || (a->spec->once && s->nfiles == 1);
	return ERR_OK;
}

/* Will all files take more than `memory`? The first chunk is a known part of the first file,
 * compressed or not, and the others are taken to be like it. */
static enum err_code measure_files(struct data_sequence *s, uint64_t memory, bool *large,
    struct err *e)
{
	const struct dataset *chunk;
	uint64_t bytes = 0;
	double part, first = (double)s->file[0].size;
	enum err_code rc;

	*large = false;
	s->walk = begin_walk(s);
	rc = data_walk_next(s->walk, &s->chunk, &s->ended, e);
	if (rc)
		return rc;
	chunk = s->chunk;
	for (size_t i = 0; i < s->nfiles; i++)
		bytes += s->file[i].size;
	if (data_walk_done(s->walk, &part))
		part = 1;
	if (chunk && part > 0)
		*large = (data_shape_bytes(chunk) + (double)chunk->nids * 8) / part *
		        (double)bytes / first >
		    (double)memory;
	return ERR_OK;
}

/* Cuts each file into one part. *fit is false for a file that is none of rows, where others are, or
 * has a fault, which data_load reports. */
static enum err_code cut_files(struct data_sequence *s, const struct data_reader *reader,
    const char *base_dir, bool *fit, struct err *e)
{
	struct data_part *part;
	size_t n;
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && *fit && i < s->nfiles; i++) {
		struct sequence_file *f = &s->file[i];

		if (!f->opened)
			rc = data_file_open(f->name, NULL, &f->file, fit, e);
		f->opened = true;
		if (rc || !*fit)
			break;
		data_uri_release(&f->file.options);
		f->file.options = data_uri_copy(&f->options);
		f->file.parts = reader->parts;
		f->part = (struct data_part){ 0, f->file.size, f->file.size };
		if (!reader->parts->row_bytes)
			continue;
		if (!f->file.options.format)
			f->file.options.format = mem_strdup(data_reader_name(reader));
		rc = data_option_take(&f->file.options, s->like, data_reader_number(reader),
		    !s->want.any, f->shown, e);
		if (rc)
			break;
		*fit = reader->parts->cut(&f->file, base_dir, &s->want, s->like, UINT64_MAX, &part,
		           &n, NULL) == ERR_OK &&
		    n == 1;
		if (*fit)
			f->part = *part;
		free(part);
	}
	return rc;
}

/* Will the rows of all files, which are cut, take no more than `memory`, whatever type their values
 * have? */
static bool are_few_rows(const struct data_sequence *s, uint64_t memory)
{
	double bytes = 0;

	for (size_t i = 0; i < s->nfiles; i++) {
		const struct sequence_file *f = &s->file[i];

		bytes += (double)(f->part.end - f->part.begin) *
		    (double)f->file.parts->row_bytes(&f->file);
	}
	return bytes <= (double)(memory / GROWTH);
}

/* Opens the first file, to find its format. A stream is left open. */
static enum err_code find_reader(struct data_sequence *s, const struct data_reader **reader,
    struct err *e)
{
	const struct sequence_file *f = &s->file[0];
	enum err_code rc = f->opened ? data_file_part(&f->file, 0, f->file.size, &s->stream, e)
	                             : data_open(f->name, &s->stream, e);

	if (rc)
		return rc;
	rc = data_guess_reader(s->stream, &f->options, &s->want, NULL, s->like, reader, e);
	if (!rc && f->size)
		data_sequence_rewind(s);
	return rc;
}

/* Decides between chunks and all at once. A stream cannot be opened again: it is left open where it
 * is to be read in chunks, and else loaded here. */
static enum err_code choose_chunks(struct data_sequence *s, const struct data_sequence_spec *spec,
    bool *large, struct err *e)
{
	const struct data_reader *reader;
	enum err_code rc = find_reader(s, &reader, e);
	bool rows;

	if (rc)
		return rc;
	rows = reader->parts && reader->parts->row_bytes;
	*large = reader->parts;
	if (s->file[0].size == 0) {
		*large = *large && !rows;
		return *large ? ERR_OK
		              : data_load_stream(s->stream, &s->file[0].options, &s->want, s->like,
		                    &s->whole, e);
	}
	if (*large)
		rc = cut_files(s, reader, spec->base_dir, large, e);
	if (!rc && *large && rows)
		*large = !are_few_rows(s, spec->memory);
	if (!rc && *large)
		rc = measure_files(s, spec->memory, large, e);
	data_sequence_rewind(s);
	return rc;
}

/* Will the files take no more than `memory`, judged by their sizes alone? Then none needs to be
 * read twice. */
static bool are_small(const struct data_sequence *s, uint64_t memory)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < s->nfiles; i++) {
		if (!s->file[i].plain)
			return false;
		bytes += s->file[i].size;
	}
	return bytes <= memory / GROWTH;
}

enum err_code data_sequence_open(const struct data_sequence_spec *spec, struct data_sequence **out,
    struct err *e)
{
	struct data_sequence *s = mem_alloc(sizeof *s);
	struct adding a = { .s = s,
		.spec = spec,
		.fit = spec->npaths > 0 && !spec->want->words && !spec->want->pairs };
	uint64_t chunk = spec->memory / CHUNK_PART;
	bool large;
	enum err_code rc = ERR_OK;

	*out = NULL;
	s->want = *spec->want;
	s->like = spec->like;
	s->chunk_bytes = chunk < CHUNK_MIN ? CHUNK_MIN : chunk > CHUNK_MAX ? CHUNK_MAX : chunk;
	if (a.fit)
		rc = data_walk_files(spec->paths, spec->npaths, spec->base_dir, add_sequence_file,
		    &a, e);
	large = a.fit;
	if (!rc && large && are_small(s, spec->memory))
		large = false;
	if (!rc && large)
		rc = choose_chunks(s, spec, &large, e);
	if (!rc && !large && !s->whole)
		rc = data_load_cached(spec->cache, spec->paths, spec->npaths, spec->base_dir,
		    spec->want, spec->like, &s->whole, e);
	if (rc) {
		data_sequence_free(s);
		return rc;
	}
	*out = s;
	return ERR_OK;
}
