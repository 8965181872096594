/* SPDX-License-Identifier: ISC */
#include <stdlib.h>

#include "core/err.h"
#include "data/shape/data_shape.h"
#include "data/shape/shape_gather.h"

static void gather_targets(const struct dataset *d, const uint32_t *index, size_t n,
    struct batch *b)
{
	size_t width = d->targets;

	for (size_t k = 0; k < width; k++) {
		const float *from = d->y + k;
		float *to = b->y + k;

		for (size_t i = 0; i < n; i++, to += width)
			*to = from[index[i] * width];
	}
}

/* Sizes are the caller's job.batch times the width, so running out of memory is an error that names
 * the setting rather than an abort. On an error b keeps its arrays and may be released or filled
 * again. */
enum err_code data_gather(const struct dataset *d, const uint32_t *index, size_t n, struct batch *b,
    struct err *e)
{
	bool good = true, grouped = d->group || d->grouped_by_first;

	b->rows = n;
	b->cols = d->cols;
	b->sparse = d->sparse;
	/* The batch may have had examples of another file, which has weights or groups. */
	if (d->weight) {
		good = SHAPE_GROW(b, weight, n);
	} else {
		free(b->weight);
		b->weight = NULL;
	}
	if (good && grouped) {
		good = SHAPE_GROW(b, group, n);
	} else if (!grouped) {
		free(b->group);
		b->group = NULL;
	}
	if (good && d->name) {
		good = SHAPE_GROW(b, name, n);
	} else if (!d->name) {
		free((void *)b->name);
		b->name = NULL;
	}
	b->targets = d->targets;
	if (good && d->y)
		good = d->targets <= SIZE_MAX / (n + 1) && SHAPE_GROW(b, y, n * d->targets);
	if (d->label)
		good = good && SHAPE_GROW(b, label, n);
	if (good)
		good = data_shape_of(d)->gather(d, index, n, b);
	if (!good)
		return err_set(e, ERR_NOMEM,
		    "no memory for a batch of %zu examples; make job.batch smaller", n);
	for (size_t i = 0; d->weight && i < n; i++)
		b->weight[i] = d->weight[index[i]];
	for (size_t i = 0; d->group && i < n; i++)
		b->group[i] = d->group[index[i]];
	for (size_t i = 0; d->name && i < n; i++)
		b->name[i] = d->name[index[i]];
	/* The feature's number plus 1, because 0 is not a group. */
	for (size_t i = 0; d->grouped_by_first && i < n; i++)
		b->group[i] = b->start[i] < b->start[i + 1] ? b->id[b->col[b->start[i]]] + 1 : 0;
	if (d->y)
		gather_targets(d, index, n, b);
	for (size_t i = 0; d->label && i < n; i++)
		b->label[i] = d->label[index[i]];
	return ERR_OK;
}
