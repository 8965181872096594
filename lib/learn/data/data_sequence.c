/* SPDX-License-Identifier: ISC */
#include "data/data_sequence.h"

#include <sys/stat.h>

#include "core/buf.h"
#include "core/mem.h"
#include "data/data_build.h"
#include "data/data_pieces.h"
#include "data/data_object.h"
#include "data/data_option.h"
#include "data/data_parts.h"
#include "data/data_uri.h"
#include "format/uri.h"

/* Bytes of text of a piece: a part of the memory, within bounds. Fewer would not show how much memory all
 * data need. */
#define PIECE_MIN  ((uint64_t)64 << 10)
#define PIECE_MAX  ((uint64_t)4 << 20)
#define PIECE_PART 16
/* Bytes in memory that a byte of text may become: "0," is a float. */
#define GROWTH 4u

struct sequence_file {
	char *name, *shown; /* to open it, and for messages */
	struct data_options options;
	uint64_t size; /* in bytes, compressed or not; 0: a stream, which can be read once */
	/* of objects, and of files of rows, which are cut into one part */
	bool plain; /* its bytes are text or rows, not compressed */
	bool opened;
	struct data_file file;
	struct data_part part;
};

/* The functions that read the pieces of a format. */
struct sequence_ops {
	/* Opens the file s->at. */
	enum err_code (*open)(struct data_sequence *s, struct err *e);
	/* Loads the next piece of the file that is open. *ended: the file has no more. Errors as data_load. */
	enum err_code (*load)(struct data_sequence *s, bool *ended, struct err *e);
	/* The share of the file that is open which was read; 0: not known. */
	double (*progress)(const struct data_sequence *s);
	/* Closes the file, which may be none. */
	void (*close)(struct data_sequence *s);
};

struct data_sequence {
	struct dataset *whole; /* NULL: read in pieces */
	/* of rows of data in memory, and of blocks: borrowed, and how many they are */
	const struct dataset *of;
	const uint32_t *row;
	const struct data_blocks *blocks;
	const uint32_t *number;
	size_t n;
	struct data_chunks *chunks; /* NULL: the first block comes next */
	bool ended;                 /* the present piece is the last one */
	/* of data that are read in pieces */
	struct data_want want;
	const struct dataset *like;
	struct sequence_file *file;
	size_t nfiles;
	uint64_t piece_bytes;
	bool heading; /* the first file begins with one */
	/* the present place: the number of the file and whether it is open, and the text and examples of the
	 * piece */
	const struct sequence_ops *ops;
	size_t at;
	bool inside;
	struct stream *stream;      /* of lines */
	struct data_cursor *cursor; /* of rows */
	struct data_pieces lines;
	struct buf text;
	struct dataset *piece;
	uint64_t examples; /* before the next piece */
};

static void close_present_file(struct data_sequence *s)
{
	if (s->ops)
		s->ops->close(s);
	s->inside = false;
}

void data_sequence_rewind(struct data_sequence *s)
{
	close_present_file(s);
	data_chunks_free(s->chunks);
	s->chunks = NULL;
	s->ended = false;
	dataset_free(s->piece);
	s->piece = NULL;
	s->at = 0;
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
	buf_release(&s->text);
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
	s->piece_bytes = memory;
	return s;
}

const uint32_t *data_sequence_rows(const struct data_sequence *s, size_t *n)
{
	*n = s->n;
	return s->row;
}

/* The examples of the next blocks. */
static enum err_code next_blocks(struct data_sequence *s, const struct dataset **piece,
    struct err *e)
{
	enum err_code rc = ERR_OK;

	dataset_free(s->piece);
	s->piece = NULL;
	if (!s->chunks)
		s->chunks = data_chunks_new(s->blocks, s->number, s->n, s->piece_bytes,
		    s->piece_bytes);
	if (!s->ended)
		rc = data_chunks_next(s->chunks, &s->piece, &s->ended, e);
	*piece = s->piece;
	if (rc || !s->piece)
		data_sequence_rewind(s);
	return rc;
}

