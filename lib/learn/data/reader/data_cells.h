/* SPDX-License-Identifier: ISC */
#ifndef DATA_CELLS_H
#define DATA_CELLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Splits a CSV record (RFC 4180) into cells, in place: text with a NUL at its end. Blanks around a
 * cell do not count. A quote that is not the first character of a cell is text, as in 12" wide. Pure. */

/* The format of the message about a record of another width. Its arguments are the record's number of
 * cells, NUM_S of this number, the number of cells of the first line, and data_cells_width_remedy. */
#define DATA_CELLS_WIDTH "has %zu column%s, but the first line has %zu; %s"

/* The message about a cell for which data_cells_next returns NULL. */
#define DATA_CELLS_QUOTES "the quotes of the cell do not match; write a quote within quotes twice"

/* Returns the remedy for the record of n cells in this line, where the first line has `width`. Static
 * text. */
const char *data_cells_width_remedy(size_t n, size_t width, uint64_t line);

/* sep of the two functions below, where the separator is not known yet: any of those that
 * data_cells_separator knows but blanks. */
#define DATA_CELLS_ANY '\0'

/* Is a quoted cell open after this line? open: was it open before? */
bool data_cells_open(const char *line, char sep, bool open);

/* Length of the first record in n bytes, without its newline; n when the record does not end in
 * them. */
size_t data_cells_record(const char *p, size_t n, char sep);

/* Guesses the separator, tab, semicolon, comma or bar: the one that occurs equally often in both records
 * (second may be NULL), else the most frequent one in the first. Where none occurs, blanks separate if
 * both records have the same number of words, and more than one. */
char data_cells_separator(const char *first, const char *second);

/* Number of cells of a record, not counting quotes that do not match. */
size_t data_cells_count(const char *record, char sep);

/* Returns the cell at *p, unquoted and NUL-terminated; *p moves to the next one, or to NULL after
 * the last. NULL when a quote is not closed, or when text follows a closing quote, except in a line
 * separated by tabs. */
char *data_cells_next(char **p, char sep);

/* All cells, in a new array of *n; NULL as in data_cells_next. */
char **data_cells_split(char *record, char sep, size_t *n);

#endif
