/* SPDX-License-Identifier: ISC */
#ifndef DATA_BAD_LINES_H
#define DATA_BAD_LINES_H

#include "core/log.h"
#include "format/stream.h"

/* Bad lines: lines of training and evaluation data that are not examples. A job may skip some of them
 * (job.bad_lines). A line is known by its file and its place there, and counts once, however often
 * it is read, as long as its place is among the last ones that are kept, about a million. All
 * functions may be called by any thread; a mutex covers the counts. */
struct data_bad_lines;

/* Parses "fail" (0 lines) or "skip:N". ERR_CONFIG. */
enum err_code data_bad_lines_parse(const char *text, uint64_t *allowed, struct err *e);

/* Up to `allowed` lines may be skipped. log is borrowed; NULL: nothing is logged. */
struct data_bad_lines *data_bad_lines_new(uint64_t allowed, struct log *log);
void data_bad_lines_free(struct data_bad_lines *b); /* NULL is fine */

/* The line that s returned last is bad, as e tells. ERR_OK: it is counted, logged and to be skipped.
 * ERR_FORMAT: no more may be skipped; e says so, too. b NULL: no line may be skipped, and e stays as it
 * is. */
enum err_code data_bad_lines_skip(struct data_bad_lines *b, const struct stream *s, struct err *e);
/* Does the same for a line that no stream has returned, such as an event of a topic: it is at `place` in
 * the source `name`. */
enum err_code data_bad_lines_skip_at(struct data_bad_lines *b, const char *name, uint64_t place,
    struct err *e);
/* Lines that were skipped so far; 0 for NULL. */
uint64_t data_bad_lines_count(struct data_bad_lines *b);

#endif
