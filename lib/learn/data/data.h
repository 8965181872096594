/* SPDX-License-Identifier: ISC */
#ifndef DATA_DATA_H
#define DATA_DATA_H

/* Loads examples from files, streams and object stores, and makes batches of them.
 *
 * The way of an example: path and options (data_uri.h) -> files (data_object.h for s3 and https)
 * -> reader (data_build.h; one file data_NAME.c each) -> struct dataset -> data_gather ->
 * struct batch. Parsed data can be cached on disk (data_cache.h, data_store.h). A dataset does
 * not change once it is loaded, so that all threads may read it; one thread loads it.
 *
 *   here     struct dataset, how it is built, and the ways to read data: whole (data.c), in blocks
 *            (data_blocks.h), in chunks in their order (data_sequence.h); all walk (data_walk.h)
 *   source/  where the bytes are: paths with options, files, objects, streams
 *   reader/  what they mean: one file for each format, and how lines and rows are read in parts
 *   shape/   what rows are in memory: dense, sparse, words, pairs; one file for each
 *   table/   columns of numbers and text, and what became of them
 *   store/   parsed data on disk
 *   batch/   what a step gets: rows, words, pairs, drawn classes */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "data/batch/batch.h"
#include "format/stream.h"

struct data_bad_lines;
struct data_shape;
struct data_unseen;

/* A function that gets the cells of tables. The text lives as long as the call. */
struct data_watch {
	void *ctx;
	void (*cell)(void *ctx, size_t column, const char *text);
};

/* The targets that a model wants, and what becomes of bad lines. No flag: real numbers. classes:
 * labels are sorted (numbers by value, names bytewise) and numbered 0 .. C-1. two: two classes,
 * given as 0 and 1. */
struct data_want {
	bool classes;
	bool two;
	bool many;  /* with classes: there may be very many (DATA_LABEL_CLASSES_MANY) */
	bool any;   /* the data have labels, which are ignored */
	bool words; /* plain text; the words are their own targets */
	/* keep the names of the examples (dataset.name), which tables have in columns of ids */
	bool names;
	/* Users and items, of which those that were observed together are ranked first
	 * (data_pairs.h): items that are drawn for each example, 1 or more. 0: the model does not
	 * rank items. */
	size_t pairs;
	/* For the training data of a job that goes on with a model: the data that the model was
	 * trained on. Their classes, index base, columns and scaling hold, and their features and
	 * words keep their numbers; new values of categories, new indices and new words are added.
	 * NULL: none. Ignored if `like` is set. Borrowed until the data are loaded. */
	const struct dataset *base;
	/* The format of files that look like a table (csv), unless their path has a format or an
	 * option of tables. NULL: they are tables. */
	const char *tables;
	/* How the numbers of tables are scaled whose path does not say it (data_options.scale). The
	 * form of `like` and `base` holds instead, scaled or not. NULL: they are not. Borrowed. */
	const char *scale;
	/* With `scale` other than "none", models fit real targets of data without a schema with the
	 * mean 0 and the variance 1 (dataset.target_shift). With `base` they fit them as the
	 * targets of `base`. */
	bool scales_targets;
	/* The model and its loss fit real targets up to a shift, so that targets of tables may be
	 * kept relative to their mean where floats lose their differences otherwise
	 * (data_column.origin). */
	bool shifts_targets;
	/* lines that are not examples may be skipped (data_bad_lines.h); borrowed. NULL: none may */
	struct data_bad_lines *bad;
	/* With `like`, readers note here values that the training data lack (data_unseen.h);
	 * borrowed. NULL: they are not noted. */
	struct data_unseen *unseen;
	/* The rows of tables with categories are sparse, with a field for each column, however few
	 * features they have: for models whose costs grow with the square of the entries of a
	 * row. */
	bool fields;
	/* The most features whose large numbers are watched (data_spread.h). 0: DATA_SPREADS. */
	size_t spreads;
	/* Called for each cell of a table, also of columns that are not features: column is the
	 * number of the column in the schema, from 0. Borrowed. NULL: nothing is called. */
	const struct data_watch *watch;
};

/* The decisions of the head of the data for all their parts (data_head.h). Zeroes: none. */
enum data_heading {
	DATA_HEADING_GUESSED, /* the first lines show whether they have names */
	DATA_HEADING_NONE,    /* the first line is an example in any case */
	DATA_HEADING_GIVEN,   /* the first line that is not blank has names in any case */
	DATA_HEADING_ABOVE /* the names are known from elsewhere, and the first line is an example */
};
struct data_decided {
	/* this is a part of data of which the head has been read: nothing is guessed again */
	bool known;
	char separator; /* of the cells (DATA_CELLS_ANY and "::" among them); 0: not known */
	enum data_heading heading;
	/* The line with the names of the columns, without its newline: owned. NULL: there is none,
	 * or it is not known yet. */
	char *names;
};

