/* SPDX-License-Identifier: ISC */
#ifndef LAB_REPORT_TABLE_H
#define LAB_REPORT_TABLE_H

#include <stddef.h>

#include "core/buf.h"
#include "core/json.h"
#include "lab/report_read.h"

/* A table of short texts for a terminal. Columns are as wide as their widest cell; columns of
 * numbers are aligned to the right. Texts may come from files: control characters are replaced, so
 * that they cannot control the terminal, and long texts are cut. */
struct report_text_table {
	size_t ncols, ncells;
	char **cell; /* by rows; the first row is the header */
};
#define TEXT_TABLE(columns) \
	{ \
		.ncols = (columns) \
	}

/* Adds the next cell. Takes ownership of text; NULL is shown as "-". */
void report_text_table_add(struct report_text_table *t, char *text);
/* Prints the table to stdout, and empties it. */
void report_text_table_print(struct report_text_table *t);

/* Returns a new array with the names of the figures in results that deserve a row or a column:
 * "state", "steps", ..., and "eval.NAME" for each figure in the evaluation of any run. */
json_t *report_figure_names(const struct report_run *list, size_t n);
/* Returns a figure of a result by its name, borrowed, or NULL when the result does not have it. */
const json_t *report_figure(const json_t *result, const char *name);
/* Formats a figure for people, numbers with four digits. The string must be freed. */
char *report_figure_text(const json_t *v);

#endif
