/* SPDX-License-Identifier: ISC */
#ifndef CMD_STAT_TABLE_H
#define CMD_STAT_TABLE_H

#include <stdio.h>

#include "view.h"

/* Prints rows as a table, tabs, CSV or JSON Lines, and formats the values of columns. */
enum format {
	FORMAT_TABLE,
	FORMAT_TSV,
	FORMAT_CSV,
	FORMAT_JSON,
	FORMAT_PROM,
	FORMAT_SVG,
	FORMAT_PNG
};

struct table_style {
	enum format format;
	bool header, exact;
	char time; /* COL_TIME: 'u' since 1970, 'd' local date; 0: as is */
	const struct column *const *column;
	size_t ncolumns;
};

/* Print the header line. */
void table_header(const struct table_style *s, FILE *f);
/* Print one row. before: the row of the same id in the sample before, `seconds` earlier; NULL:
 * rates are since the start. */
void table_row(const struct table_style *s, const json_t *row, const json_t *before, double seconds,
    FILE *f);

/* Format the value of a column; "-" without a value. */
#define CELL_BYTES 512
void table_cell(const struct table_style *s, const struct column *c, const json_t *row,
    const json_t *before, double seconds, char out[static CELL_BYTES]);
/* Format a count or a rate: "812", "123k". */
void table_count(double v, char *out, size_t n);
/* Format a time as "35 ms", with `between` between number and unit. */
void table_time(double seconds, const char *between, char out[static 24]);
/* The heading of a column: for people, a loss tells that it is that of the training. */
const char *table_heading(const struct table_style *s, const struct column *c);

/* The value of a column: a number in *v or, where *text is not NULL, a text. False: it has no
 * value. */
bool table_column_value(const struct column *c, const json_t *row, const json_t *before,
    double seconds, double *v, const char **text);

#endif
