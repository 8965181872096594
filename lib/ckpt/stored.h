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
	const struct safetensors_tensor *width, *rest, *rest_slot[CKPT_SLOTS_MAX];      /* NULL: no row may be narrow */
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

static inline const struct place *ckpt_place_of(const struct ckpt_table *t, uint32_t part)
{
	return &((const struct stored *)t)->place[part];
}

#define PICK_OWN (UINT64_C(1) << 63)

/* ckpt_merge.c: a sparse partition of which only changes lie in its file.  Which rows there are: sets n and pick.
 * ERR_FORMAT, ERR_NOMEM, ERR_IO. */
enum err_code ckpt_merge(const struct ckpt_reader *r, const struct ckpt_table *t, struct place *p, struct err *e);
/* n of them from `first` on: a word of each, or `width` floats, of w or (slot from 0) of a slot. */
enum words { WORDS_IDS, WORDS_SEEN, WORDS_WIDTH };
enum err_code ckpt_merged_words(const struct ckpt_reader *r, const struct place *p, enum words what, uint64_t first, uint64_t n,
                                uint64_t *out, struct err *e);
enum err_code ckpt_merged_floats(const struct ckpt_reader *r, const struct place *p, int slot, uint64_t width, uint64_t first,
                                 uint64_t n, float *out, struct err *e);

/* ckpt_width.c: rows `first` .. of what lies in the partition's file itself, `width` floats of each; those that narrow ones have
 * not are 0.  ERR_FORMAT, ERR_NOMEM, ERR_IO. */
enum err_code ckpt_own_floats(const struct ckpt_reader *r, const struct place *p, int slot, uint64_t width, uint64_t first, uint64_t n,
                              float *out, struct err *e);
/* Has the tensor the shape of a partition of t, or, where rows may be narrow, it and the one with the rest? */
bool ckpt_fits(const struct ckpt_table *t, const struct place *p, const struct safetensors_tensor *x, const struct safetensors_tensor *rest);
/* Columns that it has of each row. */
uint32_t ckpt_first_cols(const struct ckpt_table *t, const struct place *p);

#endif
