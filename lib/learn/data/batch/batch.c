/* SPDX-License-Identifier: ISC */
#include "data/batch/batch.h"

#include <string.h>

#include "core/mem.h"

/* Safe for a batch of zeroes and for one released before. */
void batch_release(struct batch *b)
{
	free(b->x);
	free(b->start);
	free(b->field);
	free(b->col);
	free(b->val);
	free(b->id);
	free(b->weight);
	free(b->group);
	free((void *)b->name);
	free(b->y);
	free(b->label);
	*b = (struct batch){ 0 };
}

/* A new array of the n elements of a and the m elements of c. NULL: the batches have no such array, or, with
 * *good false, there is no memory. */
static void *join_arrays(const void *a, size_t n, const void *c, size_t m, size_t size, bool *good)
{
	char *p;

	if (!a || !c)
		return NULL;
	p = mem_try_array(n + m + 1, size);
	if (p) {
		memcpy(p, a, n * size);
		memcpy(p + n * size, c, m * size);
	} else {
		*good = false;
	}
	return p;
}

/* Merges two ascending lists of ids into `out`. new_a and new_c tell for each place in the old lists the
 * place in the new one. Returns its length. */
static size_t merge_ids(const uint64_t *a, size_t na, const uint64_t *c, size_t nc, uint64_t *out,
    uint32_t *new_a, uint32_t *new_c)
{
	size_t i = 0, k = 0, n = 0;

	for (; i < na || k < nc; n++) {
		bool from_a = i < na && (k == nc || a[i] <= c[k]);
		bool from_c = k < nc && (i == na || c[k] <= a[i]);

		out[n] = from_a ? a[i] : c[k];
		if (from_a)
			new_a[i++] = (uint32_t)n;
		if (from_c)
			new_c[k++] = (uint32_t)n;
	}
	return n;
}

/* Fills in the sparse arrays of `all`, whose col holds the old places of both batches. */
static enum err_code join_sparse(struct batch *all, const struct batch *b, const struct batch *more,
    struct err *e)
{
	size_t entries = b->start[b->rows];
	uint32_t *place = mem_try_array(b->nids + more->nids + 1, sizeof *place);

	all->start = mem_try_array(all->rows + 1, sizeof *all->start);
	all->id = mem_try_array(b->nids + more->nids + 1, sizeof *all->id);
	if (!place || !all->start || !all->id) {
		free(place);
		return err_set(e, ERR_NOMEM, "no memory for a batch of %zu examples", all->rows);
	}
	memcpy(all->start, b->start, (b->rows + 1) * sizeof *all->start);
	for (size_t r = 1; r <= more->rows; r++)
		all->start[b->rows + r] = (uint32_t)entries + more->start[r];
	all->nids = merge_ids(b->id, b->nids, more->id, more->nids, all->id, place,
	    place + b->nids);
	for (size_t k = 0; k < all->start[all->rows]; k++)
		all->col[k] = place[all->col[k] + (k < entries ? 0 : b->nids)];
	free(place);
	return ERR_OK;
}

enum err_code batch_append(struct batch *b, const struct batch *more, struct err *e)
{
	struct batch all = { .rows = b->rows + more->rows,
		.cols = b->cols,
		.targets = b->targets,
		.sparse = b->sparse,
		.fields = b->fields > more->fields ? b->fields : more->fields,
		.first = b->first,
		.epoch = b->epoch };
	size_t n = b->sparse ? b->start[b->rows] : b->rows * b->cols;
	size_t m = b->sparse ? more->start[more->rows] : more->rows * b->cols;
	bool good = n + m <= UINT32_MAX || !b->sparse;
	enum err_code rc = ERR_OK;

	if (good) {
		all.weight = join_arrays(b->weight, b->rows, more->weight, more->rows,
		    sizeof *b->weight, &good);
		all.group = join_arrays(b->group, b->rows, more->group, more->rows,
		    sizeof *b->group, &good);
		all.y = join_arrays(b->y, b->rows, more->y, more->rows, b->targets * sizeof *b->y,
		    &good);
		all.label = join_arrays(b->label, b->rows, more->label, more->rows,
		    sizeof *b->label, &good);
	}
	if (good && !b->sparse) {
		all.x = join_arrays(b->x, n, more->x, m, sizeof *b->x, &good);
	} else if (good) {
		all.col = join_arrays(b->col, n, more->col, m, sizeof *b->col, &good);
		all.val = join_arrays(b->val, n, more->val, m, sizeof *b->val, &good);
		all.field = join_arrays(b->field, n, more->field, m, sizeof *b->field, &good);
	}
	if (!good)
		rc = err_set(e, ERR_NOMEM,
		    "no memory for a batch of %zu examples; make job.batch smaller", all.rows);
	else if (b->sparse)
		rc = join_sparse(&all, b, more, e);
	if (rc) {
		batch_release(&all);
		return rc;
	}
	batch_release(b);
	*b = all;
	return ERR_OK;
}

struct batch batch_borrow(const struct batch *b, size_t first, size_t n)
{
	struct batch s = *b;

	s.rows = n;
	if (b->sparse)
		s.start = b->start + first;
	else if (b->x)
		s.x = b->x + first * b->cols;
	s.first = b->first + first;
	if (b->weight)
		s.weight = b->weight + first;
	if (b->group)
		s.group = b->group + first;
	if (b->name)
		s.name = b->name + first;
	if (b->y)
		s.y = b->y + first * b->targets;
	if (b->label)
		s.label = b->label + first;
	if (b->classes.place)
		s.classes.place = b->classes.place + first;
	return s;
}

void batch_count_touching(const struct batch *b, uint32_t *touching, uint32_t *last)
{
	memset(touching, 0, b->nids * sizeof *touching);
	memset(last, 0, b->nids * sizeof *last);
	for (uint32_t r = 0; r < b->rows; r++)
		for (uint32_t k = b->start[r]; k < b->start[r + 1]; k++) {
			uint32_t i = b->col[k];

			if (last[i] != r + 1)
				touching[i]++;
			last[i] = r + 1;
		}
}
