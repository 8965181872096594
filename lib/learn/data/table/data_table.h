/* SPDX-License-Identifier: ISC */
#ifndef DATA_TABLE_H
#define DATA_TABLE_H

#include "data/data_build.h"
#include "data/table/data_form.h"

/* Rows of tables whose columns are numbers or text, with cells that may be missing. The readers of
 * CSV and JSON Lines find records and column names, and hand the cells to this module, which makes
 * features of them as data_schema.h says.
 *
 * Life: data_table_open for each file; for each record data_table_row, or data_table_begin, a call
 * for each cell and data_table_end; data_table_finish when all files are read, which makes the
 * schema of training data: it sorts the values of categories, computes means and scaling, and gives
 * the features their final numbers. Evaluation data take the schema of the training data, and need
 * no second look. One thread.
 *
 * data_table.c begins files: it makes the schema of training data and matches the columns of each
 * file with it. data_table_row.c makes rows of cells, and data_table_finish.c measures, sorts and
 * scales them in the end. */
struct data_table;

/* The form of a file, as its first lines show it. All borrowed. */
struct data_table_shape {
	char sep;
	size_t width;        /* number of columns */
	const size_t *label; /* the column of each target, from 0 */
	size_t nlabels;
	char *const *name; /* of each column; NULL: the file has no header */
	const struct data_column_decision
	    *decision; /* of each column, by the first lines; NULL where `like` has the columns */
	bool keyed;    /* cells have names and no places: messages have no number of a column */
};

/* A column of a file that is not a feature. */
#define DATA_TABLE_NO_FEATURE SIZE_MAX

/* Begins a file. ERR_CONFIG: an option names a column that does not exist. ERR_FORMAT: the columns
 * differ from the files before, or from the training data. */
enum err_code data_table_open(struct data_build *b, const struct stream *s,
    const struct data_options *o, const struct data_table_shape *shape, struct err *e);
/* Appends the row of a record, which is changed. ERR_FORMAT, with file, line and column. */
enum err_code data_table_row(struct data_build *b, const struct stream *s, char *record,
    struct err *e);
/* May a record of plain numbers in all columns be appended as a dense row? Then *label is the label's
 * column of the file (its width: it has none), and feature the feature of each column, or
 * DATA_TABLE_NO_FEATURE. */
/* The number of a cell of column `place`, which gives a feature, as a dense row keeps it. */
float data_table_relate(struct data_build *b, size_t place, double v);
bool data_table_takes_plain(const struct data_build *b, size_t *label, size_t *feature);
/* A record cell by cell, in any order: begin; a call for each cell that is not missing, where
 * several texts of a column of categories are several categories; end. place: the column in the
 * shape, from 0. Errors as data_table_row. */
void data_table_begin(struct data_build *b);
enum err_code data_table_text(struct data_build *b, const struct stream *s, size_t place,
    const char *text, struct err *e);
enum err_code data_table_number(struct data_build *b, const struct stream *s, size_t place,
    double v, struct err *e);
/* As a number where the column has plain numbers, else as a text with all of its digits. */
enum err_code data_table_integer(struct data_build *b, const struct stream *s, size_t place,
    int64_t v, struct err *e);
enum err_code data_table_end(struct data_build *b, const struct stream *s, struct err *e);
/* Drops what a record has added that is not ended: new values of categories. */
void data_table_drop(struct data_build *b);
/* Is a column of the shape a feature or the label, and are several texts of it several categories? */
bool data_table_uses(const struct data_build *b, size_t place);
bool data_table_takes_several(const struct data_build *b, size_t place);
/* Has the record begun had a cell in this column? */
bool data_table_has(const struct data_build *b, size_t place);
/* The schema that the next file follows; NULL: it is the first one of training data, and makes it. */
const struct data_schema *data_table_schema(const struct data_build *b);
/* Ends the table of b, if it has one: sets rows, weights, names and schema of b->d. ERR_FORMAT: no
 * column is a feature, or no weight is above 0. ERR_NOMEM. */
enum err_code data_table_finish(struct data_build *b, struct err *e);
/* Frees t; NULL is fine. */
void data_table_free(struct data_table *t);

/* Fails, because the n columns of a file lack one of the training data: with the name that may be
 * meant. */
enum err_code data_table_fail_missing(const struct stream *s, const char *const *names, size_t n,
    const char *missing, struct err *e);

/* Does a label's cell say that the row has none? Such rows are left out. */
bool data_table_lacks_label(const char *cell);
/* Do the options, or the model, ask for what only tables have, so that a file of mere numbers with
 * this many columns is a table, too? */
bool data_table_is_wanted(const struct data_build *b, const struct data_options *o, size_t width);

#endif
