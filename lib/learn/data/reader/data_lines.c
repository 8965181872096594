/* SPDX-License-Identifier: ISC */
#include "data/reader/data_parts.h"

#include <inttypes.h>

#include "core/mem.h"
#include "data/reader/data_parser.h"
#include "data/source/data_uri.h"

/* Lines in parts. A line belongs to the part in which it begins. So the bytes of a part are read
 * from the one before it on, since a line begins at a place if the byte before it is a newline; and
 * on beyond its end, up to the end of the line that begins last. In a compressed file the byte
 * before is not at hand: a line that begins right at a cut belongs to the part before it.
 *
 *   file     ....\n......\n...[...\n......\n......].....\n.....
 *   part                       skipped, then its lines, and the rest of the last one
 *
 * The cursor says which bytes come next, and a parser (data_parser.h) takes them. A heading is in
 * the first part of a file alone: the options of the others have its names. */

/* A compressed part of this many bytes is about the data that are asked for. */
#define EXPANSION 4u
/* Bytes of a part that are read at a time. */
#define STEP 65536u
/* Bytes that are read after the end of a part at first, for the end of its last line. */
#define TAIL_MIN 4096u

struct lines_cursor {
	struct data_cursor base;
	const struct data_file *file; /* NULL: of a stream */
	const struct data_part *part;
	struct stream *stream;
	uint64_t at, stop; /* bytes of the file: read up to, and the stream's end; plain files */
	uint64_t
	    body; /* the end of the bytes of which each newline begins a line of the part; plain */
	bool begun, body_ended, tail_read;
	struct buf *text; /* the bytes that were read last */
	struct data_parser *parser;
	uint64_t fed; /* bytes that the parser got */
};

static enum err_code cut_lines(struct data_file *f, const char *base_dir,
    const struct data_want *want, const struct dataset *like, uint64_t bytes,
    struct data_part **out, size_t *n, struct err *e)
{
	uint64_t step = f->plain ? bytes : bytes / EXPANSION + 1;
	size_t room = 0;

	(void)base_dir, (void)want, (void)like, (void)e;
	*out = NULL;
	*n = 0;
	for (uint64_t at = 0, end; at < f->size; at = end) {
		end = data_file_cut(f, f->size - at > step ? at + step : f->size);
		if (*n == room)
			*out = mem_regrow(*out, room = 2 * room + 16, sizeof **out);
		(*out)[(*n)++] = (struct data_part){ at, end, end - at };
	}
	return ERR_OK;
}

static void release_lines(struct data_file *f)
{
	(void)f;
}

static void close_lines(struct data_cursor *base)
{
	struct lines_cursor *c = (struct lines_cursor *)base;

	if (!c)
		return;
	stream_close(c->stream);
	data_parser_free(c->parser);
	free(c);
}

/* A parser for a part of a file. */
static struct data_parser *parser_of_part(const struct data_file *f, const struct data_part *p)
{
	struct data_options o = data_uri_copy(&f->options);
	/* The place of a line of a plain file is known (data_parser_is_part). */
	char *name = p->begin && !f->plain ? mem_printf("%s+%" PRIu64, f->name, p->begin) : NULL;
	struct data_parser *parser;

	if (p->begin && o.decided.names)
		o.decided.heading = DATA_HEADING_ABOVE;
	parser = data_parser_new(name ? name : f->name, &o);
	data_uri_release(&o);
	free(name);
	return parser;
}

static enum err_code open_lines(const struct data_file *f, const struct data_part *p,
    struct buf *text, struct data_cursor **out, struct err *e)
{
	struct lines_cursor *c = mem_alloc(sizeof *c);
	uint64_t tail = (p->end - p->begin) / 16;
	enum err_code rc;

