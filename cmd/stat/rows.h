#ifndef CMD_STAT_ROWS_H
#define CMD_STAT_ROWS_H

#include "cmd/stat/view.h"

/* The row of the same id in a sample, or NULL. */
const json_t *rows_same(const json_t *rows, const json_t *row);
/* By a column, the largest first; texts by the alphabet, with numbers in
 * them by their value, and those that have no value last. */
void rows_sort(json_t *rows, const struct column *by, const json_t *before, double seconds);
/* One more row, "total", of what the columns say of the others. */
void rows_total(json_t *rows, const struct stat_view *v);

#endif
