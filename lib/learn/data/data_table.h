/* SPDX-License-Identifier: ISC */
#ifndef DATA_TABLE_H
#define DATA_TABLE_H

#include "data/data_build.h"

/* Rows of tables whose columns are numbers or text, with cells that may be missing. The CSV reader
 * finds records and column names, and hands each record to this module, which makes features of the
 * cells as data_schema.h says.
 *
 * Life: data_table_open for each file; data_table_row for each record; data_table_finish when all
 * files are read, which makes the schema of training data: it sorts the values of categories, computes
 * means and scaling, and gives the features their final numbers. Evaluation data take the schema of
 * the training data, and need no second look. One thread. */
struct data_table;

/* The form of a file, as its first lines show it. All borrowed. */
struct data_table_shape {
	char sep;
	size_t width, label;  /* number of columns; the label's column, from 0 */
	char *const *name;    /* of each column; NULL: the file has no header */
	const bool *has_text; /* by column: are most cells in the first lines text? */
};

/* Begins a file. ERR_CONFIG: an option names a column that does not exist. ERR_FORMAT: the columns
 * are not those of the files before, or of the training data. */
enum err_code data_table_open(struct data_build *b, const struct stream *s,
    const struct data_options *o, const struct data_table_shape *shape, struct err *e);
/* Appends the row of a record, which is changed. ERR_FORMAT, with file, line and column. */
enum err_code data_table_row(struct data_build *b, const struct stream *s, char *record,
    struct err *e);
/* Ends the table of b, if it has one: sets rows, names and schema of b->d. ERR_NOMEM. */
enum err_code data_table_finish(struct data_build *b, struct err *e);
/* Frees t; NULL is fine. */
void data_table_free(struct data_table *t);

/* Does this cell say that there is no value (empty, ?, NA, nan, null, ..)? */
bool data_table_is_missing(const char *cell);
/* Do the options ask for what only tables have, so that a file of mere numbers is a table, too? */
bool data_table_is_wanted(const struct data_options *o);

#endif
