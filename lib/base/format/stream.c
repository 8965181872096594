/* SPDX-License-Identifier: ISC */
#include "format/stream.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>

#include "core/mem.h"
#include "format/source.h"

#define WINDOW   (256u << 10)
#define PEEK_MAX (1u << 20)
#define EARLY    (64u << 10) /* too few bytes for an estimate */
#define DIRECT   1024u       /* bytes that are worth reading past the window */

/* Decoded bytes wait in win[begin..end). cap leaves out one byte for the NUL after a last line
 * without a newline, and STREAM_PAD bytes. */
struct stream {
	struct source *src; /* NULL: a text in place, or in pieces, which is the window */
	const char *name;   /* of such a text */
	char *win;
	size_t begin, end, cap;
	bool pieces; /* a text in pieces */
	bool ended;
	uint64_t line, filled; /* lines returned; bytes read into the window */
	uint64_t at;           /* the byte at which the last line begins */
	uint64_t began; /* the line with which the record of the last line begins; 0: the same */
	/* of a text in pieces: the bytes that are expected after the byte `since` */
	double expected;
	uint64_t since;
	/* of a part of a file (stream_is_part) */
	bool part;
	uint64_t offset;
};

static struct stream *stream_new(struct source *src)
{
	struct stream *s = mem_alloc(sizeof(*s));
	uint64_t size = source_plain_size(src);

	s->src = src;
	/* A file of few bytes gets one more, so that the end is seen in the same window. */
	s->cap = size > 0 && size < WINDOW ? (size_t)size + 1 : WINDOW;
	s->win = mem_alloc(s->cap + 1 + STREAM_PAD);
	return s;
}

enum err_code stream_open(const char *path, struct stream **out, struct err *e)
{
	struct source *src;
	enum err_code rc = source_open(path, &src, e);

	*out = rc == ERR_OK ? stream_new(src) : NULL;
	return rc;
}

enum err_code stream_memory(const void *p, size_t n, const char *name, struct stream **out,
    struct err *e)
{
	struct source *src;
	enum err_code rc = source_memory(p, n, name, &src, e);

	*out = rc == ERR_OK ? stream_new(src) : NULL;
	return rc;
}

struct stream *stream_text(char *p, size_t n, const char *name)
{
	struct stream *s = mem_alloc(sizeof(*s));

	*s = (struct stream){ .name = name,
		.win = p,
		.end = n,
		.cap = n,
		.ended = true,
		.filled = n };
	return s;
}

struct stream *stream_pieces(const char *name)
{
	struct stream *s = mem_alloc(sizeof(*s));

	s->name = name;
	s->pieces = true;
	return s;
}

void stream_expect(struct stream *s, double bytes)
{
	s->expected = bytes;
}

void stream_expect_from_here(struct stream *s)
{
	s->since = s->filled - (s->end - s->begin);
}

void stream_give(struct stream *s, char *p, size_t n, bool last)
{
	s->filled += n - (s->end - s->begin);
	s->win = p;
	s->begin = 0;
	s->end = s->cap = n;
	s->ended = last;
}

size_t stream_left(const struct stream *s, char **p)
{
	*p = s->win + s->begin;
	return s->end - s->begin;
}

enum err_code stream_from(const struct source_reader *r, const char *name, struct stream **out,
    struct err *e)
{
	struct source *src;
	enum err_code rc = source_from(r, name, &src, e);

	*out = rc == ERR_OK ? stream_new(src) : NULL;
	return rc;
}

void stream_close(struct stream *s)
{
	if (!s)
		return;
	if (s->src) {
		source_close(s->src);
		free(s->win);
	}
	free(s);
}

const char *stream_name(const struct stream *s)
{
	return s->src ? source_name(s->src) : s->name;
}

double stream_progress(const struct stream *s)
{
	uint64_t taken = s->filled - (s->end - s->begin);
	double read = s->src ? source_progress(s->src) : 1;

	if (s->pieces) {
		taken -= s->since;
		return taken < EARLY || s->expected <= 0 ? 0
		    : (double)taken < s->expected        ? (double)taken / s->expected
		                                         : 1;
	}
	return taken < EARLY ? 0 : read * ((double)taken / (double)s->filled);
}

void stream_number(struct stream *s, uint64_t lines)
{
	s->line = lines;
}

void stream_record_began(struct stream *s, uint64_t line)
{
	s->began = line;
}

void stream_is_part(struct stream *s, uint64_t offset)
{
	s->part = true;
	s->offset = offset;
}

uint64_t stream_lineno(const struct stream *s)
{
	return s->line;
}

uint64_t stream_place(const struct stream *s, bool *bytes)
{
	*bytes = s->part;
	if (!s->part)
		return s->began ? s->began : s->line;
	return s->offset + s->at;
}

/* The name, with the line or the byte; column 0: none. */
static void format_place(const struct stream *s, size_t column, char *out, size_t n)
{
	char at[24] = "", cell[24] = "";
	bool bytes;
	uint64_t number = stream_place(s, &bytes);

	if (s->line)
		snprintf(at, sizeof at, "%c%" PRIu64, bytes ? '+' : ':', number);
	if (column)
		snprintf(cell, sizeof cell, ":%zu", column);
	snprintf(out, n, "%s%s%s", stream_name(s), at, cell);
}

