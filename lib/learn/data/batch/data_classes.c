/* SPDX-License-Identifier: ISC */
#include "data/batch/data_classes.h"

#include <math.h>

#include "core/mem.h"
#include "core/rng.h"

/* One draw in this many is uniform. */
#define UNIFORM_EVERY 8

struct data_classes {
	struct row_sampler sampler; /* the first member, so that both have one address */
	const int32_t *label;
	const uint32_t *row;
	size_t examples, classes, draws;
	uint64_t seed;
	/* of each class: the logarithm of the probability that it is drawn for a batch */
	float *offset;
	/* of the last batch, as struct batch_classes; `id` has room for classes that come twice */
	uint64_t *id;
	uint32_t *drawn, *place;
	float *drawn_offset;
	size_t room; /* examples of a batch that there is room for */
};

static int32_t label_of(const struct data_classes *c, size_t i)
{
	return c->label[c->row ? c->row[i] : i];
}

/* Sets c->offset, by the number of examples of each class. */
static void set_offsets(struct data_classes *c)
{
	double uniform = c->examples > 0 ? 1.0 / UNIFORM_EVERY : 1,
	       each = c->examples > 0 ? (1 - uniform) / (double)c->examples : 0;
	uint32_t *count = mem_array(c->classes, sizeof *count);

	for (size_t i = 0; i < c->examples; i++)
		count[label_of(c, i)]++;
	for (size_t k = 0; k < c->classes; k++) {
		double once = uniform / (double)c->classes + each * count[k];

		c->offset[k] = (float)log(-expm1((double)c->draws * log1p(-once)));
	}
	free(count);
}

static enum err_code sample_classes(struct row_sampler *s, struct batch *b, struct err *e)
{
	return data_classes_draw((struct data_classes *)s, b, e);
}

static void free_sampler(struct row_sampler *s)
{
	data_classes_free((struct data_classes *)s);
}

struct data_classes *data_classes_new(const struct dataset *d, const uint32_t *row, size_t n,
    size_t draws, uint64_t seed)
{
	struct data_classes *c = mem_alloc(sizeof *c);

	c->sampler = (struct row_sampler){ sample_classes, free_sampler };
	c->label = d->label;
	c->row = row;
	c->examples = d->label ? n : 0;
	c->classes = d->classes;
	c->draws = draws;
	c->seed = seed;
	c->offset = mem_array(d->classes, sizeof *c->offset);
	c->drawn = mem_array(draws, sizeof *c->drawn);
	c->drawn_offset = mem_array(draws, sizeof *c->drawn_offset);
	set_offsets(c);
	return c;
}

void data_classes_free(struct data_classes *c)
{
	if (!c)
		return;
	free(c->offset);
	free(c->id);
	free(c->drawn);
	free(c->place);
	free(c->drawn_offset);
	free(c);
}

static enum err_code reserve_classes(struct data_classes *c, size_t rows, struct err *e)
{
	if (rows <= c->room && c->id)
		return ERR_OK;
	free(c->id);
	free(c->place);
	c->id = mem_try_array(c->draws + rows, sizeof *c->id);
	c->place = mem_try_array(rows + 1, sizeof *c->place);
	c->room = c->id && c->place ? rows : 0;
	return c->id && c->place
	    ? ERR_OK
	    : err_set(e, ERR_NOMEM, "no memory to draw %zu classes for a batch of %zu examples",
	          c->draws, rows);
}

/* The seed of a batch's draws. */
static uint64_t seed_of(const struct data_classes *c, const struct batch *b)
{
	uint64_t seed = rng_mix(rng_mix(c->seed) ^ b->epoch);

	for (size_t r = 0; r < b->rows; r++)
		seed = rng_mix(seed ^ (uint64_t)b->label[r]);
	return seed;
}

static uint64_t draw_class(const struct data_classes *c, struct rng *r)
{
	if (c->examples == 0 || rng_below(r, UNIFORM_EVERY) == 0)
		return rng_below(r, c->classes);
	return (uint64_t)label_of(c, rng_below(r, c->examples));
}

static int compare_keys(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* The place of a class that is in the list. */
static uint32_t find_place(const uint64_t *id, size_t n, uint64_t class)
{
	size_t low = 0, high = n - 1;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (id[mid] < class)
			low = mid + 1;
		else
			high = mid;
	}
	return (uint32_t)low;
}

/* In the list that is sorted, a class is twice its number, and one more where it is a label: so a
 * drawn class comes before an equal label. */
enum err_code data_classes_draw(struct data_classes *c, struct batch *b, struct err *e)
{
	enum err_code rc = reserve_classes(c, b->rows, e);
	size_t n = 0, ndrawn = 0, all = b->rows ? c->draws + b->rows : 0;
	struct rng r;

	if (rc)
		return rc;
	rng_init(&r, seed_of(c, b));
	for (size_t i = 0; i < all; i++)
		c->id[i] = i < c->draws ? 2 * draw_class(c, &r)
		                        : 2 * (uint64_t)b->label[i - c->draws] + 1;
	qsort(c->id, all, sizeof *c->id, compare_keys);
	for (size_t i = 0; i < all; i++) {
		uint64_t class = c->id[i] / 2;

		if (n > 0 && c->id[n - 1] == class)
			continue;
		if (c->id[i] % 2 == 0) {
			c->drawn[ndrawn] = (uint32_t)n;
			c->drawn_offset[ndrawn++] = c->offset[class];
		}
		c->id[n++] = class;
	}
	for (size_t i = 0; i < b->rows; i++)
		c->place[i] = find_place(c->id, n, (uint64_t)b->label[i]);
	b->classes = (struct batch_classes){ c->id, n, c->drawn, ndrawn, c->drawn_offset,
		c->place };
	return ERR_OK;
}

/* ---- the domain ---- */

static size_t count_classes(const struct dataset *d)
{
	return d->classes;
}

static size_t classes_of_batch(const struct batch *b, const uint64_t **id)
{
	*id = b->classes.id;
	return b->classes.n;
}

static const uint32_t *all_of_slice(const struct batch_slice *s)
{
	(void)s;
	return NULL;
}

static struct row_sampler *new_sampler(const struct dataset *d, const uint32_t *row, size_t n,
    size_t draws, uint64_t seed)
{
	return &data_classes_new(d, row, n, draws, seed)->sampler;
}

/* All examples of a batch are compared with the classes that were drawn for it. */
const struct row_domain row_domain_classes = {
	.rows = count_classes,
	.used = count_classes,
	.of_batch = classes_of_batch,
	.of_slice = all_of_slice,
	.scored = count_classes,
	.sampler_new = new_sampler,
};
