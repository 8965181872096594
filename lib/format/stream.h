#ifndef FORMAT_STREAM_H
#define FORMAT_STREAM_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* A buffered byte source over a file, standard input ("-") or memory, with
 * gzip and zstd undone by their magic bytes (see source.h).  Files are read,
 * never mapped: one that shrinks under us is an error, not a signal.
 * One thread at a time. */
struct stream;

#define STREAM_LINE_MAX ((size_t)64 << 20)
/* Bytes behind the NUL of a line that may be read, whatever they are. */
#define STREAM_PAD 16

enum err_code stream_open(const char *path, struct stream **out, struct err *e);
/* The n bytes at p, which must outlive the stream. */
enum err_code stream_memory(const void *p, size_t n, const char *name, struct stream **out,
                            struct err *e);
/* What source_from takes. */
struct source_reader;
enum err_code stream_from(const struct source_reader *r, const char *name, struct stream **out, struct err *e);
void stream_close(struct stream *s);

/* The first n bytes from here without taking them (n <= 1 MiB); *got is less
 * at the end only.  The view holds until the next call. */
enum err_code stream_peek(struct stream *s, size_t n, const uint8_t **p, size_t *got, struct err *e);

/* n bytes into p; *got is less than n at the end only. */
enum err_code stream_read(struct stream *s, void *p, size_t n, size_t *got, struct err *e);

/* The next line without its "\n" or "\r\n", or *line NULL at the end.  The
 * view holds until the next call, ends in a NUL that len does not count (and
 * STREAM_PAD readable bytes), and may be written to.  ERR_LIMIT above STREAM_LINE_MAX bytes. */
enum err_code stream_line(struct stream *s, char **line, size_t *len, struct err *e);

/* Lines are counted from so many on, which came before in another stream. */
void stream_number(struct stream *s, uint64_t lines);

/* About how much of the whole has been taken, from 0 to 1, to foresee what it will
 * come to; 0 when that is not known, or too early to say. */
double stream_progress(const struct stream *s);

const char *stream_name(const struct stream *s);
/* Of the line that stream_line gave last, from 1; 0 before any. */
uint64_t stream_lineno(const struct stream *s);

/* ERR_FORMAT with "NAME: " or, once lines were read, "NAME:LINE: " in front. */
enum err_code stream_fail(const struct stream *s, struct err *e, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