/* The dataset of which some rows are the sequence, once. */
static void next_rows(struct data_sequence *s, const struct dataset **piece)
{
	*piece = s->ended ? NULL : s->of;
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
		    s->nfiles - 1, (unsigned long long)s->piece_bytes);
	else
		snprintf(out, DATA_DESCRIPTION, "%.200s, in pieces of %llu bytes", s->file[0].shown,
		    (unsigned long long)s->piece_bytes);
}

/* ---- lines ---- */

static enum err_code open_lines(struct data_sequence *s, struct err *e)
{
	const struct sequence_file *f = &s->file[s->at];
	enum err_code rc = f->opened ? data_file_part(&f->file, 0, f->file.size, &s->stream, e)
	                             : data_open(f->name, &s->stream, e);

	if (!rc)
		s->lines.options = data_uri_copy(&f->options);
	return rc;
}

static void close_lines(struct data_sequence *s)
{
	stream_close(s->stream);
	s->stream = NULL;
	data_pieces_release(&s->lines);
}

static double lines_progress(const struct data_sequence *s)
{
	return stream_progress(s->stream);
}

/* Appends lines to s->text until the piece is large enough and has a multiple of DATA_SEQUENCE_LINES
 * examples, `lines` of which it has already. Nothing is appended at the end of the file. */
static enum err_code read_text(struct data_sequence *s, uint64_t lines, struct err *e)
{
	char *line;
	size_t n;
	enum err_code rc = ERR_OK;

	while (!rc &&
	    (s->text.len < s->piece_bytes ||
	        (lines % DATA_SEQUENCE_LINES && s->text.len < 4 * s->piece_bytes))) {
		rc = stream_line(s->stream, &line, &n, e);
		if (rc || !line)
			break;
		buf_append(&s->text, line, n);
		buf_append(&s->text, "\n", 1);
		lines++;
	}
	return rc;
}

static enum err_code parse_text(struct data_sequence *s, struct err *e)
{
	return data_pieces_load(&s->lines, stream_name(s->stream), (const char *)s->text.data,
	    s->text.len, &s->want, s->like, &s->piece, e);
}

/* The first piece has shown a heading, which was counted as an example: takes one line more. */
static enum err_code extend_first_piece(struct data_sequence *s, struct err *e)
{
	enum err_code rc = read_text(s, DATA_SEQUENCE_LINES - 1, e);

	data_pieces_release(&s->lines);
	s->lines.options = data_uri_copy(&s->file[s->at].options);
	dataset_free(s->piece);
	s->piece = NULL;
	return rc ? rc : parse_text(s, e);
}

static enum err_code load_lines(struct data_sequence *s, bool *ended, struct err *e)
{
	/* The heading is no example. */
	bool skipped = s->heading && !s->lines.begun;
	enum err_code rc;

	buf_clear(&s->text);
	rc = read_text(s, skipped ? DATA_SEQUENCE_LINES - 1 : 0, e);
	*ended = s->text.len == 0;
	if (rc || *ended)
		return rc;
	rc = parse_text(s, e);
	if (!rc && s->lines.heading && !s->heading) {
		s->heading = true;
		rc = extend_first_piece(s, e);
	}
	if (!rc)
		s->lines.lines += data_pieces_lines((const char *)s->text.data, s->text.len);
	return rc;
}

static const struct sequence_ops line_ops = { open_lines, load_lines, lines_progress, close_lines };

/* ---- rows ---- */

static enum err_code open_rows(struct data_sequence *s, struct err *e)
{
	const struct sequence_file *f = &s->file[s->at];

	return f->file.parts->open(&f->file, &f->part, &s->text, &s->cursor, e);
}

static void close_rows(struct data_sequence *s)
{
	if (s->cursor)
		s->cursor->parts->close(s->cursor);
	s->cursor = NULL;
}

static double rows_progress(const struct data_sequence *s)
{
	return s->cursor->done;
}

/* Returns the bytes of the next piece, which has a multiple of DATA_SEQUENCE_LINES rows unless rows are
 * very long. */
