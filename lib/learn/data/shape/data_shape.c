/* SPDX-License-Identifier: ISC */
#include "data/shape/data_shape.h"

#include <string.h>

static const struct data_shape *const shapes[] = {
#define SHAPE(name) &data_shape_##name,
#include "data/shape/shape.def"
#undef SHAPE
};
#define SHAPES (sizeof shapes / sizeof *shapes)

const struct data_shape *data_shape_of(const struct dataset *d)
{
	return d->shape ? d->shape : d->sparse ? &data_shape_sparse : &data_shape_dense;
}

const struct data_shape *data_shape_named(const char name[static 8])
{
	for (size_t i = 0; i < SHAPES; i++)
		if (strncmp(shapes[i]->name, name, 8) == 0)
			return shapes[i];
	return NULL;
}

enum err_code data_shape_split(struct dataset *d, uint64_t seed, double share,
    struct data_split *split, struct dataset **ranked, struct err *e)
{
	const struct data_shape *shape = data_shape_of(d);

	return shape->split ? shape->split(d, seed, share, split, ranked, e)
	                    : data_split_make(seed, share, (uint32_t)d->rows, split, e);
}

double data_shape_bytes(const struct dataset *d)
{
	const struct data_shape *shape = data_shape_of(d);

	return shape->bytes ? shape->bytes(d, (double)d->rows, (double)shape->values(d)) : 0;
}
