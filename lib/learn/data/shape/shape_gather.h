/* SPDX-License-Identifier: ISC */
#ifndef SHAPE_GATHER_H
#define SHAPE_GATHER_H

#include "data/batch/batch.h"
#include "data/data.h"

/* Functions that several shapes use to fill batches. */

/* Makes room for n elements of `size` bytes at *p, which has *room bytes; the contents are lost.
 * False: no memory. */
bool shape_grow(void *p, size_t *room, size_t n, size_t size);
/* Makes room for n elements in an array of a batch. */
#define SHAPE_GROW(batch, array, n) \
	shape_grow(&(batch)->array, &(batch)->room.array, n, sizeof(*(batch)->array))

#define SHAPE_AHEAD 4 /* rows of a batch are at random places: prefetch this many ahead */
#define SHAPE_LINE  64
/* bytes of a row; beyond these the processor prefetches by itself */
#define SHAPE_FETCH_MAX 4096

static inline void shape_prefetch(const void *p, size_t n)
{
	for (size_t i = 0; i < n && i < SHAPE_FETCH_MAX; i += SHAPE_LINE)
		__builtin_prefetch((const char *)p + i);
}

/* Makes room for the entries of n sparse rows, at most `most` of them. False: no memory, or too
 * many entries for their 32-bit numbers. */
bool shape_sparse_room(const struct dataset *d, struct batch *b, size_t n, uint64_t most);
/* Lists the distinct features of the batch, whose nnz entries have numbers of the dataset. */
void shape_gather_ids(const struct dataset *d, struct batch *b, size_t nnz);

#endif
