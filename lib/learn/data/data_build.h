/* SPDX-License-Identifier: ISC */
#ifndef DATA_BUILD_H
#define DATA_BUILD_H

#include "core/buf.h"
#include "data/data.h"
#include "data/reader/data_guess.h"
#include "data/data_label.h"
#include "data/table/data_spread.h"

/* Builds a dataset while readers read. A reader appends whole rows: their values with one of the
 * calls below, and their labels through `label`.
 *
 * Life: data_build_new -> for each file, reader->read -> data_build_finish, which hands the dataset
 * over -> data_build_free. One thread. */
struct data_kinds;
struct data_text_format;
struct data_parts;
struct data_table;
struct data_build {
	struct dataset *d;
	const struct dataset *like;
	bool extends;         /* `like` is data_want.base, to which the data add */
	const char *base_dir; /* base of file names in options; may be NULL */
	struct data_label *label;
	const struct data_reader *reader;      /* of the first file */
	size_t expected_rows, expected_values; /* by data_build_expect; 0: not known */
	size_t room, start_room;               /* values and rows for which memory is allocated */
	uint64_t values_before, rows_before;   /* values and rows of the files before this one */
	size_t weights, weight_room;           /* rows that have a weight, and room for */
	bool weights_scaled;       /* the weights come from datasets, which have scaled them */
	size_t groups, group_room; /* rows that have a group, and room for */
	size_t names,
	    name_room; /* rows of d->name, which may have one more than there are rows; room */
	/* Sparse ids as in the files: in d->col, until an id of more than 32 bits appears; then in
	 * raw. */
	uint64_t nnz;
	uint64_t *raw;
	uint64_t min_id,
	    max_id; /* min_id: UINT64_MAX when there is none; not known with `transient` */
	/* For each id below DATA_DIRECT: has it occurred? NULL with `transient`, and while there
	 * are fewer than DATA_SEEN_FROM values, because clearing it would take longer than reading
	 * those. */
	uint8_t *seen;
	/* The examples will be dropped soon, so that listing their distinct ids and trimming their
	 * arrays is not worth the time: d->col has the ids without the index base, which `like`
	 * knows (dataset.id is NULL), unless one has more than 32 bits. */
	bool transient;
	/* index base that was requested; -1: guess it from the content */
	int index_base;
	struct data_table
	    *table; /* of a table with text or missing cells (data_table.h), else NULL */
	const char
	    *scale; /* data_want.scale; NULL: `like` says the form, or no scaling is wanted */
	bool scales_targets; /* data_want.scales_targets, and scaling is wanted */
	bool by_lines;       /* a record that spans lines is an error */
	char *heading;  /* of the first file that has one, without its newline; NULL: none had */
	char separator; /* of the cells of that file */
	char *stream_heading; /* of the stream read last, without its newline; NULL: it has none */
	/* lines that are neither examples nor faults: blank ones, comments, headings */
	uint64_t left_out;
	char *first; /* name of the first file */
	/* The spreads of the features of training data that are not centred (data_build_spread). */
	struct data_spreads spreads;
	struct data_want want;
	/* The options of the stream read last, with those that it takes over from `like`
	 * (data_option.h). */
	struct data_options options;
};

/* A reader of one file format; registered in reader.def. Its functions may run on any thread. */
struct data_reader {
	/* Scores the first lines of a file (data_guess.h): how many of them it reads without
	 * guessing. NULL: the format looks like others, so that it must be named. */
	int (*score)(const struct data_sample *s);
	/* The functions of a push parser (data_parser.h), if the examples are lines or words. NULL:
	 * `read` reads the format. */
	const struct data_text_format *text;
	/* Appends all rows of the stream: of arrays (data_rows.h). ERR_FORMAT, ERR_IO,
	 * ERR_NOMEM. */
	enum err_code (*read)(struct data_build *b, struct stream *s, const struct data_options *o,
	    struct err *e);
	/* How a file is read in parts (data_parts.h); NULL: it is read as a whole. */
	const struct data_parts *parts;
	/* This tells users how to get ratings of a file in this format, in the error of a model
	 * that needs them (data_want.tables). NULL: models of ratings can be trained on it, because
	 * its examples are sets of features, as ratings are. */
	const char *to_ratings;
	/* The bits of hashed features without bits=; 0: the format hashes none by default. */
	int bits;
	/* Its features are of several kinds (data_kinds.h). NULL: of one. */
	const struct data_kinds *kinds;
};
#define DATA_PROBE 65536
/* Ids below this are looked up in direct tables, others by hashing. */
#define DATA_DIRECT (UINT64_C(1) << 22)
/* The number of values from which on their ids are marked in such a table. */
#define DATA_SEEN_FROM 65536u

#define READER(name, title, help) extern const struct data_reader data_reader_##name;
#include "data/reader/reader.def"
#undef READER

/* All readers, in the order of reader.def. */
#define READER(name, title, help) DATA_READER_##name,
enum {
#include "data/reader/reader.def"
	DATA_READERS
};
#undef READER
extern const struct data_reader *const data_readers[DATA_READERS];

/* Chooses the reader by the options, or by the first bytes, and reads one stream; all streams must
 * have the format of the first. Errors as data_load. */
enum err_code data_build_read(struct data_build *b, struct stream *s, const struct data_options *o,
    struct err *e);

/* Begins a stream in the same way, whose rows the caller appends: b->reader is its format. */
enum err_code data_build_begin(struct data_build *b, struct stream *s, const struct data_options *o,
    struct err *e);

/* The number of a reader in reader.def, and its name there. */
size_t data_reader_number(const struct data_reader *r);
const char *data_reader_name(const struct data_reader *r);

/* Rows so far. */
size_t data_build_count(const struct data_build *b);
/* Bytes of memory that the rows so far will take, which are read like the training data b->like. */
double data_build_memory(const struct data_build *b);

