/* SPDX-License-Identifier: ISC */
#include "data/reader/data_parser.h"

#include <inttypes.h>

#include "core/mem.h"
#include "data/source/data_uri.h"

/* Bytes go through the stream p->stream, either where the caller has them, or from p->held. */

struct data_parser *data_parser_new(const char *name, const struct data_options *o)
{
	struct data_parser *p = mem_alloc(sizeof *p);

	p->name = mem_strdup(name);
	p->given = data_uri_copy(o);
	p->stream = stream_pieces(p->name);
	p->limit = UINT64_MAX;
	return p;
}

void data_parser_free(struct data_parser *p)
{
	if (!p)
		return;
	if (p->format && p->format->release)
		p->format->release(p);
	stream_close(p->stream);
	buf_release(&p->held);
	data_uri_release(&p->given);
	free(p->name);
	free(p);
}

void data_parser_skip_lines(struct data_parser *p, uint64_t lines)
{
	stream_number(p->stream, lines);
}

void data_parser_is_part(struct data_parser *p, uint64_t offset)
{
	stream_is_part(p->stream, offset);
}

size_t data_parser_held(const struct data_parser *p)
{
	return p->held.len;
}

bool data_parser_has_line(const struct data_parser *p)
{
	return p->held_line || stream_lineno(p->stream) > p->first_line;
}

void data_parser_limit(struct data_parser *p, uint64_t rows)
{
	p->limit = rows;
}

void data_parser_expect(struct data_parser *p, double bytes)
{
	stream_expect(p->stream, bytes);
}

void data_parser_begin(struct data_parser *p, struct data_build *b)
{
	p->build = b;
	p->begun = false;
	p->limit = UINT64_MAX;
	p->first_line = stream_lineno(p->stream);
	stream_expect_from_here(p->stream);
	stream_expect(p->stream, 0);
}

/* Lines of the build that became examples, or were counted as none. */
static uint64_t count_handled(const struct data_build *b)
{
	return data_build_count(b) + b->d->reading.unlabelled + b->d->reading.skipped + b->left_out;
}

/* Begins with the format that the build has chosen. */
static enum err_code begin_format(struct data_parser *p, struct err *e)
{
	const struct data_text_format *format = p->build->reader->text;

	if (!format)
		return err_set(e, ERR_CONFIG,
		    "%s: is %s, which cannot be read as it arrives; store it in a file", p->name,
		    p->build->d->format);
	if (p->format && p->format != format && p->format->release) {
		p->format->release(p);
		p->own = NULL;
		p->open = false;
	}
	p->format = format;
	p->options = &p->build->options;
	p->deciding = false;
	p->begun = true;
	p->was_open = p->open;
	p->lines_before = stream_lineno(p->stream);
	p->handled_before = count_handled(p->build);
	return p->format->begin(p, e);
}

void data_parser_begin_chosen(struct data_parser *p, struct data_build *b)
{
	data_parser_begin(p, b);
	p->format = b->reader->text;
	p->chosen = true;
}

/* Begins to read into the build. */
static enum err_code begin_build(struct data_parser *p, struct err *e)
{
	enum err_code rc = ERR_OK;

	if (!p->chosen)
		rc = data_build_begin(p->build, p->stream, &p->given, e);
	p->chosen = false;
	return rc ? rc : begin_format(p, e);
}

/* Are all bytes there that may be looked at before the next step: to choose and begin the
 * format, or after the next line? A line that is too long does not wait. */
static bool can_look_ahead(const struct data_parser *p)
{
	size_t ahead = p->format ? p->format->ahead : 0, left;
	const char *nl;
	char *at;

	left = stream_left(p->stream, &at);
	if (!p->begun)
		return left >= (ahead > DATA_PROBE ? ahead : DATA_PROBE);
	if (left <= ahead)
		return false;
	nl = memchr(at, '\n', left - ahead);
	return nl || left > STREAM_LINE_MAX + ahead;
}

/* Gives all bytes of the piece to a format without lines. */
static enum err_code take_bytes(struct data_parser *p, struct err *e)
{
	char *at;
	size_t n = stream_left(p->stream, &at);
	enum err_code rc = p->format->bytes(p, at, n, e);

	stream_give(p->stream, at + n, 0, false);
	return rc;
}

/* Parses the lines of the piece that the stream has. all: without waiting for more bytes to look
 * at. */
static enum err_code take_lines(struct data_parser *p, bool all, struct err *e)
{
	enum err_code rc = ERR_OK;
	char *line;
	size_t len;

