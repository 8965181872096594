#ifndef OBJECT_HELPER_H
#define OBJECT_HELPER_H

#include <stddef.h>

#include "base/err.h"

/* Servers and workers speak to no store: a ps-ctl does that for them, so that neither libcurl nor
 * TLS is in them.  It is the one beside this program, else that of PATH.  Its warnings and notes
 * come out on our stderr, and its last words become the error.  When we go away it ends, and when a
 * signal waits that is to end us it is told to stop. */
struct helper;

/* ps-ctl ARGS...; `line`, which may be NULL, is what it reads, a line of its standard input: names
 * that no other user is to see.  ERR_NOTFOUND: there is no ps-ctl; ERR_IO. */
enum err_code helper_start(const char *const *args, const char *line, struct helper **out, struct err *e);
/* At least one byte and at most n of its standard output; *got 0 is the end: then helper_end tells
 * whether it is a good one. */
enum err_code helper_read(struct helper *h, void *p, size_t n, size_t *got, struct err *e);
/* From any thread until helper_end: it is told to stop, which takes it a moment. */
void helper_stop(const struct helper *h);
/* Waits for its end and frees it: the error that it ended with.  Before its output has ended it is
 * told to stop, and ERR_OK. */
enum err_code helper_end(struct helper *h, struct err *e);

/* Both, for one that says little: its output is appended to out (struct buf, may be NULL). */
struct buf;
enum err_code helper_run(const char *const *args, const char *line, struct buf *out, struct err *e);

#endif
