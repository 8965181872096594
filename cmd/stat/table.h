#ifndef CMD_STAT_TABLE_H
#define CMD_STAT_TABLE_H

#include <stdio.h>

#include "view.h"

/* Rows printed as a table, tabs, CSV or JSON Lines. */
enum format { FORMAT_TABLE, FORMAT_TSV, FORMAT_CSV, FORMAT_JSON, FORMAT_PROM, FORMAT_SVG, FORMAT_PNG };

struct table_style {
	enum format format;
	bool header, exact;
	char time;              /* of COL_TIME: 'u' seconds since 1970, 'd' date and time here; 0: as it is */
	const struct column *const *column;
	size_t ncolumns;
};

void table_header(const struct table_style *s, FILE *f);
/* One row; before: the same row a sample earlier (NULL: since its start), and
 * seconds the time in between. */
void table_row(const struct table_style *s, const json_t *row, const json_t *before, double seconds, FILE *f);

/* A column's text, "-" when it has no value. */
#define CELL_BYTES 512
void table_cell(const struct table_style *s, const struct column *c, const json_t *row, const json_t *before, double seconds,
    char out[static CELL_BYTES]);
/* "812", "123k": of counts, and what they are a second. */
void table_count(double v, char *out, size_t n);
/* "35 ms", with that between number and unit. */
void table_time(double seconds, const char *between, char out[static 24]);
unsigned table_width(const struct table_style *s, const struct column *c);

/* The value of a column; false when it has none.  Text columns: *text. */
bool column_value(const struct column *c, const json_t *row, const json_t *before, double seconds, double *v,
    const char **text);

#endif