enum err_code stream_fail(const struct stream *s, struct err *e, const char *fmt, ...)
{
	char text[400], place[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	format_place(s, 0, place, sizeof place);
	return err_set(e, ERR_FORMAT, "%s: %s", place, text);
}

enum err_code stream_fail_at(const struct stream *s, size_t column, struct err *e, const char *fmt,
    ...)
{
	char text[400], place[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	format_place(s, column, place, sizeof place);
	return err_set(e, ERR_FORMAT, "%s: %s", place, text);
}

/* Reads more bytes into the window, which grows when it is full. */
static enum err_code fill_window(struct stream *s, struct err *e)
{
	enum err_code rc;
	size_t got;
	char *p;

	if (s->begin > 0) {
		memmove(s->win, s->win + s->begin, s->end - s->begin);
		s->end -= s->begin;
		s->begin = 0;
	}
	if (s->end == s->cap) {
		p = realloc(s->win, 2 * s->cap + 1 + STREAM_PAD);
		if (!p)
			return err_set(e, ERR_NOMEM,
			    "%s:%llu: no memory for a line of more than %zu bytes", stream_name(s),
			    (unsigned long long)s->line + 1, s->cap);
		s->win = p;
		s->cap *= 2;
	}
	rc = source_read(s->src, s->win + s->end, s->cap - s->end, &got, e);
	if (rc != ERR_OK)
		return rc;
	s->end += got;
	s->filled += got;
	s->ended = got == 0;
	return ERR_OK;
}

enum err_code stream_peek(struct stream *s, size_t n, const uint8_t **p, size_t *got, struct err *e)
{
	enum err_code rc;

	assert(n <= PEEK_MAX);
	while (s->end - s->begin < n && !s->ended && s->src) {
		rc = fill_window(s, e);
		if (rc != ERR_OK)
			return rc;
	}
	*p = (const uint8_t *)s->win + s->begin;
	*got = s->end - s->begin < n ? s->end - s->begin : n;
	return ERR_OK;
}

/* Lines are many: the first byte decides nearly always. */
size_t stream_mark_length(const char *p, size_t n)
{
	return n >= 3 && *p == '\xef' && memcmp(p, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

enum err_code stream_skip_mark(struct stream *s, struct err *e)
{
	const uint8_t *p;
	size_t n;
	enum err_code rc = stream_peek(s, 3, &p, &n, e);

	if (!rc)
		s->begin += stream_mark_length((const char *)p, n);
	return rc;
}

/* Reads past the window, which is empty. */
static enum err_code read_direct(struct stream *s, void *p, size_t n, size_t *got, struct err *e)
{
	enum err_code rc = source_read(s->src, p, n, got, e);

	if (rc == ERR_OK) {
		s->filled += *got;
		s->ended = *got == 0;
	}
	return rc;
}

/* Reads the bytes of the window first. Many bytes more are read into p, and few by way of the
 * window. */
enum err_code stream_read(struct stream *s, void *p, size_t n, size_t *got, struct err *e)
{
	enum err_code rc;
	size_t have;

	for (*got = 0; *got < n; *got += have) {
		char *to = (char *)p + *got;
		size_t left = n - *got;

		if (s->begin == s->end && !s->ended) {
			rc = left < DIRECT ? fill_window(s, e) : read_direct(s, to, left, &have, e);
			if (rc != ERR_OK)
				return rc;
			if (left >= DIRECT)
				continue;
		}
		have = s->end - s->begin;
		if (have == 0)
			break;
		if (have > left)
			have = left;
		memcpy(to, s->win + s->begin, have);
		s->begin += have;
	}
	return ERR_OK;
}

enum err_code stream_take(struct stream *s, char **p, size_t *n, struct err *e)
{
	enum err_code rc = ERR_OK;

	if (s->begin == s->end && !s->ended)
		rc = fill_window(s, e);
	*p = s->win + s->begin;
	*n = rc ? 0 : s->end - s->begin;
	s->begin += *n;
	return rc;
}

static enum err_code fail_long_line(struct stream *s, struct err *e)
{
	char place[400];

	format_place(s, 0, place, sizeof place);
	return err_set(e, ERR_LIMIT, "%s: line is longer than %zu MiB; is this a text file?", place,
	    STREAM_LINE_MAX >> 20);
}

/* `seen` is what was searched before, so a long line is searched once however often the window is
 * filled. The NUL overwrites the newline (or its carriage return), or the byte after the last
 * line, for which the window has room. A last line without a newline counts; nothing after the last
 * newline is not a line. */
enum err_code stream_line(struct stream *s, char **line, size_t *len, struct err *e)
{
	size_t seen = 0, next, mark;
	enum err_code rc;
	char *nl;

	*line = NULL;
	*len = 0;
	s->began = 0;
	for (;;) {
		nl = memchr(s->win + s->begin + seen, '\n', s->end - s->begin - seen);
		if (nl || s->ended)
			break;
		seen = s->end - s->begin;
		if (seen > STREAM_LINE_MAX)
			break;
		if (!s->src)
			return ERR_OK;
		rc = fill_window(s, e);
		if (rc != ERR_OK)
			return rc;
	}
	if (!nl && s->begin == s->end)
		return ERR_OK;
	s->line++;
	s->at = s->filled - (s->end - s->begin);
	*len = (nl ? (size_t)(nl - s->win) : s->end) - s->begin;
	if (*len > STREAM_LINE_MAX)
		return fail_long_line(s, e);
	*line = s->win + s->begin;
	next = s->begin + *len + (nl != NULL);
	if (*len > 0 && (*line)[*len - 1] == '\r')
		--*len;
	mark = stream_mark_length(*line, *len);
	*line += mark;
	*len -= mark;
	(*line)[*len] = '\0';
	s->begin = next;
	return ERR_OK;
}