	*out = &c->base;
	*c = (struct lines_cursor){ .base.parts = &data_parts_lines,
		.file = f,
		.part = p,
		.at = p->begin - (f->plain && p->begin),
		.stop = p->end,
		.body = p->end - (p->end < f->size),
		.text = text,
		.parser = parser_of_part(f, p) };
	if (f->plain) {
		tail = tail < TAIL_MIN ? TAIL_MIN : tail > STEP ? STEP : tail;
		c->stop = f->size - p->end > tail ? p->end + tail : f->size;
	}
	buf_clear(text);
	rc = data_file_part(f, c->at, c->stop, &c->stream, e);
	if (rc) {
		close_lines(&c->base);
		*out = NULL;
	}
	return rc;
}

struct data_cursor *data_lines_of_stream(struct stream *s, const struct data_options *o,
    struct buf *text)
{
	struct lines_cursor *c = mem_alloc(sizeof *c);

	*c = (struct lines_cursor){ .base.parts = &data_parts_lines,
		.stream = s,
		.text = text,
		.parser = data_parser_new(stream_name(s), o) };
	buf_clear(text);
	return &c->base;
}

/* Is this a part of a plain file, whose bytes have places? */
static bool is_plain(const struct lines_cursor *c)
{
	return c->file && c->file->plain;
}

/* Reads at most n bytes of the stream into the text. */
static enum err_code read_bytes(struct lines_cursor *c, size_t n, struct err *e)
{
	size_t got;
	enum err_code rc;

	buf_clear(c->text);
	rc = stream_read(c->stream, buf_reserve(c->text, n + STREAM_PAD + 1), n, &got, e);
	buf_commit(c->text, got);
	c->at += got;
	return rc;
}

/* Reads at most n bytes of the body; sets body_ended when there are no more. */
static enum err_code read_body(struct lines_cursor *c, size_t n, struct err *e)
{
	enum err_code rc;

	if (is_plain(c) && n > c->body - c->at)
		n = (size_t)(c->body - c->at);
	rc = read_bytes(c, n, e);
	c->body_ended = c->text->len < n || (is_plain(c) && c->at == c->body);
	return rc;
}

/* Feeds the text from byte `from` on to the parser. */
static enum err_code feed_text(struct lines_cursor *c, size_t from, struct err *e)
{
	size_t n = c->text->len - from;

	if (!c->fed && is_plain(c) && c->part->begin)
		data_parser_is_part(c->parser, c->at - n);
	c->fed += n;
	return data_parser_feed(c->parser, (char *)c->text->data + from, n, e);
}

/* Feeds the rest of the part's last line, which is after the body. */
static enum err_code feed_tail(struct lines_cursor *c, struct err *e)
{
	uint64_t tail = STEP, from;
	enum err_code rc = ERR_OK;

	/* A plain part's stream has some bytes of the tail, and more are asked for as needed. A
	 * compressed part's stream has ended, and its tail is in the rest of the file. */
	c->tail_read = true;
	if (!c->file || c->part->end == c->file->size)
		return ERR_OK;
	while (!rc) {
		size_t got = 0;
		const uint8_t *nl;

		buf_clear(c->text);
		if (c->stream)
			rc = read_bytes(c, TAIL_MIN, e);
		got = c->text->len;
		nl = got ? memchr(c->text->data, '\n', got) : NULL;
		if (nl)
			c->text->len = (size_t)(nl - c->text->data) + 1;
		if (!rc)
			rc = feed_text(c, 0, e);
		if (rc || nl)
			break;
		if (got == TAIL_MIN)
			continue;
		from = c->stop;
		if (from == c->file->size)
			break;
		c->stop = c->file->plain && c->file->size - from > tail ? from + tail
		                                                        : c->file->size;
		tail *= 4;
		stream_close(c->stream);
		rc = data_file_part(c->file, from, c->stop, &c->stream, e);
	}
	return rc;
}

/* Reads over the line in which the part begins, which belongs to the part before, and feeds what
 * follows it. */
static enum err_code skip_first_line(struct lines_cursor *c, struct err *e)
{
	const uint8_t *nl = NULL;
	enum err_code rc = ERR_OK;

