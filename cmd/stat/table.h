#ifndef CMD_STAT_TABLE_H
#define CMD_STAT_TABLE_H

#include "view.h"

/* Rows printed as a table, TSV or JSON Lines. */
struct table_style {
	bool tsv;               /* single tabs */
	bool header, exact, json;
	const struct column *const *column;
	size_t ncolumns;
};

void table_header(const struct table_style *s);
/* One row; before: the same row a sample earlier (NULL: since its start), and
 * seconds the time in between. */
void table_row(const struct table_style *s, const json_t *row, const json_t *before, double seconds);

/* The value of a column; false when it has none.  Text columns: *text. */
bool column_value(const struct column *c, const json_t *row, const json_t *before, double seconds, double *v,
    const char **text);

#endif
