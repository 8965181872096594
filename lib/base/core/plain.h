/* SPDX-License-Identifier: ISC */
#ifndef CORE_PLAIN_H
#define CORE_PLAIN_H

#include <stdio.h>

/* Prints foreign text, such as names of hosts or commands, on a terminal: it must not control the
 * terminal or end a line. Each control character becomes "?". Any thread. */
/* Changes the text in place. */
void plain_text(char *text);
/* As fprintf, for one line; a newline at its end stays. */
void plain_print(FILE *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
