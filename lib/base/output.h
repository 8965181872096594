#ifndef BASE_OUTPUT_H
#define BASE_OUTPUT_H

#include <stdbool.h>

/* Standard output of a program: what could not be written must not look as if
 * it had been. */

/* First thing in main: SIGPIPE is no way to end, a file too large no reason to
 * be killed, and a descriptor 0, 1 or 2 that is closed is never given to a file. */
void output_begin(void);
/* Has who read our output left?  That is no failure. */
bool output_abandoned(void);
/* Last thing in main: flush, and with a fault "PROG: cannot write to standard
 * output" on stderr.  The exit code: 1 instead of 0 then. */
int output_end(const char *prog, int code);

#endif
