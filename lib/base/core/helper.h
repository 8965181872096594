/* SPDX-License-Identifier: ISC */
#ifndef CORE_HELPER_H
#define CORE_HELPER_H

#include <stdbool.h>
#include <stddef.h>

#include "core/err.h"

/* Runs ps-ctl as a child to talk to object stores and to Kafka, so that servers and workers contain
 * neither libcurl, librdkafka nor TLS. The ps-ctl beside this program is used, else the one in
 * PATH. Its warnings and notes go to our stderr, and its last line becomes the error. The child
 * ends when we exit; it is asked to stop when a signal that would end us is pending.
 *
 *   helper_start --> helper_read until *got is 0 --> helper_end
 *
 * One thread at a time, except for helper_stop. */
struct helper;

/* Run ps-ctl ARGS. line, which may be NULL, is written to its standard input: for names that
 * other users must not see in the list of processes. ERR_NOTFOUND: there is no ps-ctl; ERR_IO. */
enum err_code helper_start(const char *const *args, const char *line, struct helper **out,
    struct err *e);
/* As helper_start, but its standard input stays open after the line, for helper_write. It should
 * end when its input does. */
enum err_code helper_start_talk(const char *const *args, const char *line, struct helper **out,
    struct err *e);
/* Write to its standard input, which it must read. ERR_IO: it has ended; helper_end says why. */
enum err_code helper_write(struct helper *h, const char *text, struct err *e);
/* Wait for at most so long until helper_read does not wait. False: not yet. */
bool helper_wait(struct helper *h, int timeout_ms);
/* Read at least one and at most n bytes of its standard output. *got is 0 at the end; helper_end
 * then says whether it succeeded. */
enum err_code helper_read(struct helper *h, void *p, size_t n, size_t *got, struct err *e);
/* Tell the child to stop; it takes a moment to end. Any thread, until helper_end. */
void helper_stop(const struct helper *h);
/* Wait for the child's end, before helper_end: was it a signal? */
bool helper_was_killed(const struct helper *h);
/* Wait for the child's end and free h. Returns the child's error. If its output has not ended, it
 * is asked to stop, and the result is ERR_OK. */
enum err_code helper_end(struct helper *h, struct err *e);

/* Start, read to the end, and end: the output is appended to out, which may be NULL. */
struct buf;
enum err_code helper_run(const char *const *args, const char *line, struct buf *out, struct err *e);

#endif