/* Gets memory for this many rows, and values of all rows together, at once. A hint. */
void data_build_expect(struct data_build *b, size_t rows, size_t values);

/* Room for dense rows: checks cols against the rows before and against `like`, then gives room for
 * n rows at *x (or *x8). data_build_rows then says how many of them were filled. */
enum err_code data_build_dense(struct data_build *b, const struct stream *s, size_t cols, size_t n,
    float **x, struct err *e);
enum err_code data_build_bytes(struct data_build *b, const struct stream *s, size_t cols,
    float scale, size_t n, uint8_t **x8, struct err *e);
void data_build_rows(struct data_build *b, size_t n);

/* Watches a number of a feature that is kept as it is, and not centred: every reader gives its
 * numbers to this before it rounds them to float32. feature: as in the file, the index base
 * included. */
static inline void data_build_spread(struct data_build *b, uint64_t feature, double v)
{
	if ((!b->like || b->extends) && v - (double)(float)v != 0)
		data_spreads_add(&b->spreads, feature, v);
}
/* Is the number large enough to be watched? Readers for which double costs time ask this first, and
 * read only such numbers again in double. */
#define DATA_SPREAD_LARGE 1e6f
static inline bool data_build_watches(const struct data_build *b, float v)
{
	return (v >= DATA_SPREAD_LARGE || v <= -DATA_SPREAD_LARGE) && (!b->like || b->extends);
}
/* A table with 1 for each id below `ids` that occurs so far, else 0; to be freed. NULL: no memory. */
uint8_t *data_build_mark_ids(const struct data_build *b, uint64_t ids);
/* Begins a sparse row: gives room for n entries at *val, and for their ids as in the file at *id,
 * or at *wide once there are ids of more than 32 bits (the other one is NULL). data_build_row ends
 * the row with the number of entries filled. data_build_widen, between the two, makes all ids wide;
 * the row must then be begun again. */
enum err_code data_build_sparse(struct data_build *b, const struct stream *s, size_t n,
    uint32_t **id, uint64_t **wide, float **val, struct err *e);
enum err_code data_build_widen(struct data_build *b, const struct stream *s, struct err *e);
void data_build_row(struct data_build *b, size_t n);

/* Gives room for the fields of the entries of the row begun, at *field. A format has fields in
 * every row or in none. */
enum err_code data_build_fields(struct data_build *b, const struct stream *s, uint16_t **field,
    struct err *e);

/* For the shapes of data (shape/data_shape.h). Resizes *p to n elements; false without memory: *p
 * stays as it was. */
bool data_build_resize(void **p, size_t n, size_t size);
/* Makes room for n more entries and `rows` more sparse rows. False: no memory. */
bool data_build_reserve(struct data_build *b, size_t n, size_t rows);
/* Makes all ids wide; false: no memory. */
bool data_build_widen_ids(struct data_build *b);
/* The index base that is taken off ids when their row ends: 0 where shape_sparse.c does it. */
uint32_t data_build_base_taken_off(const struct data_build *b);

/* Takes the memory of a dataset for the rows of this one, which has none yet, and frees the
 * dataset. NULL is fine. */
void data_build_reuse(struct data_build *b, struct dataset *old);

/* Appends the rows of a dataset that was read as this one is: with the same `want`, and like b->like.
 * ERR_NOMEM, ERR_LIMIT. */
enum err_code data_build_append(struct data_build *b, const struct dataset *d, struct err *e);

/* A reader calls this when a line has failed with rc, and returns the result if it is not ERR_OK.
 * ERR_OK: the line is to be skipped (data_want.bad), and its label and row are dropped. Errors but
 * ERR_FORMAT are returned as they are. */
enum err_code data_build_bad_line(struct data_build *b, const struct stream *s, enum err_code rc,
    struct err *e);

/* Gives the next row its group, by a text that names it; rows without one are in no group. */
enum err_code data_build_group(struct data_build *b, const struct stream *s, const char *name,
    struct err *e);

/* Adds to the name of the next row, where names are wanted; a row without one has an empty name.
 * ERR_NOMEM. */
enum err_code data_build_name(struct data_build *b, const struct stream *s, const char *name,
    struct err *e);

/* Gives the next row its weight, which is finite and at least 0; rows without one have 1. */
enum err_code data_build_weight(struct data_build *b, const struct stream *s, double weight,
    struct err *e);

/* Divides each row of the stream read last by its length. ERR_CONFIG for bytes or words. */
enum err_code data_build_norm(struct data_build *b, const struct stream *s, struct err *e);

/* Names of the `cols` features: kept from the first file, later compared with those and with the
 * training data's. ERR_FORMAT. */
enum err_code data_build_names(struct data_build *b, const struct stream *s, char *const *name,
    size_t cols, struct err *e);

/* The name of the IDX label file that belongs to a file of images, without its suffix, as a new
 * string; NULL when the name does not contain "images". data_label_suffix: the possible
 * suffixes. */
char *data_label_stem(const char *images);
extern const char *const data_label_suffix[3];

/* Bytes of a file made printable for a message, and shortened. */
#define DATA_SHOWN 100
/* The n bytes at p as printable text of limited length. */
void data_shown(char out[static DATA_SHOWN], const char *p, size_t n);

/* Begins a dataset. want is copied; like and base_dir are borrowed. */
struct data_build *data_build_new(const struct data_want *want, const struct dataset *like,
    const char *base_dir);
void data_build_free(struct data_build *b);
/* Sorts the classes, makes ids compact, trims the memory, and hands the dataset over in *out.
 * ERR_FORMAT, ERR_NOMEM. */
enum err_code data_build_finish(struct data_build *b, struct dataset **out, struct err *e);

#endif
