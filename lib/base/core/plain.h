/* SPDX-License-Identifier: ISC */
#ifndef CORE_PLAIN_H
#define CORE_PLAIN_H

#include <stdio.h>

#include "core/buf.h"

/* Foreign text, such as names of hosts or commands, in the output of a program. Any thread. */

/* On a terminal it must not control the terminal or end a line: replaces each control character by
 * "?", in place. */
void plain_text(char *text);
/* As fprintf, for one line, which becomes plain text; a newline at its end stays. */
void plain_print(FILE *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Appends a text as a cell of tab-separated output: a tab, a newline, a carriage return and a
 * backslash become \t, \n, \r and \\, so that a line has as many cells as columns. */
void plain_put_tsv_cell(struct buf *out, const char *text);

#endif
