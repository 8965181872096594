/* SPDX-License-Identifier: ISC */
#include "data/batch/data_pairs.h"
#include "data/shape/shape_gather.h"
#include "data/shape/shape_sparse.h"

/* Sparse rows of a user and an item, to which batches add items that are drawn (data_pairs.h).
 * A dataset of ratings gets this shape after it was built. */

static bool gather_pairs(const struct dataset *d, const uint32_t *index, size_t n, struct batch *b)
{
	if (!data_pairs_gather(d, index, n, b))
		return false;
	shape_gather_ids(d, b, b->start[n]);
	return true;
}

static enum err_code split_pairs(struct dataset *d, uint64_t seed, double share,
    struct data_split *split, struct dataset **ranked, struct err *e)
{
	const struct data_pairs_share s = { .seed = seed, .share = share };

	return data_pairs_hold_out(d, &s, split, ranked, e);
}

static void release_pairs(struct dataset *d)
{
	data_pairs_free(d->own);
}

const struct data_shape data_shape_pairs = { .name = "pairs",
	.append = shape_sparse_append,
	.gather = gather_pairs,
	.split = split_pairs,
	.values = shape_sparse_values,
	.bytes = shape_sparse_bytes,
	.row = shape_sparse_row,
	.describe = shape_sparse_describe,
	.release = release_pairs };
