/* SPDX-License-Identifier: ISC */
#ifndef DATA_BATCH_SLICE_H
#define DATA_BATCH_SLICE_H

#include "data/batch/batch.h"

/* Some successive examples of a large sparse batch as a batch of their own, which lists only the
 * features that these examples have. Its parameters are then few, and stay in the processor's
 * cache.
 *
 * A slice of zeroes is empty, and batch_slice_cut may fill it any number of times. b borrows the
 * values, targets and weights of the large batch, so it is valid while that one is. One thread. */
struct batch_slice {
	struct batch b; /* do not release it: use batch_slice_release */
	uint32_t
	    *row; /* b.nids: the place of each feature in the list of the large batch; ascends */
	/* Memory of the slice; set has a bit for each feature of the large batch, and `before`
	 * counts the bits before each word of it. */
	uint64_t *set, *id;
	uint32_t *before, *start, *col;
	size_t words, entries, examples;
};

/* Makes s the examples first .. first+n-1 of the sparse batch b. ERR_NOMEM: s is empty. */
enum err_code batch_slice_cut(struct batch_slice *s, const struct batch *b, size_t first, size_t n,
    struct err *e);
void batch_slice_release(struct batch_slice *s);

#endif
