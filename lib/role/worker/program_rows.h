/* SPDX-License-Identifier: ISC */
#ifndef WORKER_PROGRAM_ROWS_H
#define WORKER_PROGRAM_ROWS_H

#include "worker/params.h"
#include "worker/program_files.h"

/* The rows of sparse tables that a program for model custom needs. The program writes their ids to
 * TABLE.ids, as ascending raw little-endian uint64, and answers "rows TABLE N". A list has one
 * entry for each table of the job; entries of dense tables are empty. Training thread only. */

/* A new empty list; NULL: no table is sparse. */
struct params_rows *program_rows_new(const struct program_files *f);
void program_rows_free(const struct program_files *f, struct params_rows *rows);
/* Empties the list. */
void program_rows_clear(const struct program_files *f, struct params_rows *rows);
/* Parses "rows TABLE N rows TABLE N ...", which it destroys, and reads the named files into rows;
 * tables not named have no rows. ERR_FORMAT when the text is anything else or a file does not fit
 * it; ERR_NOMEM. */
enum err_code program_rows_parse(const struct program_files *f, char *says,
    struct params_rows *rows, struct err *e);
/* Writes the ids of `rows` again, after other rows were named or the program was restarted.
 * ERR_IO. */
enum err_code program_rows_write(const struct program_files *f, const struct params_rows *rows,
    struct err *e);
/* The text " rows TABLE N" for each sparse table, to be freed; rows NULL: "". */
char *program_rows_text(const struct program_files *f, const struct params_rows *rows);

#endif
