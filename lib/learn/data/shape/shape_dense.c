/* SPDX-License-Identifier: ISC */
#include <stdio.h>
#include <string.h>

#include "data/shape/data_shape.h"
#include "data/shape/shape_gather.h"
#include "math/clones.h"

/* Rows of `cols` numbers: floats, or bytes with a common scale. */

static enum err_code append_dense(struct data_build *b, const struct dataset *d, struct err *e)
{
	struct dataset *to = b->d;
	size_t n = d->rows * d->cols, at = to->rows * d->cols, size = d->x8 ? 1 : sizeof *d->x,
	       room;
	void **x = d->x8 ? (void **)&to->x8 : (void **)&to->x;

	to->cols = d->cols;
	to->scale = d->scale;
	room = at + n < b->expected_values ? b->expected_values : at + n + (at + n) / 2;
	if (at + n > b->room) {
		if (!data_build_resize(x, room, size) && !data_build_resize(x, room = at + n, size))
			return err_set(e, ERR_NOMEM, "no memory for the examples of %s", b->first);
		b->room = room;
	}
	memcpy((char *)*x + at * size, d->x8 ? (const void *)d->x8 : d->x, n * size);
	return ERR_OK;
}

/* Blocks of fixed length become vector code at -O2. Each value is one product, the same on every
 * processor. */
KERN_CLONES static void scale_bytes(const uint8_t *restrict in, float *restrict out, size_t n,
    float scale)
{
	size_t i = 0;

	for (; i + 16 <= n; i += 16)
		for (size_t k = 0; k < 16; k++)
			out[i + k] = (float)in[i + k] * scale;
	for (; i < n; i++)
		out[i] = (float)in[i] * scale;
}

/* Rows are at random places, so the one that is SHAPE_AHEAD examples later is prefetched while
 * this one is copied. */
static bool gather_dense(const struct dataset *d, const uint32_t *index, size_t n, struct batch *b)
{
	size_t size = d->x8 ? 1 : sizeof(*d->x);
	const char *rows = d->x8 ? (const char *)d->x8 : (const char *)d->x;

	if (d->cols > SIZE_MAX / (n + 1) || !SHAPE_GROW(b, x, n * d->cols))
		return false;
	for (size_t i = 0; i < n; i++) {
		if (i + SHAPE_AHEAD < n)
			shape_prefetch(rows + index[i + SHAPE_AHEAD] * d->cols * size,
			    d->cols * size);
		if (d->x8)
			scale_bytes(d->x8 + index[i] * d->cols, b->x + i * d->cols, d->cols,
			    d->scale);
		else
			memcpy(b->x + i * d->cols, d->x + index[i] * d->cols,
			    d->cols * sizeof(*b->x));
	}
	return true;
}

static void store_dense(const struct dataset *d, struct shape_stored *out)
{
	uint32_t scale;

	memcpy(&scale, &d->scale, 4);
	out->number[0] = scale;
	out->array[0] = (struct shape_array){ .at = d->x8 ? (void *)d->x8 : d->x,
		.n = (uint64_t)d->rows * d->cols,
		.size = d->x8 ? sizeof *d->x8 : sizeof *d->x };
}

static bool load_dense(struct dataset *d, const struct shape_stored *s)
{
	const struct shape_array *x = &s->array[0];
	uint32_t scale = (uint32_t)s->number[0];
	uint64_t values;

	memcpy(&d->scale, &scale, 4);
	if (x->size == sizeof *d->x8)
		d->x8 = x->at;
	else
		d->x = x->at;
	return (d->x8 || x->size == sizeof *d->x) &&
	    !__builtin_mul_overflow((uint64_t)d->rows, d->cols, &values) && values == x->n;
}

static uint64_t count_dense(const struct dataset *d)
{
	return (uint64_t)d->rows * d->cols;
}

static double bytes_of_dense(const struct dataset *d, double rows, double values)
{
	return values * (d->x8 ? 1 : 4) + rows * 4;
}

static float *row_of_dense(const struct dataset *d, size_t r, size_t *n)
{
	*n = d->cols;
	return d->x8 ? NULL : d->x + r * d->cols;
}

static void describe_dense(const struct dataset *d, char *out, size_t n)
{
	(void)d;
	snprintf(out, n, "dense");
}

const struct data_shape data_shape_dense = { .name = "dense",
	.append = append_dense,
	.gather = gather_dense,
	.store = store_dense,
	.load = load_dense,
	.values = count_dense,
	.bytes = bytes_of_dense,
	.row = row_of_dense,
	.describe = describe_dense };
