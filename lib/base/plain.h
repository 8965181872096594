#ifndef BASE_PLAIN_H
#define BASE_PLAIN_H

#include <stdio.h>

/* Words of others, such as what a host or a command is called, on a terminal: they may not steer
 * it, nor end a line.  Each control character becomes "?". */
void plain_text(char *text);
/* As fprintf of one line; a newline at its end stays. */
void plain_print(FILE *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
