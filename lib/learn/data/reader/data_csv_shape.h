/* SPDX-License-Identifier: ISC */
#ifndef DATA_CSV_SHAPE_H
#define DATA_CSV_SHAPE_H

#include "data/data_build.h"
#include "data/table/data_table.h"

/* Finds the shape of a file of columns in its first lines: its separator, its header, the columns
 * of its labels and features, and whether it is a table (data_table.h). data_csv.c reads the rows.
 *
 * The first record is a header when a cell that is not a number is above numbers, when ?label=
 * names one of its cells, or when it has mere text that no row below repeats. Before it a line that
 * begins with # or a bar, and has another number of cells, is a comment. */

/* A file of columns that is being read. */
struct csv_table {
	struct data_build *b;
	struct stream *s;
	const struct data_options *o;
	char sep; /* DATA_CELLS_ANY: not known yet */
	/* number of columns, and of those that are features; column of the label, from 0 (width:
	 * there is none), or of the first one */
	size_t width, features, label;
	size_t *labels, nlabels; /* the columns that ?label= names, in its order; none: `label` */
	/* Tables of numbers alone have here the feature of each column, or DATA_TABLE_NO_FEATURE. */
	size_t *feature;
	bool typed;     /* data_table.h takes the records */
	bool plain;     /* but rows of plain numbers are appended here */
	bool commented; /* the file begins with a comment */
	/* a record of several lines, and the line with which it began */
	struct buf record;
	uint64_t began;
};

/* Finds separator, width, header and label column from the first records, and how to read the
 * others: first is the first record, and those after it are read ahead. *header: the first one has
 * only names. */
enum err_code data_csv_detect_shape(struct csv_table *t, const char *first, bool *header,
    struct err *e);
/* Is this line a comment before the table: one that begins with # or a bar, above a record with
 * another number of cells, a title of one cell above a record with several, or one that names the
 * separator? */
enum err_code data_csv_is_comment(struct csv_table *t, const char *line, bool *out, struct err *e);

#endif
