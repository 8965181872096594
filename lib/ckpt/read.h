#ifndef CKPT_READ_H
#define CKPT_READ_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Reading a checkpoint, partition by partition, however many servers wrote it.
 * An open checkpoint has a sealed manifest, files of the stated sizes, and all
 * tensors in the stated shapes; only ckpt_verify looks at every byte.  After
 * ckpt_open a reader is constant: several threads may read. */
struct ckpt_reader;

struct ckpt_table {
	const char *name;
	bool sparse;
	bool added;                     /* it is none of the model's */
	uint64_t rows;                  /* sparse: as the table was declared */
	uint32_t cols, parts;
};

struct ckpt_info {
	uint64_t n;                     /* elements of a dense partition, rows of a sparse one */
	unsigned nslots;
	uint64_t version, step, born;
	bool dated;                     /* it is known when each row was updated last */
	uint32_t narrow;                /* columns that it has of each row; those of wide rows are all (ckpt_read_width) */
	size_t nlife;                   /* words of what the table's policy goes by */
	size_t nlast;                   /* worker slots that ckpt_part_last knows of */
};

/* ERR_FORMAT names the file that is damaged, missing or not what the manifest
 * says; ERR_UNSUPPORTED for a later version of the format; ERR_IO, ERR_NOMEM. */
enum err_code ckpt_open(const char *path, struct ckpt_reader **out, struct err *e);
void ckpt_close(struct ckpt_reader *r);

const char *ckpt_path(const struct ckpt_reader *r);
uint64_t ckpt_step(const struct ckpt_reader *r);
uint64_t ckpt_bytes(const struct ckpt_reader *r);               /* of all files but the manifest */
/* "generation", "config", "slots", "data", "eval" ... */
const json_t *ckpt_manifest(const struct ckpt_reader *r);

size_t ckpt_tables(const struct ckpt_reader *r);
const struct ckpt_table *ckpt_table_at(const struct ckpt_reader *r, size_t i);
const struct ckpt_table *ckpt_table_find(const struct ckpt_reader *r, const char *name);

/* t is one of the reader's tables; part below t->parts. */
struct ckpt_info ckpt_part_info(const struct ckpt_reader *r, const struct ckpt_table *t, uint32_t part);
/* The partition's struct ckpt_part.last: nlast of it. */
void ckpt_part_last(const struct ckpt_reader *r, const struct ckpt_table *t, uint32_t part, uint64_t *out);
/* n elements (dense) or rows (sparse) of a partition from `first` on; ids, w and
 * slot[0..nslots-1] may be NULL each, for what is not wanted.  What a narrow row has
 * not is 0.  Ids ascend (ERR_FORMAT where they do not).  ERR_LIMIT outside of the partition or its
 * slots, ERR_IO, ERR_FORMAT for a file that has shrunk. */
enum err_code ckpt_read_part(const struct ckpt_reader *r, const struct ckpt_table *t, uint32_t part,
                             uint64_t first, uint64_t n, uint64_t *ids, float *w, float *const *slot,
                             unsigned nslots, struct err *e);
/* Of all rows of a partition the step at which each was updated last, where it is dated, and its words;
 * NULL: not wanted.  Errors as above. */
enum err_code ckpt_read_life(const struct ckpt_reader *r, const struct ckpt_table *t, uint32_t part, uint64_t *seen,
                             uint64_t *life, struct err *e);
/* Of all rows of a partition how often each was updated, or CKPT_WIDE (ckpt/write.h) and any number.  Where no row may be
 * narrow all are wide.  Errors as above. */
enum err_code ckpt_read_width(const struct ckpt_reader *r, const struct ckpt_table *t, uint32_t part, uint64_t *width, struct err *e);
/* n elements of a whole dense table from `first` on, in order of partitions. */
enum err_code ckpt_read_dense(const struct ckpt_reader *r, const struct ckpt_table *t, uint64_t first,
                              uint64_t n, float *out, struct err *e);

/* All rows of a sparse table in ascending order of ids, one at a time, in at
 * most 64 MiB for any number of partitions (and a row of each).  *row is valid
 * until the next call, and NULL at the end.  ERR_FORMAT for an id that is in two partitions. */
struct ckpt_scan;
enum err_code ckpt_scan_begin(const struct ckpt_reader *r, const struct ckpt_table *t,
                              struct ckpt_scan **out, struct err *e);
enum err_code ckpt_scan_next(struct ckpt_scan *s, uint64_t *id, const float **row, struct err *e);
void ckpt_scan_end(struct ckpt_scan *s);

/* Opens it and compares every byte with the manifest's digests.  As ckpt_open. */
enum err_code ckpt_verify(const char *path, struct err *e);
/* The model's digest, as the result of a run has it. */
enum err_code ckpt_digest(const struct ckpt_reader *r, char hex[static 65], struct err *e);

/* How a table differs between two checkpoints.  Of rows that both have, and of
 * dense values; where the shapes differ nothing is compared. */
struct ckpt_difference {
	const char *table;
	bool in_a, in_b, same_shape;
	double max_abs, rms;            /* of a - b; infinite where that is not finite */
	uint64_t values, differ;        /* compared; whose bits differ */
	uint64_t rows_only_a, rows_only_b;
};
typedef void ckpt_difference_fn(void *ctx, const struct ckpt_difference *d);
/* Calls fn for each table of a, then for those of b alone. */
enum err_code ckpt_diff(const struct ckpt_reader *a, const struct ckpt_reader *b, ckpt_difference_fn *fn,
                        void *ctx, struct err *e);
/* Is it no difference at all? */
bool ckpt_is_same(const struct ckpt_difference *d);

#endif