/* The options after the "?" of a data path. DATA_OPTIONS_INIT: none. */
struct data_options {
	uint64_t given; /* by bits, options that the path gives (data_option.h) */
	char *format;   /* a name in reader.def; NULL: guessed from the content */
	char *label;    /* column: its name, its number from 1, or "last" */
	char *labels;   /* file that holds the labels (idx, npy) */
	int index_base; /* of libsvm: 0 or 1; -1: guessed from the content */
	/* named features are hashed to this many bits (criteo, fasttext, vw, tables); 0: the
	 * format's default, of tables a dictionary */
	int bits;
	char *norm; /* "l2": each example is divided by its length */
	/* tables (data_table.h): names of all columns; columns that are left out, that are
	 * categories though they look like numbers, and that name the examples: lists of names or
	 * of numbers from 1 */
	char *columns, *ignore, *categories, *id;
	/* columns of tables whose cells have words, and whose cells are lists of categories */
	char *text, *lists;
	/* of the words of `text`: "none", which are equal, or "tfidf" (data_tfidf.h) */
	char *text_weight;
	char *weight;  /* the column of the examples' weights */
	char *group;   /* the column of the examples' groups; of a stream, its group of consumers */
	char *missing; /* what a missing cell becomes: "mean", "zero" or "category" */
	char *scale; /* of numbers: "auto", "standard", "minmax" or "none" (data_table_finish.c) */
	/* ratings: columns by name or number from 1; NULL: the first three */
	char *user, *item, *rating;
	/* ratings: targets are 1 from this rating on, and else 0; NULL: they are the ratings */
	char *positive;
	/* ratings: tables of the features of users and items (data_features.h); NULL: they have
	 * none. The reader gets whole paths. */
	char *user_features, *item_features;
	char *pairs;                 /* namespaces whose features are crossed (vw): "ab,ac" */
	int ngrams;                  /* fasttext: words in the longest sequence that is a feature */
	int window;                  /* text: words on each side that a word is trained with */
	int negatives;               /* text: random words drawn for each of them */
	int min_count;               /* text: rarer words are left out */
	struct data_decided decided; /* cannot be given in a path */
	/* streams (data_log.h): "yes" makes a stream of a file; where a new job begins ("begin",
	 * "end", "group" or a place); the file of properties of a consumer; what happens when
	 * events have been deleted before they were read ("fail" or "skip"); events in the head, 0:
	 * the default */
	char *follow, *from, *properties, *deleted;
	int head;
	double sample; /* text: words more frequent than this are thinned out; 0: none */
};
#define DATA_OPTIONS_INIT \
	{ \
		.index_base = -1, .ngrams = 2, .window = 5, .negatives = 5, .min_count = 5, \
		.sample = 1e-3 \
	}

/* Facts that were found while the examples of a dataset were read. */
struct dataset_reading {
	bool sampled;      /* these are some of the examples of data in blocks (data_blocks.h) */
	size_t unlabelled; /* rows of tables that were left out, because they have no label */
	/* The line of the last file, from 1, that had names and was not an example; 0: none had. */
	uint64_t heading;
	char separator; /* of the cells of the last file; 0: its format has none */
	size_t skipped; /* bad lines that were left out (data_want.bad) */
	/* Users and items of ratings that the table of their features lacks (data_features.h), counted
	 * once for each line that has them. */
	size_t unlisted;
	/* Large numbers of features after the first data_want.spreads, which nothing has compared
	 * with the others of their feature (data_spread.h). */
	uint64_t unwatched;
};

/* The memory that has the arrays of a dataset. */
struct dataset_memory {
	void *map; /* the file that holds them (data_cache.h), else NULL */
	size_t map_len;
	/* Elements that arrays have memory for, where it may be used again (data_build_reuse): x,
	 * x8, col, val and field; start; y and label. 0: not known. */
	size_t value_room, start_room, label_room;
};

/* Examples in memory; read-only once loaded, so any thread may gather.
 *
 * Dense: x is (rows, cols); or x8 for bytes, whose values count `scale` each.
 *
 * Sparse: as in struct batch; row r has entries start[r] .. start[r+1]-1, and id lists the distinct
 * features in ascending order; where id is NULL, col has the features themselves, which are below
 * nids. field, if the data have fields, is the field of each entry, below `fields` (at least that
 * of `like`). cols is 1 + the largest possible feature (at least that of `like`); ids of evaluation
 * data may lie beyond the training data's cols.
 *
 * Words: `rows` words of a text, from which batches are made (data_words.h): sparse, but without
 * start, col and val.
 *
 * Pairs: examples of a user and an item, to which batches add drawn items (data_pairs.h).
 *
 * Numbered: `rows` examples that only a user's program can read. */
