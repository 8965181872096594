#ifndef BASE_BATCH_H
#define BASE_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The examples of one step: what readers make and models eat.  A batch owns
 * its arrays, which batch_reserve-like code in data/ grows and re-uses.
 *
 * Dense input: x is (rows, cols) row-major.
 * Sparse input: row r has entries start[r] .. start[r+1]-1; entry k is value
 * val[k] of feature id[col[k]].  id lists the distinct features of the batch
 * in ascending order (nids of them), so a model sees a compact matrix of the
 * rows that it pulled, one for each id.  field[k], where data have fields, is that
 * of entry k, below `fields`.
 * Numbered input: what is in them nobody here knows; they are numbers first ..
 * first+rows-1 of the data, in pass number `epoch` over them.
 * Targets: y for regression and two classes (0 or 1); label for classes. */
struct batch {
	size_t rows, cols;
	bool sparse;
	float *x;
	uint32_t *start;
	uint32_t *col;
	float *val;
	uint16_t *field;
	size_t fields;
	uint64_t *id;
	size_t nids;
	float *y;
	int32_t *label;
	uint64_t first, epoch;
};

void batch_release(struct batch *b);

#endif