static uint64_t choose_row_bytes(const struct data_sequence *s)
{
	const struct data_file *f = &s->file[s->at].file;
	uint64_t step = f->parts->row_bytes(f) * DATA_SEQUENCE_LINES;

	return step > 4 * s->piece_bytes ? s->piece_bytes
	    : step > s->piece_bytes      ? step
	                                 : s->piece_bytes / step * step;
}

static enum err_code load_rows(struct data_sequence *s, bool *ended, struct err *e)
{
	struct data_build *build;
	enum err_code rc;

	*ended = s->cursor->ended;
	if (*ended)
		return ERR_OK;
	build = data_build_new(&s->want, s->like, NULL);
	rc = s->cursor->parts->read(s->cursor, (size_t)choose_row_bytes(s), build, e);
	if (!rc)
		rc = data_build_finish(build, &s->piece, e);
	data_build_free(build);
	return rc;
}

static const struct sequence_ops row_ops = { open_rows, load_rows, rows_progress, close_rows };

/* ---- reading ---- */

static enum err_code open_next_file(struct data_sequence *s, struct err *e)
{
	enum err_code rc = s->ops->open(s, e);

	s->inside = !rc;
	return rc;
}

static enum err_code fail_empty(const struct data_sequence *s, struct err *e)
{
	return err_set(e, ERR_FORMAT, "%s: has no examples", s->file[0].shown);
}

enum err_code data_sequence_next(struct data_sequence *s, const struct dataset **piece,
    struct err *e)
{
	enum err_code rc = ERR_OK;
	bool ended;

	*piece = NULL;
	if (s->blocks)
		return next_blocks(s, piece, e);
	if (s->of) {
		next_rows(s, piece);
		return ERR_OK;
	}
	if (s->whole) {
		*piece = s->at++ ? NULL : s->whole;
		s->at = *piece ? 1 : 0;
		return ERR_OK;
	}
	dataset_free(s->piece);
	s->piece = NULL;
	while (!rc && !s->piece && s->at < s->nfiles) {
		if (!s->inside)
			rc = open_next_file(s, e);
		if (!rc)
			rc = s->ops->load(s, &ended, e);
		if (!rc && ended) {
			close_present_file(s);
			s->at++;
		}
	}
	if (!rc && !s->piece && !s->examples)
		rc = fail_empty(s, e);
	if (rc || !s->piece) {
		data_sequence_rewind(s);
		return rc;
	}
	s->examples += s->piece->rows;
	*piece = s->piece;
	return ERR_OK;
}

/* ---- opening ---- */

/* Adds a file. Objects are opened here, which tells their size. *fit: it can be read in pieces, as far as its
 * name tells. alone: it is all there is, so that a stream, which can be read once, may be read in pieces. */
static enum err_code add_file(struct data_sequence *s, const char *name,
    const struct data_options *o, bool alone, bool *fit, struct err *e)
{
	struct sequence_file *f = &s->file[s->nfiles++];
	struct stat st = { 0 };
	enum err_code rc = ERR_OK;

	*f = (struct sequence_file){ .name = mem_strdup(name),
		.shown = uri_is(name) ? uri_shown(name) : mem_strdup(name),
		.options = data_uri_copy(o) };
	if (uri_is(name)) {
		f->opened = true;
		rc = data_file_open(name, NULL, &f->file, fit, e);
		f->size = f->file.size;
		f->plain = f->file.plain;
		*fit = *fit && f->size > 0;
		return rc;
	}
	if (strcmp(name, "-") != 0 && stat(name, &st) != 0)
		return err_sys(e, ERR_IO, "cannot open %s", name);
	f->size = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
	f->plain = f->size > 0 && data_file_is_plain(name);
	*fit = S_ISREG(st.st_mode) || alone;
	return ERR_OK;
}

