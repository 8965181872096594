/* SPDX-License-Identifier: ISC */
#ifndef DATA_BATCH_H
#define DATA_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

/* The classes that a step with drawn classes compares (data_classes.h), borrowed from the struct
 * data_classes that drew them. */
struct batch_classes {
	/* n distinct classes in ascending order: the classes of the labels, and the drawn ones */
	const uint64_t *id;
	size_t n;
	const uint32_t *drawn; /* places in id of the ndrawn drawn classes, ascending */
	size_t ndrawn;
	const float *offset; /* ndrawn: the logarithm of the probability that the class is drawn */
	const uint32_t *place; /* of each example, the place of its class in id */
};

/* How models fit a target y: as (y - shift) * factor. */
struct target_scaling {
	double shift, factor; /* factor 0: as y itself */
};

/* The examples of one step: readers of data fill it and models read it. A batch owns its arrays;
 * the functions of data/ that fill it let them grow and reuse them. A batch of zeroes is empty. Not
 * locked: one thread fills and uses it.
 *
 * Dense input: x is (rows, cols) row-major.
 *
 * Sparse input: row r has entries start[r] .. start[r+1]-1; entry k is value val[k] of feature
 * id[col[k]]. id lists the nids distinct features of the batch in ascending order, so that a model
 * sees a compact matrix with one pulled row for each id. field[k], where the data have fields, is
 * the field of entry k, below `fields`.
 *
 * Numbered input: the contents are known only to a program; they are numbers first .. first+rows-1
 * of the data, in pass number `epoch` over them.
 *
 * weight: of each example in the loss, its gradient and the metrics.
 *
 * group: the group of examples that are ranked against each other, such as the examples of a user;
 * 0: none.
 *
 * Targets: y (rows, targets), row-major, for regression and two classes (0 or 1); label for
 * classes. */
struct batch {
	size_t rows, cols; /* examples; features of the data, not of the batch */
	bool sparse;
	float *x;        /* rows * cols */
	uint32_t *start; /* rows + 1 */
	uint32_t *col;   /* start[rows] entries, as val and field; below nids */
	float *val;
	uint16_t *field; /* NULL: the data have no fields */
	size_t fields;
	uint64_t *id; /* nids */
	size_t nids;
	float *weight;   /* rows; NULL: all examples have the weight 1 */
	uint64_t *group; /* rows; NULL: the data have no groups */
	/* rows, of examples by name (dataset.name), borrowed from the dataset; NULL: they have
	 * none */
	const char **name;
	float *y;                     /* rows * targets; NULL: no such targets */
	size_t targets;               /* of each example */
	int32_t *label;               /* rows, from 0; NULL: no such targets */
	struct batch_classes classes; /* n is 0 where no classes were drawn */
	uint64_t first, epoch;
	/* Bytes of each array, as data_gather has allocated it; 0: not known. */
	struct batch_room {
		size_t x, start, col, val, field, id, weight, group, name, y, label;
	} room;
};

/* The weight of example r. */
static inline float batch_weight(const struct batch *b, size_t r)
{
	return b->weight ? b->weight[r] : 1;
}

/* Appends the examples of `more`, which are of the same data: b has the examples of both in this
 * order, and the features of both, but no names. Both have examples. ERR_NOMEM: b is as it was. */
enum err_code batch_append(struct batch *b, const struct batch *more, struct err *e);

/* The examples first .. first+n-1 of a batch, with its features. They borrow the arrays of b. */
struct batch batch_borrow(const struct batch *b, size_t first, size_t n);

/* Counts how many examples of a sparse batch touch each of its features: touching[nids]. An example
 * that has a feature several times counts once. last: memory for nids numbers. */
void batch_count_touching(const struct batch *b, uint32_t *touching, uint32_t *last);

/* Frees the arrays; the batch is empty afterwards. */
void batch_release(struct batch *b);

#endif