	if (!p->begun && !all && !can_look_ahead(p))
		return ERR_OK;
	if (!p->begun)
		rc = begin_build(p, e);
	if (!rc && p->format->bytes)
		return take_bytes(p, e);
	while (!rc) {
		if (p->deciding && !all && !can_look_ahead(p))
			return ERR_OK;
		if (p->limit != UINT64_MAX && data_build_count(p->build) >= p->limit)
			return ERR_OK;
		rc = stream_line(p->stream, &line, &len, e);
		if (rc || !line)
			return rc;
		rc = p->format->line(p, line, len, e);
		if (rc && !p->fatal)
			rc = data_build_bad_line(p->build, p->stream, rc, e);
	}
	return rc;
}

/* Notes whether the bytes that are held have a whole line. One is held only where lines wait. */
static void note_held_lines(struct data_parser *p)
{
	bool waits = !p->begun || p->deciding || p->limit != UINT64_MAX;

	p->held_line = waits && p->held.len && memchr(p->held.data, '\n', p->held.len);
}

/* Parses the bytes that are held, and keeps what is left of them. */
static enum err_code take_held(struct data_parser *p, bool all, bool last, struct err *e)
{
	enum err_code rc;
	char *left;

	buf_reserve(&p->held, STREAM_PAD + 1);
	stream_give(p->stream, (char *)p->held.data, p->held.len, last);
	rc = take_lines(p, all, e);
	buf_consume(&p->held, p->held.len - stream_left(p->stream, &left));
	note_held_lines(p);
	return rc;
}

/* Parses bytes where the caller has them, and holds what is left. */
static enum err_code take_in_place(struct data_parser *p, char *bytes, size_t n, struct err *e)
{
	enum err_code rc;
	char *left;

	stream_give(p->stream, bytes, n, false);
	rc = take_lines(p, false, e);
	n = stream_left(p->stream, &left);
	buf_append(&p->held, left, n);
	note_held_lines(p);
	return rc;
}

/* Holds bytes, and parses the lines that need not wait. */
static enum err_code take_held_with(struct data_parser *p, const char *bytes, size_t n, bool lines,
    struct err *e)
{
	buf_append(&p->held, bytes, n);
	p->held_line = p->held_line || lines;
	return p->held_line || !p->begun || p->held.len > STREAM_LINE_MAX
	    ? take_held(p, false, false, e)
	    : ERR_OK;
}

/* While bytes are held for another reason than the missing end of a line, all bytes join them.
 * Else the held line is completed, and the rest is parsed in place. */
enum err_code data_parser_feed(struct data_parser *p, char *bytes, size_t n, struct err *e)
{
	const char *nl;
	size_t first;
	enum err_code rc;

	if (!n)
		return ERR_OK;
	if (!p->held.len)
		return take_in_place(p, bytes, n, e);
	nl = memchr(bytes, '\n', n);
	if (!p->begun || p->deciding || p->held_line)
		return take_held_with(p, bytes, n, nl, e);
	first = nl ? (size_t)(nl + 1 - bytes) : n;
	rc = take_held_with(p, bytes, first, nl, e);
	return rc ? rc : data_parser_feed(p, bytes + first, n - first, e);
}

/* Checks that each line since the build began became an example, or was counted as skipped or left
 * out. The first line of a record that goes on is counted with its last one. ERR_FAILED: a line is
 * lost, which is a fault of the format. */
static enum err_code check_count(const struct data_parser *p, struct err *e)
{
	uint64_t lines = stream_lineno(p->stream) - p->lines_before + p->was_open - p->open,
	         examples = count_handled(p->build) - p->handled_before;

	if (lines == examples)
		return ERR_OK;
	return err_set(e, ERR_FAILED,
	    "%s: %" PRIu64 " lines were read, but %" PRIu64
	    " became examples or were counted as skipped; this is a fault of pskit, please report it",
	    p->name, lines, examples);
}

enum err_code data_parser_end(struct data_parser *p, bool last, struct err *e)
{
	struct data_build *b = p->build;
	enum err_code rc = ERR_OK;

	if (p->held_line || (last && (p->held.len || p->open || p->chosen)))
		rc = take_held(p, true, last, e);
	if (!rc && last && p->begun && !p->held.len && p->format->end)
		rc = p->format->end(p, e);
	if (!rc && p->begun)
		rc = check_count(p, e);
	if (!rc && p->begun && b->options.norm)
		rc = data_build_norm(b, p->stream, e);
	if (rc || !p->begun || p->decided || (last && !p->held.len))
		return rc;
	p->decided = b->stream_heading || data_build_count(b);
	if (p->decided)
		data_head_decide(&p->given, b->d, b->stream_heading);
	return ERR_OK;
}
