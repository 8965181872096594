/* SPDX-License-Identifier: ISC */
#ifndef CKPT_READ_H
#define CKPT_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/json.h"
#include "math/element.h"

#define CKPT_VECTORS_MAX 4 /* state vectors of a partition */

/* Reading a checkpoint by partition, whichever servers wrote it. ckpt_open checks the manifest's
 * seal, the sizes of the files and the shapes of all tensors; only ckpt_verify checks every
 * byte. A delta checkpoint is read as if it were a full one. After ckpt_open a reader is
 * constant, so several threads may use it. */
struct ckpt_reader;

struct ckpt_table {
	const char *name;
	bool sparse;
	bool added;    /* not a table of the model; it was added later */
	uint64_t rows; /* sparse: as the table was declared */
	uint32_t cols, parts;
	/* The type of the values in the files; f32 if it is not the same in all of them. */
	enum element_type values;
};

struct ckpt_info {
	uint64_t n; /* elements of a dense partition, rows of a sparse one */
	unsigned nvectors;
	uint32_t vector_cols[CKPT_VECTORS_MAX]; /* floats of a sparse row in each: cols or 1 */
	uint64_t version, step, born;
	bool dated;           /* the step of each row's last update is known */
	size_t npolicy_words; /* words of row-policy state */
	size_t nlast;         /* ranks in ckpt_part_last */
};

/* ERR_FORMAT names the file that is damaged, missing, or not as the manifest says;
 * ERR_UNSUPPORTED for a later version of the format; ERR_IO, ERR_NOMEM. */
enum err_code ckpt_open(const char *path, struct ckpt_reader **out, struct err *e);
/* Close the files and free r, which may be NULL. */
void ckpt_close(struct ckpt_reader *r);

const char *ckpt_path(const struct ckpt_reader *r);
uint64_t ckpt_step(const struct ckpt_reader *r);
/* Its manifest (msg/manifest.h), borrowed. */
struct manifest;
const struct manifest *ckpt_manifest(const struct ckpt_reader *r);

/* Reads the description of the training data of the checkpoint at `path`, which is in its manifest
 * or in a file: a new document, or NULL. ERR_FORMAT: the file is damaged; ERR_IO. */
enum err_code ckpt_facts_read(const struct manifest *m, const char *path, json_t **out,
    struct err *e);
/* Reads only the text of a large description (msg/large_description.h); *out is NULL if it is not
 * large. */
struct large_description;
enum err_code ckpt_description_read(const struct manifest *m, const char *path,
    struct large_description **out, struct err *e);

/* The number of tables, a table by its number, and a table by its name (NULL: there is none). */
size_t ckpt_tables(const struct ckpt_reader *r);
const struct ckpt_table *ckpt_table_at(const struct ckpt_reader *r, size_t i);
const struct ckpt_table *ckpt_table_find(const struct ckpt_reader *r, const char *name);

/* t is one of the reader's tables; part is below t->parts. */
struct ckpt_info ckpt_part_info(const struct ckpt_reader *r, const struct ckpt_table *t,
    uint32_t part);
/* The partition's `last` (struct ckpt_part): nlast numbers. */
void ckpt_part_last(const struct ckpt_reader *r, const struct ckpt_table *t, uint32_t part,
    uint64_t *out);
/* Read n elements (dense) or rows (sparse) of a partition from `first` on. ids, w and each of
 * vector[0..nvectors-1] may be NULL. Ids ascend, or else
 * ERR_FORMAT. ERR_LIMIT beyond the partition or its vectors; ERR_IO; ERR_FORMAT for a file that
 * has shrunk. */
enum err_code ckpt_read_part(const struct ckpt_reader *r, const struct ckpt_table *t, uint32_t part,
    uint64_t first, uint64_t n, uint64_t *ids, float *w, float *const *vector, unsigned nvectors,
    struct err *e);
