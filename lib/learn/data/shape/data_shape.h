/* SPDX-License-Identifier: ISC */
#ifndef DATA_SHAPE_H
#define DATA_SHAPE_H

#include "data/batch/data_split.h"
#include "data/data_build.h"

/* The shape of data: what the rows of a dataset are in memory, and how they are built, joined,
 * described, and become a batch. Who uses a dataset calls the functions of its shape, and does
 * not ask which one it is. Batches have two forms, dense and sparse rows (batch.h), whatever the
 * shape of their data is.
 *
 * The functions do not block. Those that get a build are called by its thread; those that get a
 * const dataset alone, by any thread. */

/* A file of parsed data (data_store.h) has these besides the targets, weights and groups of the
 * rows: numbers, and arrays of n elements of `size` bytes each. size 0: there is no such
 * array. */
#define SHAPE_NUMBERS 4
#define SHAPE_ARRAYS  6
struct shape_stored {
	uint64_t number[SHAPE_NUMBERS];
	struct shape_array {
		void *at;
		uint64_t n, size;
	} array[SHAPE_ARRAYS];
};

struct data_shape {
	const char *name; /* in files of parsed data: at most 8 bytes */
	/* The rows are their own targets: a build has no labels, weights, groups or names for
	 * them, and `finish` counts them. */
	bool own_targets;
	/* Completes the rows of a build: ids get numbers, for example. Tables complete theirs by
	 * themselves (data_table_finish). NULL: they are complete. ERR_FORMAT, ERR_NOMEM,
	 * ERR_LIMIT. */
	enum err_code (*finish)(struct data_build *b, struct err *e);
	/* Appends the rows of d to a build whose rows were read as they were, without labels and
	 * what all shapes have, and without counting them. NULL: datasets are not appended.
	 * ERR_NOMEM. */
	enum err_code (*append)(struct data_build *b, const struct dataset *d, struct err *e);
	/* Fills b with the values of the n rows at index, in this order; b->rows and b->cols are
	 * set. False: no memory; b can be released or filled again. */
	bool (*gather)(const struct dataset *d, const uint32_t *index, size_t n, struct batch *b);
	/* Lists what is stored of the rows, whose arrays are borrowed; *out is zeroed. NULL: such
	 * data are parsed each time. */
	void (*store)(const struct dataset *d, struct shape_stored *out);
	/* Makes the rows of d, which has rows, columns and targets, of what was stored; the arrays
	 * stay where they are, in d->memory.map. False: they do not fit together, so that a batch
	 * of them could read beyond their ends. */
	bool (*load)(struct dataset *d, const struct shape_stored *s);
	/* Holds out a share of training data (data_split.h): *ranked becomes examples that are
	 * evaluated instead of split->held_out. NULL: examples are held out by their numbers.
	 * ERR_CONFIG, ERR_NOMEM. */
	enum err_code (*split)(struct dataset *d, uint64_t seed, double share,
	    struct data_split *split, struct dataset **ranked, struct err *e);
	/* Values of all rows. NULL: 0. */
	uint64_t (*values)(const struct dataset *d);
	/* Returns the bytes of memory that `rows` rows with `values` values take, in datasets like d. NULL:
	 * not known. */
	double (*bytes)(const struct dataset *d, double rows, double values);
	/* The *n numbers of row r, which may be changed. NULL: a row has none. */
	float *(*row)(const struct dataset *d, size_t r, size_t *n);
	/* Writes a word for the rows, as a part of the dataset's description: "dense"; with
	 * own_targets, all of the description up to the format. */
	void (*describe)(const struct dataset *d, char *out, size_t n);
	/* The name of a feature as a new string; NULL: it has none. NULL: as data_feature_name. */
	char *(*feature_name)(const struct dataset *d, uint64_t feature);
	/* Frees d->own, in a dataset of this shape. NULL: it has none. */
	void (*release)(struct dataset *d);
};

#define SHAPE(name) extern const struct data_shape data_shape_##name;
#include "data/shape/shape.def"
#undef SHAPE

/* The shape of a dataset, or of one that is being built. */
const struct data_shape *data_shape_of(const struct dataset *d);
/* The shape whose name these 8 bytes are, padded with zeroes; NULL: none. */
const struct data_shape *data_shape_named(const char name[static 8]);
/* Holds out a share, above 0 and below 1, of training data, as their shape says. *ranked stays as
 * it is where split->held_out is evaluated. */
enum err_code data_shape_split(struct dataset *d, uint64_t seed, double share,
    struct data_split *split, struct dataset **ranked, struct err *e);
/* Bytes of memory of all rows; 0: not known. */
double data_shape_bytes(const struct dataset *d);

#endif
