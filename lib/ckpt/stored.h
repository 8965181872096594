#ifndef CKPT_STORED_H
#define CKPT_STORED_H

/* Inside of ckpt/: an open checkpoint. */
#include "ckpt/read.h"
#include "ckpt/write.h"
#include "format/safetensors.h"

/* Where a partition lies. */
struct place {
	size_t file, state;             /* state: NO_FILE when the server wrote none */
	uint64_t begin, n;              /* begin: of a dense partition, in the table */
	unsigned nslots;
	uint64_t version, step, born;
	const json_t *last;
	const struct safetensors_tensor *w, *ids, *seen, *life, *live, *slot[CKPT_SLOTS_MAX];
	/* What lies there are changes to this (NULL: all).  pick: of each of the n rows, its number in the base, or,
	 * with PICK_OWN, of those that lie here, which are nown. */
	struct place *base;
	uint64_t *pick, nown;
};
#define NO_FILE SIZE_MAX

struct stored {
	struct ckpt_table t;            /* first: a ckpt_table is a stored */
	struct place *place;
};

struct file {
	const char *name;
	struct safetensors *st;
	size_t used;                    /* tensors that belong to a partition */
};

struct ckpt_reader {
	char *path;
	json_t *manifest;               /* owns all names */
	struct stored *table;
	size_t ntables;
	struct file *file;
	size_t nfiles;
	uint64_t bytes;
};

#define PICK_OWN (UINT64_C(1) << 63)

/* ckpt_merge.c: a sparse partition of which only changes lie in its file.  Which rows there are: sets n and pick.
 * ERR_FORMAT, ERR_NOMEM, ERR_IO. */
enum err_code ckpt_merge(const struct ckpt_reader *r, const struct ckpt_table *t, struct place *p, struct err *e);
/* n of them from `first` on: their ids, or `width` floats of each, of w or (slot from 0) of a slot. */
enum err_code ckpt_merged_ids(const struct ckpt_reader *r, const struct place *p, bool seen, uint64_t first, uint64_t n, uint64_t *out,
                              struct err *e);
enum err_code ckpt_merged_floats(const struct ckpt_reader *r, const struct place *p, int slot, uint64_t width, uint64_t first,
                                 uint64_t n, float *out, struct err *e);

#endif