struct dataset {
	size_t rows, cols;
	bool sparse, numbered;
	float *x;
	uint8_t *x8;
	float scale;
	uint64_t *start;
	uint32_t *col;
	float *val;
	uint16_t *field;
	size_t fields;
	uint64_t *id;
	size_t nids;
	/* The shape of the rows, and what it has beside the arrays here. NULL: dense or sparse
	 * rows. */
	const struct data_shape *shape;
	void *own;
	uint64_t *group;       /* of each example (batch.h); NULL: the data have no groups */
	bool grouped_by_first; /* sparse: the first entry of an example, its user, is its group */
	/* By example: the cells of its columns of ids (data_options.id), joined by commas; NULL:
	 * the data have none, or they are not wanted (data_want.names). */
	char **name;
	float *weight; /* of each example, with the mean 1 in training data; NULL: all equal */
	/* what weights were multiplied with for that; 0: the schema says it, or there are none */
	float weight_factor;
	float *y;       /* real targets (rows, targets), or 0 and 1 (want.two) */
	size_t targets; /* of each example; known of data without examples, too */
	/* Models fit the targets (y - target_shift) * target_factor; 0 as the factor: the schema
	 * says how, or they fit y. y and predictions are in the units of the data. */
	double target_shift, target_factor;
	int32_t *label; /* want.classes */
	size_t classes; /* 0 for real targets */
	char **class_name;
	double *class_value; /* NAN for a class whose label is not a number */
	char **feature_name; /* cols names from a CSV header or a schema, else NULL */
	/* The columns of a table (data_schema.h); NULL for other data, and for evaluation
	 * data, which take the training data's. */
	struct data_schema *schema;
	/* The names of features that are hashes of words (data_names.h); NULL: none has a name. */
	struct data_names *names;
	/* The options that decide what features and targets mean (data_option.h); NULL: not known,
	 * or the data are evaluation data. */
	struct data_options *options;
	struct dataset_reading reading;
	int index_base;     /* subtracted from sparse ids; -1: not determined */
	const char *format; /* title of the reader */
	char *source;       /* for messages: "a.csv", "a.csv and 3 more" */
	/* Ratings: which columns were taken for what, 'user: column 1 "userId", item: column 2
	 * "movieId"'. NULL: not known. */
	char *roles;
	struct dataset_memory memory;
};

/* Loads files, globs, or "-" for standard input, each perhaps with options ("a.csv?label=price").
 * Several paths are concatenated and must agree. Relative paths are relative to base_dir (NULL: the
 * current directory). like: for evaluation data, the training set, whose classes, index base, width
 * and column names hold; else NULL.
 *
 * ERR_IO: cannot be opened or read. ERR_CONFIG: wrong options. ERR_FORMAT: wrong contents, with
 * file and line. ERR_NOMEM. */
enum err_code data_load(const char *const *paths, size_t npaths, const char *base_dir,
    const struct data_want *want, const struct dataset *like, struct dataset **out, struct err *e);
/* As data_load, from one open stream, which stays the caller's. */
enum err_code data_load_stream(struct stream *s, const struct data_options *o,
    const struct data_want *want, const struct dataset *like, struct dataset **out, struct err *e);
/* A dataset of numbered examples, without contents. */
struct dataset *dataset_numbered(size_t rows);
void dataset_free(struct dataset *d);
/* The text of a dataset of words, and what data of pairs know; NULL: the dataset is of another
 * shape. */
struct data_words *dataset_words(const struct dataset *d);
struct data_pairs *dataset_pairs(const struct dataset *d);
/* Returns how models fit target k: as the schema says, or as the data say if they have no schema. */
struct target_scaling dataset_target_scaling(const struct dataset *d, size_t k);
/* The value that target k and its predictions are relative to, in the units of the data: 0 unless
 * they are far from 0 for their differences (data_column.origin). */
double dataset_target_origin(const struct dataset *d, size_t k);

/* Fills b with n rows in the order of index (values below d->rows), growing its arrays. Different
 * batches may be filled by several threads. b->epoch must be the pass over the data, on which the
 * random words and items depend. ERR_NOMEM. */
enum err_code data_gather(const struct dataset *d, const uint32_t *index, size_t n, struct batch *b,
    struct err *e);

/* The batch of examples begin .. end-1 of a numbered set, in this pass. */
void data_range(uint64_t epoch, uint64_t begin, uint64_t end, struct batch *b);

/* A description for messages: "60000 examples, 784 features, 10 classes, dense, IDX (FILE)". */
#define DATA_DESCRIPTION 512
void data_describe(const struct dataset *d, char out[static DATA_DESCRIPTION]);

/* The name of a feature, as a new string: "age", "city=Paris", "user=alice"; of a text the word,
 * and the word with " (predicted)" after it where it is to be predicted. NULL: the feature has
 * none. Pure. */
char *data_feature_name(const struct dataset *d, uint64_t feature);

/* The formats of reader.def, for help texts; an entry with name NULL ends them. */
struct data_format {
	const char *name, *title, *help;
};
const struct data_format *data_formats(void);

#endif
