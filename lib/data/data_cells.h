#ifndef DATA_CELLS_H
#define DATA_CELLS_H

#include <stdbool.h>
#include <stddef.h>

/* The cells of a CSV record (RFC 4180): text with a NUL at its end, taken apart
 * where it stands.  Blanks around a cell do not count. */

/* Does a quoted cell begin in this line that does not end in it? */
bool data_cells_open(const char *line);

/* Length of the record that n bytes begin with, without its newline; n when it
 * does not end in them. */
size_t data_cells_record(const char *p, size_t n);

/* The separator: tab, semicolon or comma, the one that comes equally often in
 * both records (second may be NULL), else the most frequent in the first. */
char data_cells_separator(const char *first, const char *second);

/* The cell at *p, quotes undone and NUL-terminated; *p moves to the next one,
 * or to NULL after the last.  NULL for text after a closing quote, or
 * when there is none. */
char *data_cells_next(char **p, char sep);

/* All cells in a fresh array of *n (free it); NULL as data_cells_next. */
char **data_cells_split(char *record, char sep, size_t *n);

#endif
