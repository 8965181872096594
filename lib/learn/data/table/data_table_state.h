/* SPDX-License-Identifier: ISC */
#ifndef DATA_TABLE_STATE_H
#define DATA_TABLE_STATE_H

#include <stdint.h>

#include "data/table/data_schema.h"
#include "data/table/data_table.h"

/* The struct that the files of data_table.h share. */

#define NO_COLUMN SIZE_MAX

enum table_scaling { SCALE_NONE, SCALE_STANDARD, SCALE_MINMAX, SCALE_AUTO };

/* The features of the row being read, in arrays that are used again for the next one. */
struct table_row {
	uint32_t *id;
	float *val;
	uint16_t *field;
	size_t n, room;
	size_t numbers; /* how many cells of columns of numbers it has had */
	size_t labels;  /* how many targets it has had */
	uint64_t stamp; /* counts rows */
};

struct data_table {
	const struct data_schema *schema; /* `own`, or that of the training data */
	struct data_schema *own;          /* NULL for evaluation data */
	bool extends;                     /* new values are added to `schema` in the end */
	enum table_scaling scaling;
	/* The file's separator, and the column of the schema for each column of the file
	 * (NO_COLUMN: it is not used). */
	char sep;
	size_t width, *column;
	bool keyed;     /* the file's columns have no places */
	bool dense;     /* rows are built as dense rows (data_schema_is_numeric) */
	size_t targets; /* of each row */
	bool weighted;  /* and one of weights */
	struct table_row row;
	uint64_t *given; /* by column of the schema: the stamp of the last row that had it */
	/* Values so far, by "column\037text" (the number, plus 1). */
	struct map *numbers;
	struct data_value *value; /* in the order of appearance */
	uint32_t nvalues;
	size_t value_room;
	uint32_t values_before; /* of these, the values of the rows that have ended */
};

/* The kind of a column of the file; DATA_IGNORED where the schema does not have it. */
static inline enum data_column_kind data_table_kind(const struct data_table *t, size_t place)
{
	size_t k = t->column[place];

	return k == NO_COLUMN ? DATA_IGNORED : t->schema->column[k].kind;
}

#endif