/* Finds the values of a partition in memory, by mapping its file read-only until ckpt_close: *w is
 * the first one, of the type *values, and *ids of a sparse partition the first id (u64,
 * little-endian), at any alignment. *w is NULL if the rows of a delta checkpoint and of its base
 * make up the partition. One thread. ERR_IO. */
enum err_code ckpt_map_part(const struct ckpt_reader *r, const struct ckpt_table *t, uint32_t part,
    const uint8_t **ids, const uint8_t **w, enum element_type *values, struct err *e);
/* For all rows of a partition: the step of each row's last update, if known, and the row
 * policy's words. Either may be NULL. Errors as above. */
enum err_code ckpt_read_row_policy(const struct ckpt_reader *r, const struct ckpt_table *t,
    uint32_t part, uint64_t *seen, uint64_t *policy_words, struct err *e);
/* Read n elements of a whole dense table from `first` on, in order of partitions. */
enum err_code ckpt_read_dense(const struct ckpt_reader *r, const struct ckpt_table *t,
    uint64_t first, uint64_t n, float *out, struct err *e);

/* Scan all rows of a sparse table in ascending order of ids, one at a time. Memory: 64 MiB for
 * any number of partitions (at least a row of each). *row is valid until the next call, and NULL
 * at the end. ERR_FORMAT for an id that is in two partitions. */
struct ckpt_scan;
enum err_code ckpt_scan_begin(const struct ckpt_reader *r, const struct ckpt_table *t,
    struct ckpt_scan **out, struct err *e);
enum err_code ckpt_scan_next(struct ckpt_scan *s, uint64_t *id, const float **row, struct err *e);
void ckpt_scan_end(struct ckpt_scan *s);

/* Open the checkpoint, compare every byte with the manifest's digests, and decode what the
 * coordinator wrote into the manifest. Errors of ckpt_open. */
enum err_code ckpt_verify(const char *path, struct err *e);
/* A share of a checkpoint's files: those whose server's number, modulo `of`, is `index`. The shares
 * 0 to of-1 have every file once. If as many servers resume as have written it, each has its own
 * files. */
struct ckpt_share {
	unsigned index, of;
};
/* These compare an open checkpoint with its digests, piece by piece, while it is used.
 * ckpt_check_begin decodes what the coordinator wrote and opens the files of the share (NULL: all
 * files); ckpt_check_some compares the next `most` bytes, and does nothing once all have been
 * compared (ckpt_check_is_done). The reader is borrowed. One thread. Errors of ckpt_open. */
struct ckpt_check;
enum err_code ckpt_check_begin(const struct ckpt_reader *r, const struct ckpt_share *share,
    struct ckpt_check **out, struct err *e);
enum err_code ckpt_check_some(struct ckpt_check *c, uint64_t most, struct err *e);
bool ckpt_check_is_done(const struct ckpt_check *c);
/* NULL is fine. */
void ckpt_check_free(struct ckpt_check *c);
/* The digest of the model's parameters, as in the result of a run. */
enum err_code ckpt_digest(const struct ckpt_reader *r, char hex[static 65], struct err *e);

/* How a table differs between checkpoints a and b. Dense values and rows that both have are
 * compared; nothing is compared when the shapes differ. */
struct ckpt_difference {
	const char *table;
	bool in_a, in_b, same_shape;
	double max_abs, rms;     /* of a - b; infinite where a difference is not finite */
	uint64_t values, differ; /* values compared; values whose bits differ */
	uint64_t rows_only_a, rows_only_b;
};
typedef void ckpt_difference_fn(void *ctx, const struct ckpt_difference *d);
/* Call fn for each table of a, then for each table that only b has. */
enum err_code ckpt_diff(const struct ckpt_reader *a, const struct ckpt_reader *b,
    ckpt_difference_fn *fn, void *ctx, struct err *e);
/* True when the table is bit for bit the same. */
bool ckpt_is_same(const struct ckpt_difference *d);

#endif
