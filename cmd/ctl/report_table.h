#ifndef CTL_REPORT_TABLE_H
#define CTL_REPORT_TABLE_H

#include <jansson.h>
#include <stddef.h>

#include "base/buf.h"
#include "report_read.h"

/* A table of short texts for a terminal: the columns as wide as they must be,
 * those of numbers to the right.  What came from files cannot steer the
 * terminal: control characters are replaced, and long texts are cut. */
struct text_table {
	size_t ncols, ncells;
	char **cell;                    /* row after row, the first one the header */
};
#define TEXT_TABLE(columns) { .ncols = (columns) }

/* The next cell; text is taken over, NULL is "-". */
void text_table_add(struct text_table *t, char *text);
/* To stdout; the table is empty afterwards. */
void text_table_print(struct text_table *t);

/* The figures of a result that are worth a row or a column: "state", "steps", ...,
 * and "eval.NAME" for all that some run has.  A new array of names. */
json_t *figure_names(const struct run_info *list, size_t n);
/* One of them; NULL when the run has it not. */
const json_t *figure_of(const json_t *result, const char *name);
/* As people read it: four digits. */
char *figure_text(const json_t *v);

#endif
