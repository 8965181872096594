/* SPDX-License-Identifier: ISC */
#ifndef CORE_OUTPUT_H
#define CORE_OUTPUT_H

#include <stdbool.h>

/* Standard output of a program: output that could not be written must not look as if it had been.
 * Call output_begin first and output_end last in main. */

/* Ignores SIGPIPE and SIGXFSZ, so that writes fail instead, and opens descriptors 0, 1 and 2 if
 * they are closed, so that no file gets them. */
void output_begin(void);
/* Has the reader of our output closed it? That is not a failure. */
bool output_abandoned(void);
/* Flushes; after a failure prints "PROG: cannot write to standard output" on stderr. Returns the
 * exit code: code, but 1 instead of 0 after a failure. */
int output_end(const char *prog, int code);

#endif
