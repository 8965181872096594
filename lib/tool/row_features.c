/* SPDX-License-Identifier: ISC */
#include "tool/row_features.h"

#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "data/data_kinds.h"
#include "data/reader/data_features.h"

/* The row of a feature: it begins at rows + at. */
struct place {
	uint64_t id;
	size_t at;
};

struct row_features {
	struct data_features *of[DATA_KINDS];
	size_t cols;
	struct place *place; /* ascending ids, once all are there */
	size_t n, room;
	float *rows;
	size_t floats;
};

static int compare_places(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

static void add_row(struct row_features *f, uint64_t id, const float *row)
{
	size_t at = f->n * f->cols;

	f->place = mem_grow(f->place, &f->room, f->n + 1, sizeof *f->place);
	f->rows = mem_grow(f->rows, &f->floats, at + f->cols, sizeof *f->rows);
	f->place[f->n++] = (struct place){ id, at };
	memcpy(f->rows + at, row, f->cols * sizeof *row);
}

static enum err_code take_rows(void *ctx, const uint64_t *ids, const float *rows, size_t n,
    struct err *e)
{
	struct row_features *f = ctx;

	(void)e;
	for (size_t i = 0; i < n; i++)
		if (row_features_have(f, ids[i]))
			add_row(f, ids[i], rows + i * f->cols);
	return ERR_OK;
}

enum err_code row_features_read(const struct dataset *d, struct param_source *s,
    const struct table *t, struct row_features **out, struct err *e)
{
	const struct data_options *o = d ? d->options : NULL;
	const char *path[DATA_KINDS] = { o ? o->user_features : NULL, o ? o->item_features : NULL };
	struct row_features *f;
	enum err_code rc = ERR_OK;

	*out = NULL;
	if (!path[DATA_KIND_USER] && !path[DATA_KIND_ITEM])
		return ERR_OK;
	f = mem_alloc(sizeof *f);
	f->cols = t->cols;
	for (size_t k = 0; !rc && k < DATA_KINDS; k++)
		if (path[k])
			rc = data_features_read(path[k],
			         k == DATA_KIND_USER ? DATA_FEATURES_USERS : DATA_FEATURES_ITEMS,
			         &f->of[k], e)
			    ? err_prefix(e, k == DATA_KIND_USER ? "user_features" : "item_features")
			    : ERR_OK;
	if (!rc)
		rc = s->ops->each_row(s, t, take_rows, f, e);
	if (rc) {
		row_features_free(f);
		return rc;
	}
	if (f->n)
		qsort(f->place, f->n, sizeof *f->place, compare_places);
	*out = f;
	return ERR_OK;
}

void row_features_free(struct row_features *f)
{
	if (!f)
		return;
	for (size_t k = 0; k < DATA_KINDS; k++)
		data_features_free(f->of[k]);
	free(f->place);
	free(f->rows);
	free(f);
}

bool row_features_have_changed(const struct row_features *f)
{
	for (size_t k = 0; f && k < DATA_KINDS; k++)
		if (f->of[k] && data_features_has_changed(f->of[k]))
			return true;
	return false;
}

bool row_features_have(const struct row_features *f, uint64_t id)
{
	return f && data_features_is_number(id / DATA_KINDS);
}

void row_features_add(const struct row_features *f, uint64_t id, float *row)
{
	size_t kind = id % DATA_KINDS, n;
	const uint64_t *feature;

	if (!f || !f->of[kind])
		return;
	feature = data_features_of(f->of[kind], id / DATA_KINDS, &n);
	for (size_t i = 0; i < n; i++) {
		const struct place want = { .id = DATA_KINDS * feature[i] + kind },
		                   *found = f->n
		    ? bsearch(&want, f->place, f->n, sizeof want, compare_places)
		    : NULL;

		for (size_t c = 0; found && c < f->cols; c++)
			row[c] += f->rows[found->at + c];
	}
}
