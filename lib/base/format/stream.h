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
/* Bytes behind the NUL of a line that may be read; their values are undefined. */
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

/* Reads the next line without its "\n" or "\r\n", and without a byte order mark at its begin, which programs
 * write that join files; *line is NULL at the end. The view is valid until
 * the next call, ends in a NUL that len does not count (and STREAM_PAD readable bytes), and may be
 * written to. ERR_LIMIT above STREAM_LINE_MAX bytes. */
enum err_code stream_line(struct stream *s, char **line, size_t *len, struct err *e);

/* Starts counting lines at this number, for lines that came before in another stream. */
void stream_number(struct stream *s, uint64_t lines);

/* The stream is a part of its file: behind `heading` bytes, which are the file's first line, it goes on at
 * byte `offset` of the file. Places in errors are then bytes of the file, because the numbers of its lines
 * are not known. */
void stream_is_part(struct stream *s, size_t heading, uint64_t offset);

/* Roughly the fraction of the input that has been consumed, for estimating its total; 0 when that
 * is unknown or too early to say. */
double stream_progress(const struct stream *s);

/* The name for messages. */
const char *stream_name(const struct stream *s);
/* Number of the line that stream_line returned last, from 1; 0 before any. */
uint64_t stream_lineno(const struct stream *s);
/* The record that ends with that line began with line `line`: errors name this one, until stream_line is
 * called again. */
void stream_record_began(struct stream *s, uint64_t line);
/* The place of that line or record, as in errors: in a part of a file, the byte of the file at which the
 * line begins (*bytes is set), else its number. */
uint64_t stream_place(const struct stream *s, bool *bytes);

/* Fills e with ERR_FORMAT and "NAME: " or, once lines were read, "NAME:LINE: " before the text; of a part
 * of a file "NAME+OFFSET: ". stream_fail_at names a column, too, from 1. */
enum err_code stream_fail(const struct stream *s, struct err *e, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
enum err_code stream_fail_at(const struct stream *s, size_t column, struct err *e, const char *fmt,
    ...) __attribute__((format(printf, 4, 5)));

#endif
