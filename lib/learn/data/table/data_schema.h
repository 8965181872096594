/* SPDX-License-Identifier: ISC */
#ifndef DATA_SCHEMA_H
#define DATA_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/json.h"
#include "data/table/data_form.h"
#include "data/table/data_names.h"
#include "data/table/data_tfidf.h"

/* The schema of a table: what each column is, how its cells become features, and how features are
 * scaled. It is made from the training data (data_table.h) and then holds for all data
 * that the model sees, so it is stored with the model (data_facts.h).
 *
 * The features of a row are numbered: first the columns of numbers, in the order of the columns,
 * then the values of categories, in the order of `value`, or, with `bits`, 2^bits places, of which
 * each value has the one that a hash of its column and its text says. A number x becomes (x -
 * shift) * factor. A category's value becomes the number 1 at the feature of this value; a value
 * that is not in the schema becomes no feature, unless values are hashed. In a schema that was
 * extended, the features of the values that were added stand after all others, so that those keep
 * their numbers. A column of numbers may have values, too: words, which stand where others have
 * numbers, and the value that stands for a missing cell.
 *
 * The labels of a regression have a scaling, too: models learn (y - shift) * factor. An example's
 * weight is its cell times the factor of its column, which makes the mean 1.
 *
 * A schema does not change once it is made; any thread may read it. */
enum data_column_kind {
	DATA_LABEL,
	DATA_IGNORED,
	DATA_ID,
	DATA_NUMBER,
	DATA_CATEGORY,
	DATA_WEIGHT,
	DATA_COLUMN_KINDS
};

/* Columns of a table at most: a column is a field, whose number has 16 bits. */
#define DATA_SCHEMA_COLUMNS 65535u
/* Columns of labels at most. */
#define DATA_SCHEMA_TARGETS 1024u
/* Rows of a table with at most this many features are dense: then every model takes them, and dense
 * kernels are faster. */
#define DATA_SCHEMA_DENSE 1024u
/* Places of hashed values: at most 2^30. */
#define DATA_SCHEMA_BITS 30
/* With `bits`, this many values have their texts in the schema, for names. */
#define DATA_SCHEMA_NAMED DATA_NAMES_MAX

/* A cell is a text, whose words and pairs of neighbours are categories with the values 1 / sqrt(n),
 * or with the weights of data_tfidf.h. */
#define DATA_SPLIT_WORDS 'w'

struct data_column {
	char *name; /* from the header, ?columns=, or its number from 1 */
	enum data_column_kind kind;
	enum data_form form; /* of its numbers */
	char *unit;          /* that may stand after its numbers (data_form.h); NULL: none */
	bool words;          /* of numbers: words among them are categories */
	/* Categories: the sign between the categories of a cell, or DATA_SPLIT_WORDS; 0: a cell is
	 * one. */
	char split;
	bool group; /* its cells name the groups of examples (batch.h), whatever else they are */
	uint32_t first; /* of numbers: the feature; of labels: the number of the target */
	uint32_t value; /* the first of its values, in `value` of the schema */
	uint32_t count; /* how many values it has there */
	/* In a column of numbers: the mean of the cells that are not missing, and the scaling. */
	double mean, shift;
	float factor;
	/* The targets of a column of labels are kept minus this: its shift, where the mean is so
	 * far from 0 that they would lose their differences as floats, and else 0. Of numbers the
	 * same while the schema is made (data_table_row.c). */
	double origin;
};

/* The value that stands for a missing cell of a column of numbers: a number; with
 * DATA_MISSING_CATEGORY also the value DATA_MISSING_TEXT, which then stands for missing cells of
 * categories, too. */
enum data_missing { DATA_MISSING_MEAN, DATA_MISSING_ZERO, DATA_MISSING_CATEGORY, DATA_MISSINGS };
#define DATA_MISSING_TEXT "NA"

struct data_schema {
	struct data_column *column;
	size_t ncolumns, numbers; /* numbers: how many columns have the kind DATA_NUMBER */
	/* The values of all categories, sorted by column and then bytewise. */
	char **value;
	size_t nvalues;
	/* Only in a schema that was extended (data_schema_extend): by value, its feature minus
	 * `numbers`; and the value of each of these. NULL: both are the value's own number. */
	uint32_t *feature_of, *value_of;
	unsigned bits;            /* 0: values are not hashed */
	struct data_names *names; /* with bits: of the values, by their features */
	struct data_tfidf *tfidf; /* the weights of the words of texts; NULL: they are equal */
	enum data_missing missing;
	bool named;  /* the columns have names of their own */
	bool dense;  /* rows are dense, because there are few features */
	bool scaled; /* some factor is not 1 or some shift not 0 */
};

/* Do the cells of this column give features? */
static inline bool data_schema_gives_features(const struct data_column *c)
{
	return c->kind == DATA_NUMBER || c->kind == DATA_CATEGORY;
}

/* May cells of this column give categories? */
static inline bool data_schema_gives_categories(const struct data_schema *s,
    const struct data_column *c)
{
	return c->kind == DATA_CATEGORY ||
	    (c->kind == DATA_NUMBER && (c->words || s->missing == DATA_MISSING_CATEGORY));
}

/* Are the cells of this column read, as features or as anything else? */
static inline bool data_schema_uses(const struct data_column *c)
{
	return c->kind != DATA_IGNORED || c->group;
}

/* "label", "ignored", "id", "number", "category" or "weight". */
const char *data_column_kind_name(enum data_column_kind kind);

/* Frees s; NULL is fine. */
void data_schema_free(struct data_schema *s);
/* The number of features. */
size_t data_schema_features(const struct data_schema *s);
/* The feature of a value of a column; SIZE_MAX when the schema does not have it. */
size_t data_schema_find(const struct data_schema *s, const struct data_column *c, const char *text);
/* The name of a feature, "age" or "city=Paris", as a new string. Values that are hashed to one
 * place are joined by "|"; a place whose values are not known is "#" and its number. */
char *data_schema_name(const struct data_schema *s, size_t feature);
/* Are the columns of numbers, or the label of a regression, scaled? */
bool data_schema_is_scaled(const struct data_schema *s);
/* Are all features columns of mere numbers, of which each row has all, and are the rows dense? Then
 * they are built as dense rows. */
bool data_schema_is_numeric(const struct data_schema *s);
/* The column of target k; NULL: it has none. */
const struct data_column *data_schema_label(const struct data_schema *s, size_t k);
/* The number of columns with labels, which are the targets of an example. */
size_t data_schema_targets(const struct data_schema *s);
/* Names the features of a schema with `bits` by its values, which data_schema_name needs. Called by
 * the module that makes the schema, when all values are in it. */
void data_schema_name_values(struct data_schema *s);

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

/* The schema as JSON, and back (data_schema.def). A new reference; ERR_FORMAT: not a schema. */
json_t *data_schema_to_json(const struct data_schema *s);
enum err_code data_schema_from_json(const json_t *o, struct data_schema **out, struct err *e);

#endif
