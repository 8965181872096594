/* SPDX-License-Identifier: ISC */
#ifndef CKPT_STORED_H
#define CKPT_STORED_H

/* For the files of ckpt/: the memory of an open checkpoint (read.h). ckpt_open fills it in; it
 * is constant afterwards, so no locks. */

#include "ckpt/read.h"
#include "ckpt/write.h"
#include "format/safetensors.h"
#include "msg/manifest.h"

/* The files and offsets of a partition's tensors. */
struct place {
	/* Indices of files; state_file: NO_FILE without optimizer state. */
	size_t file, state_file;
	uint64_t begin, n; /* begin: index of the partition's first element in a dense table */
	unsigned nvectors;
	struct manifest_state state; /* of the values */
	const struct safetensors_tensor *w, *ids, *seen, *policy_words, *live,
	    *vector[CKPT_VECTORS_MAX];
	/* base is NULL, or the same partition in the base checkpoint when this file has changes
	 * only. Then pick[i] says where row i (of n) is: its number in the base, or CKPT_PICK_OWN
	 * and its number among the nown rows of this file. */
	struct place *base;
	uint64_t *pick, nown;
};
#define NO_FILE SIZE_MAX

struct stored {
	struct ckpt_table t; /* first: a pointer to a ckpt_table is one to a stored */
	struct place *place;
};

struct file {
	const char *name;
	struct safetensors *st; /* NULL: it has no tensors */
	size_t used;            /* number of tensors that belong to a partition */
};

struct ckpt_reader {
	char *path;
	struct manifest *manifest; /* owns all names */
	struct stored *table;
	size_t ntables;
	struct file *file;
	size_t nfiles;
};

static inline const struct place *ckpt_place_of(const struct ckpt_table *t, uint32_t part)
{
	return &((const struct stored *)t)->place[part];
}

#define CKPT_PICK_OWN (UINT64_C(1) << 63)

/* ckpt_merge.c. Merge a sparse partition that has changes only with its base: sets n and pick.
 * ERR_FORMAT, ERR_NOMEM, ERR_IO. */
enum err_code ckpt_merge(const struct ckpt_reader *r, const struct ckpt_table *t, struct place *p,
    struct err *e);
/* Read n rows of a merged partition from `first` on: one word of each, or `width` floats of
 * each, of the values (vector -1) or of a vector (from 0). */
enum words { WORDS_IDS, WORDS_SEEN };
enum err_code ckpt_merged_words(const struct ckpt_reader *r, const struct place *p, enum words what,
    uint64_t first, uint64_t n, uint64_t *out, struct err *e);
enum err_code ckpt_merged_floats(const struct ckpt_reader *r, const struct place *p, int vector,
    uint64_t width, uint64_t first, uint64_t n, float *out, struct err *e);

/* Reads rows from `first` on of the partition's own file, `width` floats of each. ERR_IO,
 * ERR_FORMAT. */
enum err_code ckpt_own_floats(const struct ckpt_reader *r, const struct place *p, int vector,
    uint64_t width, uint64_t first, uint64_t n, float *out, struct err *e);

#endif
