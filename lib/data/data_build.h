#ifndef DATA_BUILD_H
#define DATA_BUILD_H

#include "base/buf.h"
#include "data/data.h"
#include "data/data_label.h"

/* A dataset that grows while readers read.  A reader appends whole rows: their
 * values by one of the calls below, and their labels through `label`. */
struct data_build {
	struct dataset *d;
	const struct dataset *like;
	const char *base_dir;           /* for files that options name; may be NULL */
	struct data_label *label;
	const struct data_reader *reader;       /* of the first file */
	size_t room, start_room;        /* values and rows that there is memory for */
	uint64_t values_before, rows_before;    /* of the files before this one */
	/* Sparse ids as they stand in the files lie in d->col, until there is one of
	 * more than 32 bits: then in raw. */
	uint64_t nnz;
	uint64_t *raw;
	uint64_t max_id;
	uint8_t *seen;                  /* of each id below DATA_DIRECT: is it there? */
	int index_base;                 /* that was asked for; -1: by content */
	char *first;                    /* name of the first file */
};

struct data_reader {
	/* Does a file that begins with these n bytes (at most DATA_PROBE, fewer
	 * only when the file is shorter) look like this format? */
	bool (*probe)(const uint8_t *p, size_t n);
	/* Append all rows of the stream; lines of text in errors count from 1. */
	enum err_code (*read)(struct data_build *b, struct stream *s, const struct data_options *o,
	                      struct err *e);
};
#define DATA_PROBE 65536
/* Ids below this are looked up in tables of their own. */
#define DATA_DIRECT (UINT64_C(1) << 22)

#define READER(name, title, help) extern const struct data_reader data_reader_##name;
#include "data/reader.def"
#undef READER

/* Dense rows of cols features: checks cols against the rows before and against
 * `like`, then gives room for n rows at *x (or *x8).  They count once data_build_rows
 * says how many were filled. */
enum err_code data_build_dense(struct data_build *b, const struct stream *s, size_t cols, size_t n,
                               float **x, struct err *e);
enum err_code data_build_bytes(struct data_build *b, const struct stream *s, size_t cols, float scale,
                               size_t n, uint8_t **x8, struct err *e);
void data_build_rows(struct data_build *b, size_t n);

/* One sparse row: room for n entries at *val, and for their ids, as they stand in the
 * file, at *id, or at *wide once there are ids of more than 32 bits (the other is NULL).
 * data_build_row ends it with those that were filled.  data_build_widen, between the
 * two, makes all ids wide: the row is then begun again. */
enum err_code data_build_sparse(struct data_build *b, const struct stream *s, size_t n, uint32_t **id,
                                uint64_t **wide, float **val, struct err *e);
enum err_code data_build_widen(struct data_build *b, const struct stream *s, struct err *e);
void data_build_row(struct data_build *b, size_t n);

/* Of the row that data_build_sparse has begun: room for its entries' fields, at *field.
 * A format has them in every row or in none. */
enum err_code data_build_fields(struct data_build *b, const struct stream *s, uint16_t **field, struct err *e);

/* The values of the stream that was read last: each row is divided by its length.  ERR_CONFIG where
 * they are bytes or words. */
enum err_code data_build_norm(struct data_build *b, const struct stream *s, struct err *e);

/* Names of the features, cols of them: kept from the first file, compared with
 * the first file's and the training data's after that. */
enum err_code data_build_names(struct data_build *b, const struct stream *s, char *const *name,
                               size_t cols, struct err *e);

/* The file of IDX labels that goes with one of images, without the suffix that it may
 * have, in a fresh string; NULL when the name does not say "images".  And the suffixes. */
char *data_label_stem(const char *images);
extern const char *const data_label_suffix[3];

/* Bytes of the file for a message: made printable, cut to a decent length. */
#define DATA_SHOWN 100
void data_shown(char out[static DATA_SHOWN], const char *p, size_t n);

struct data_build *data_build_new(const struct data_want *want, const struct dataset *like,
                                  const char *base_dir);
void data_build_free(struct data_build *b);
/* Classes sorted, ids made compact, memory cut to size: the dataset. */
enum err_code data_build_finish(struct data_build *b, struct dataset **out, struct err *e);

#endif
