/* SPDX-License-Identifier: ISC */
#ifndef DATA_SCHEMA_H
#define DATA_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/json.h"

/* The schema of a table: what each column is, how its cells become features, and how features are
 * scaled. It is made from the training data (data_table.h) and then holds for all data
 * that the model sees, so it is stored with the model (data_facts.h).
 *
 * The features of a row are numbered: first the columns of numbers, in the order of the columns, then
 * the values of categories, in the order of `value`. A number x becomes (x - shift) * factor. A
 * category's value becomes the number 1 at the feature of this value; a value that is not in the schema
 * becomes no feature. In a schema that was extended, the features of the values that were added stand
 * behind all others, so that those keep their numbers.
 *
 * A schema does not change once it is made; any thread may read it. */
enum data_column_kind {
	DATA_LABEL,
	DATA_IGNORED,
	DATA_ID,
	DATA_NUMBER,
	DATA_CATEGORY,
	DATA_COLUMN_KINDS
};

/* Columns of a table at most: a column is a field, whose number has 16 bits. */
#define DATA_SCHEMA_COLUMNS 65535u

struct data_column {
	char *name; /* from the header, ?columns=, or its number from 1 */
	enum data_column_kind kind;
	uint32_t first; /* of a number: its feature; of a category: the first of its values */
	uint32_t count; /* of a category: how many values it has */
	/* In a column of numbers: the mean of the cells that are not missing, and the scaling. */
	double mean;
	float shift, factor;
};

/* The number that stands for a missing cell of a column of numbers. */
enum data_missing { DATA_MISSING_MEAN, DATA_MISSING_ZERO };

struct data_schema {
	struct data_column *column;
	size_t ncolumns, numbers; /* numbers: how many columns have the kind DATA_NUMBER */
	/* The values of all categories, sorted by column and then bytewise. */
	char **value;
	size_t nvalues;
	/* Of a schema that was extended (data_schema_extend): by value, its feature minus `numbers`;
	 * and the value of each of these. NULL: both are the value's own number. */
	uint32_t *feature_of, *value_of;
	enum data_missing missing;
	bool named;  /* the columns have names of their own */
	bool dense;  /* rows are dense, because there are few features */
	bool scaled; /* some factor is not 1 or some shift not 0 */
};

/* Frees s; NULL is fine. */
void data_schema_free(struct data_schema *s);
/* The number of features. */
size_t data_schema_features(const struct data_schema *s);
/* The feature of a category's value; SIZE_MAX when the schema does not have it. */
size_t data_schema_find(const struct data_schema *s, const struct data_column *c, const char *text);
/* The name of a feature, "age" or "city=Paris", as a new string. */
char *data_schema_name(const struct data_schema *s, size_t feature);

/* A value that a column of categories is to have, too. */
struct data_value {
	uint32_t column;
	char *text;
};
/* A copy of the schema with n more values, which it does not have and none of which comes twice; its
 * kinds and scaling stay. The array is sorted by column and then bytewise: value i becomes the
 * feature data_schema_features(s) + i. The texts are copied. */
struct data_schema *data_schema_extend(const struct data_schema *s, const struct data_value *value,
    size_t n);

/* The schema as JSON, and back: {"columns": [{"name", "kind", "mean"?, "shift"?, "factor"?,
 * "values"?, "places"?}, ..], "missing", "named", "dense"}. A new reference; ERR_FORMAT: not a schema. */
json_t *data_schema_to_json(const struct data_schema *s);
enum err_code data_schema_from_json(const json_t *o, struct data_schema **out, struct err *e);

#endif
