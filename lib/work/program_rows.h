#ifndef WORK_PROGRAM_ROWS_H
#define WORK_PROGRAM_ROWS_H

#include "work/params.h"
#include "work/program_files.h"

/* Rows of sparse tables that a program names: it writes their ids to TABLE.ids, as raw little-endian uint64 that
 * ascend, and says "rows TABLE N".  Lists have one place for each table of the job; dense ones have no rows. */

/* NULL: none of the tables is sparse. */
struct params_rows *program_rows_new(const struct program_files *f);
void program_rows_free(const struct program_files *f, struct params_rows *rows);
/* None of any table. */
void program_rows_none(const struct program_files *f, struct params_rows *rows);
/* says: "rows TABLE N rows TABLE N ..."; a table that is not among them has no rows.  It is taken apart.  ERR_FORMAT when
 * it is anything else, or when a file has not what is said of it; ERR_NOMEM. */
enum err_code program_rows_take(const struct program_files *f, char *says, struct params_rows *rows, struct err *e);
/* Write the ids again, where others were asked for since, or the program is another.  ERR_IO. */
enum err_code program_rows_put(const struct program_files *f, const struct params_rows *rows, struct err *e);
/* " rows TABLE N" of each sparse table, to be freed; rows NULL: "". */
char *program_rows_text(const struct program_files *f, const struct params_rows *rows);

#endif
