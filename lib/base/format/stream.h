/* SPDX-License-Identifier: ISC */
#ifndef FORMAT_STREAM_H
#define FORMAT_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

/* A buffered byte source over a file, standard input ("-") or memory, which decompresses gzip and
 * zstd (source.h), with lines. Files are read, never mapped: one that shrinks meanwhile is an
 * error, and not a signal. One thread at a time. */
struct stream;

#define STREAM_LINE_MAX ((size_t)64 << 20)
/* Bytes after the NUL of a line that may be read; their values are undefined. */
#define STREAM_PAD 16

/* Opens a file, or standard input for "-". ERR_NOTFOUND, ERR_IO, ERR_FORMAT. */
enum err_code stream_open(const char *path, struct stream **out, struct err *e);
/* Reads the n bytes at p, which must outlive the stream. */
enum err_code stream_memory(const void *p, size_t n, const char *name, struct stream **out,
    struct err *e);
/* Reads the n bytes of text at p in place: its lines are views of them, and nothing is
 * decompressed. The bytes p[n] to p[n + STREAM_PAD] belong to the text and may be written to. p and
 * name must outlive the stream. */
struct stream *stream_text(char *p, size_t n, const char *name);

/* A text that arrives in pieces, whose lines are views of the pieces. stream_line has no line, and
 * stream_peek has less than was asked for, when a piece has no more. name must outlive the
 * stream. */
struct stream *stream_pieces(const char *name);
/* Goes on with a piece, which begins with what was left of the piece before, if anything was. It is
 * read in place: until the next call, the bytes p[0] to p[n + STREAM_PAD] belong to the stream, and
 * may be written to. last: the text ends with this piece, so that a last line needs no newline. */
void stream_give(struct stream *s, char *p, size_t n, bool last);
/* The text, or the part of it that follows the lines taken so far, has about this many bytes, for
 * stream_progress; 0: it is not known. */
void stream_expect(struct stream *s, double bytes);
/* The part begins here. */
void stream_expect_from_here(struct stream *s);
/* Returns the number of bytes that are left of the piece, and sets *p to them: the beginning of a
 * line, or whole lines before it, too. */
size_t stream_left(const struct stream *s, char **p);

/* Consumes all bytes that have been read ahead, or the next ones: *n is 0 at the end only. The
 * bytes p[0] to p[n + STREAM_PAD] may be written to; valid until the next call. Not of a text in
 * pieces. */
enum err_code stream_take(struct stream *s, char **p, size_t *n, struct err *e);
/* Reads from a callback, as source_from. */
struct source_reader;
enum err_code stream_from(const struct source_reader *r, const char *name, struct stream **out,
    struct err *e);
void stream_close(struct stream *s);

/* Shows the next n bytes without consuming them (n <= 1 MiB); *got is less only at the end. The
 * view is valid until the next call. */
enum err_code stream_peek(struct stream *s, size_t n, const uint8_t **p, size_t *got,
    struct err *e);

/* Reads n bytes into p; *got is less than n only at the end. */
enum err_code stream_read(struct stream *s, void *p, size_t n, size_t *got, struct err *e);

/* The length of the byte order mark of UTF-8 with which the n bytes at p begin: 3, or 0. */
size_t stream_mark_length(const char *p, size_t n);
/* Consumes a byte order mark, if the next bytes are one. */
enum err_code stream_skip_mark(struct stream *s, struct err *e);

/* Reads the next line without its "\n" or "\r\n", and without a byte order mark at its begin, which
 * programs write that join files; *line is NULL at the end. The view is valid until the next call,
 * ends in a NUL that len does not count (and STREAM_PAD readable bytes), and may be written to.
 * ERR_LIMIT above STREAM_LINE_MAX bytes. */
enum err_code stream_line(struct stream *s, char **line, size_t *len, struct err *e);

/* Starts counting lines at this number, for lines that came before in another stream. */
void stream_number(struct stream *s, uint64_t lines);

/* The stream is a part of its file and begins at byte `offset` of it. Places in errors are then
 * bytes of the file, because the numbers of its lines are not known. */
void stream_is_part(struct stream *s, uint64_t offset);

/* Roughly the fraction of the input that has been consumed, for estimating its total; 0 when that
 * is unknown or too early to say. */
double stream_progress(const struct stream *s);

/* The name for messages. */
const char *stream_name(const struct stream *s);
/* Number of the line that stream_line returned last, from 1; 0 before any. */
uint64_t stream_lineno(const struct stream *s);
/* The record that ends with that line began with line `line`: errors name this one, until
 * stream_line is called again. */
void stream_record_began(struct stream *s, uint64_t line);
/* The place of that line or record, as in errors: in a part of a file, the byte of the file at
 * which the line begins (*bytes is set), else its number. */
uint64_t stream_place(const struct stream *s, bool *bytes);

/* Fills e with ERR_FORMAT and "NAME: " or, once lines were read, "NAME:LINE: " before the text; of
 * a part of a file "NAME+OFFSET: ". stream_fail_at names a column, too, from 1. */
enum err_code stream_fail(const struct stream *s, struct err *e, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
enum err_code stream_fail_at(const struct stream *s, size_t column, struct err *e, const char *fmt,
    ...) __attribute__((format(printf, 4, 5)));

#endif