/* Adds the files of a path. *fit: as of add_file, for all of them. */
static enum err_code add_files_of_path(struct data_sequence *s,
    const struct data_sequence_spec *spec, const char *path, bool *fit, struct err *e)
{
	struct data_options o;
	char *file, **names = NULL;
	size_t n = 0;
	enum err_code rc = data_uri_parse(path, &file, &o, e);

	if (rc)
		return rc;
	data_option_take_format(&o, spec->like);
	rc = data_option_check_file(&o, path, e);
	if (!rc)
		rc = data_uri_expand(file, spec->base_dir, &names, &n, e);
	s->file = mem_regrow(s->file, s->nfiles + n + 1, sizeof *s->file);
	for (size_t i = 0; !rc && *fit && i < n; i++)
		rc = add_file(s, names[i], &o, spec->once && spec->npaths == 1 && n == 1, fit, e);
	data_uri_free(names, n);
	data_uri_release(&o);
	free(file);
	return rc;
}

/* Bytes of a dataset's arrays. */
static double dataset_bytes(const struct dataset *d)
{
	double values = d->sparse ? (double)d->start[d->rows] : (double)d->rows * (double)d->cols;

	return values *
	    (d->sparse      ? d->field ? 10 : 8
	            : d->x8 ? 1
	                    : 4) +
	    (double)d->rows * (d->sparse ? 12 : 4) + (double)d->nids * 8;
}

/* Will all files take more than `memory`? The first piece is a known part of the first file, compressed
 * or not, and the others are taken to be like it. */
static enum err_code measure_files(struct data_sequence *s, uint64_t memory, bool *large,
    struct err *e)
{
	uint64_t bytes = 0;
	double part, first = (double)s->file[0].size;
	bool ended;
	enum err_code rc = s->ops->load(s, &ended, e);

	*large = false;
	if (rc)
		return rc;
	for (size_t i = 0; i < s->nfiles; i++)
		bytes += s->file[i].size;
	part = s->ops->progress(s);
	if (s->piece && part > 0)
		*large = dataset_bytes(s->piece) / part * (double)bytes / first > (double)memory;
	return ERR_OK;
}

/* Cuts each file of rows into one part. *fit is false for a file that is no such one or has a fault, which
 * data_load reports. */
static enum err_code cut_rows(struct data_sequence *s, const struct data_reader *reader,
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
		if (!f->file.options.format)
			f->file.options.format = mem_strdup(data_reader_name(reader));
		rc = data_option_take(&f->file.options, s->like, data_reader_number(reader),
		    !s->want.any, f->shown, e);
		if (rc)
			break;
		f->file.parts = reader->parts;
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
	enum err_code rc;

	s->ops = &line_ops;
	rc = open_next_file(s, e);
	if (rc)
		return rc;
	*reader = data_build_reader(s->stream, &s->file[0].options, &s->want, s->like, e);
	if (!*reader)
		return e ? e->code : ERR_FORMAT;
	if (s->file[0].size)
		close_present_file(s);
	return ERR_OK;
}

/* Decides between pieces and all at once. A stream cannot be opened again: it is left open where it is to be
 * read in pieces, and else loaded here. */
static enum err_code choose_pieces(struct data_sequence *s, const struct data_sequence_spec *spec,
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
	if (rows) {
		s->ops = &row_ops;
		rc = cut_rows(s, reader, spec->base_dir, large, e);
		*large = *large && !are_few_rows(s, spec->memory);
	}
	if (!rc && *large)
		rc = open_next_file(s, e);
	if (!rc && *large)
		rc = measure_files(s, spec->memory, large, e);
	data_sequence_rewind(s);
	return rc;
}

/* Will the files take no more than `memory`, judged by their sizes alone? Then none needs to be read
 * twice. */
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
	uint64_t piece = spec->memory / PIECE_PART;
	bool large = spec->npaths > 0 && !spec->want->words && !spec->want->pairs;
	enum err_code rc = ERR_OK;

	*out = NULL;
	s->want = *spec->want;
	s->like = spec->like;
	s->piece_bytes = piece < PIECE_MIN ? PIECE_MIN : piece > PIECE_MAX ? PIECE_MAX : piece;
	for (size_t i = 0; !rc && large && i < spec->npaths; i++)
		rc = add_files_of_path(s, spec, spec->paths[i], &large, e);
	if (!rc && large && are_small(s, spec->memory))
		large = false;
	if (!rc && large)
		rc = choose_pieces(s, spec, &large, e);
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