	while (!rc && !nl && !c->body_ended) {
		rc = read_body(c, STEP, e);
		nl = !rc && c->text->len ? memchr(c->text->data, '\n', c->text->len) : NULL;
	}
	if (nl)
		return feed_text(c, (size_t)(nl + 1 - c->text->data), e);
	/* No line begins in the part. */
	c->tail_read = true;
	return rc;
}

/* The share of the part that was parsed. Of few compressed bytes it is a guess. */
static double share_parsed(const struct lines_cursor *c)
{
	double bytes, read, share = stream_progress(c->stream);

	if (c->base.ended || c->fed == data_parser_held(c->parser))
		return c->base.ended;
	if (c->file) {
		bytes = (double)(c->part->end - c->part->begin);
		read = (double)(c->at - c->part->begin);
		share = c->file->plain ? read / bytes
		    : share > 0        ? share
		                       : read / bytes / EXPANSION;
	}
	share *= (double)(c->fed - data_parser_held(c->parser)) / (double)c->fed;
	return share < 1 ? share : 1;
}

/* Feeds the next n bytes of the body, at most, or the tail after it. */
static enum err_code feed_next(struct lines_cursor *c, size_t n, struct err *e)
{
	enum err_code rc;

	if (c->body_ended)
		return feed_tail(c, e);
	rc = read_body(c, n < STEP ? n : STEP, e);
	return rc ? rc : feed_text(c, 0, e);
}

/* Feeds lines of about `bytes` bytes, with those that the parser holds. */
static enum err_code feed_lines(struct lines_cursor *c, size_t bytes, struct err *e)
{
	uint64_t begin = c->fed - data_parser_held(c->parser);
	enum err_code rc = ERR_OK;

	if (!c->begun && c->part && c->part->begin)
		rc = skip_first_line(c, e);
	c->begun = true;
	while (!rc && !c->tail_read &&
	    (c->body_ended || c->fed - begin < bytes || !data_parser_has_line(c->parser)))
		rc = feed_next(c, bytes, e);
	return rc;
}

/* Is all of the part parsed? */
static bool has_ended(const struct lines_cursor *c)
{
	return c->tail_read && !data_parser_held(c->parser);
}

/* Feeds lines until the number of examples since `before` is a multiple, but no more than `most`
 * bytes. */
static enum err_code complete_multiple(struct lines_cursor *c, uint64_t before, uint64_t most,
    struct data_build *b, struct err *e)
{
	uint64_t begin = c->fed, odd = (data_build_count(b) - before) % c->base.multiple, rows;
	enum err_code rc = ERR_OK;

	if (!odd || has_ended(c))
		return ERR_OK;
	rows = data_build_count(b) + c->base.multiple - odd;
	data_parser_begin(c->parser, b);
	data_parser_limit(c->parser, rows);
	while (!rc && !c->tail_read && data_build_count(b) < rows && c->fed - begin < most)
		rc = feed_next(c, STEP, e);
	return rc ? rc : data_parser_end(c->parser, c->tail_read, e);
}

static enum err_code read_lines(struct data_cursor *base, size_t bytes, struct data_build *b,
    struct err *e)
{
	struct lines_cursor *c = (struct lines_cursor *)base;
	uint64_t before = data_build_count(b);
	enum err_code rc;

	data_parser_begin(c->parser, b);
	data_parser_expect(c->parser, (double)bytes);
	rc = feed_lines(c, bytes, e);
	if (!rc)
		rc = data_parser_end(c->parser, c->tail_read, e);
	if (!rc && c->base.multiple)
		rc = complete_multiple(c, before, 4 * (uint64_t)bytes, b, e);
	c->base.ended = has_ended(c);
	c->base.done = share_parsed(c);
	return rc;
}

const struct data_parts data_parts_lines = { cut_lines, release_lines, open_lines, read_lines,
	close_lines, NULL };
