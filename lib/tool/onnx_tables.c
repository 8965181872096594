/* SPDX-License-Identifier: ISC */
#include "tool/onnx_tables.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "layout/values.h"

/* Rows that are read at a time, and the bytes of their values, at most. */
#define PIECE_ROWS  16384u
#define PIECE_BYTES ((size_t)4 << 20)
/* A table may have this many times as many ids as rows before it becomes a list. */
#define SPARSE_TIMES 2
/* Small tables are never a list. */
#define SMALL_ROWS 4096u

struct rows_table {
	const struct table *t;
	/* Sparse: the ids of its rows, ascending, and how many there are. */
	uint64_t *id;
	size_t n, room;
	/* The table has the rows 0 .. rows-1, and not those of a list. */
	bool whole;
	uint64_t rows;
};

struct onnx_tables {
	struct params *p;
	struct rows_table *table; /* by the model's table */
	struct graph_table *of_graph;
};

/* ---- the ids ---- */

static enum err_code take_ids(void *ctx, const uint64_t *ids, const float *rows, size_t n,
    struct err *e)
{
	struct rows_table *x = ctx;

	(void)rows;
	if (x->n + n > x->room) {
		size_t room = (x->n + n) + x->room / 2;
		uint64_t *id = realloc(x->id, room * sizeof *id);

		if (!id)
			return err_set(e, ERR_NOMEM, "no memory for the ids of table \"%s\"",
			    x->t->name);
		x->id = id;
		x->room = room;
	}
	memcpy(x->id + x->n, ids, n * sizeof *ids);
	x->n += n;
	return ERR_OK;
}

static int compare_ids(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Reads the ids of a sparse table, and decides how the graph finds its rows. */
static enum err_code read_ids(struct onnx_tables *x, struct rows_table *r, struct err *e)
{
	struct param_source *s = x->p->source;
	enum err_code rc = s->ops->each_row(s, r->t, take_ids, r, e);
	uint64_t most;

	if (rc)
		return rc;
	if (r->n)
		qsort(r->id, r->n, sizeof *r->id, compare_ids);
	most = r->n ? r->id[r->n - 1] : 0;
	if (most > INT64_MAX - 1)
		return err_set(e, ERR_LIMIT,
		    "table \"%s\" has row %" PRIu64 ", but ids in ONNX are at most %" PRId64,
		    r->t->name, most, INT64_MAX - 1);
	r->whole = most < SMALL_ROWS || most / SPARSE_TIMES < r->n;
	r->rows = r->whole ? most + 1 : r->n;
	return ERR_OK;
}

/* ---- the values ---- */

/* Are ids 0 .. rows-1 wanted, or those of the list? */
static uint64_t id_at(const struct rows_table *r, uint64_t k)
{
	return r->whole ? k : r->id[k];
}

/* The row of all ids that the table does not have. */
static enum err_code put_other_row(const struct rows_table *r, struct onnx_out *out, struct err *e)
{
	float *row = mem_array(r->t->cols, sizeof *row);
	enum err_code rc;

	if (r->t->init == TABLE_CONSTANT)
		init_fill(r->t, 0, r->t->cols, row);
	rc = onnx_put(out, row, r->t->cols * sizeof *row, e);
	free(row);
	return rc;
}

static enum err_code put_rows(const struct onnx_tables *x, const struct rows_table *r,
    struct onnx_out *out, struct err *e)
{
	struct param_source *s = x->p->source;
	size_t cols = r->t->cols, fit = PIECE_BYTES / (cols * sizeof(float)),
	       most = fit < 1  ? 1
	    : fit < PIECE_ROWS ? fit
	                       : PIECE_ROWS;
	uint64_t *id = mem_array(most, sizeof *id);
	float *w = mem_array(most * cols, sizeof *w);
	enum err_code rc = ERR_OK;

	for (uint64_t at = 0, n; !rc && at < r->rows; at += n) {
		n = r->rows - at < most ? r->rows - at : most;
		for (uint64_t k = 0; k < n; k++)
			id[k] = id_at(r, at + k);
		rc = s->ops->want_rows(s, r->t, id, n, false, w, e);
		if (!rc)
			rc = s->ops->wait(s, e);
		if (!rc)
			rc = values_check_rows(r->t->name, r->t->cols, id, w, n, e);
		if (rc)
			break;
		init_clear_untrained(r->t, id, n, w);
		rc = onnx_put(out, w, n * cols * sizeof *w, e);
		if (!rc)
			rc = s->ops->attend(s, e);
	}
	free(id);
	free(w);
	return rc ? rc : put_other_row(r, out, e);
}

static enum err_code put_dense(const struct onnx_tables *x, size_t number, struct onnx_out *out,
    struct err *e)
{
	struct param_source *s = x->p->source;
	const struct table *t = x->table[number].t;
	size_t n = x->p->job->table[number].rows * t->cols, piece = PIECE_BYTES / sizeof(float);
	const float *w = x->p->w[number];
	enum err_code rc = ERR_OK;

	if (!param_source_is_constant(s)) {
		rc = s->ops->want_dense(s, t, NULL, x->p->w[number], e);
		if (!rc)
			rc = s->ops->wait(s, e);
	}
	for (size_t at = 0, k; !rc && at < n; at += k) {
		k = n - at < piece ? n - at : piece;
		rc = values_check_dense(t->name, t->cols, at, w + at, k, e);
		if (!rc)
			rc = onnx_put(out, w + at, k * sizeof *w, e);
	}
	return rc;
}

static enum err_code put_values(void *ctx, size_t number, struct onnx_out *out, struct err *e)
{
	const struct onnx_tables *x = ctx;

	return x->p->job->table[number].sparse ? put_rows(x, &x->table[number], out, e)
	                                       : put_dense(x, number, out, e);
}

static enum err_code put_ids(void *ctx, size_t number, struct onnx_out *out, struct err *e)
{
	const struct onnx_tables *x = ctx;
	const struct rows_table *r = &x->table[number];

	return onnx_put(out, r->id, r->n * sizeof *r->id, e);
}

/* ---- the graph ---- */

static const char *scalar(struct onnx *g, int64_t v)
{
	return onnx_ints(g, &v, 0, NULL);
}

/* The place of each id among rows 0 .. rows-1. */
static const char *place_in_whole(struct onnx *g, const struct rows_table *r, const char *id)
{
	const char *rows = scalar(g, (int64_t)r->rows),
	           *has = onnx_op(g, "And", onnx_op(g, "GreaterOrEqual", id, scalar(g, 0), NULL),
	               onnx_op(g, "Less", id, rows, NULL), NULL);

	return onnx_op(g, "Where", has, id, rows, NULL);
}

/* The place of each id in the list, by a binary search that is unrolled: the row is among `left` rows
 * from `place` on, of which the search takes the second half if it does not begin above the id. */
static const char *place_in_list(struct onnx *g, const struct rows_table *r, const char *list,
    const char *id)
{
	const char *place = onnx_op(g, "Mul", id, scalar(g, 0), NULL), *found;

	for (uint64_t left = r->n; left > 1; left -= left / 2) {
		const char *middle = onnx_op(g, "Add", place, scalar(g, (int64_t)(left / 2)), NULL);

		found = onnx_op(g, "LessOrEqual", onnx_op(g, "Gather", list, middle, NULL), id,
		    NULL);
		place = onnx_op(g, "Where", found, middle, place, NULL);
	}
	found = onnx_op(g, "Equal", onnx_op(g, "Gather", list, place, NULL), id, NULL);
	return onnx_op(g, "Where", found, place, scalar(g, (int64_t)r->n), NULL);
}

/* Has an earlier table the same rows? Then its places are those of this one. */
static const char *find_place(const struct onnx_tables *x, size_t i)
{
	const struct rows_table *r = &x->table[i];

	for (size_t k = 0; k < i; k++) {
		const struct rows_table *b = &x->table[k];

		if (x->of_graph[k].place && b->whole == r->whole && b->rows == r->rows &&
		    (r->whole || memcmp(b->id, r->id, r->n * sizeof *r->id) == 0))
			return x->of_graph[k].place;
	}
	return NULL;
}

static void add_sparse(struct onnx_tables *x, size_t i, const struct graph *g)
{
	const struct rows_table *r = &x->table[i];
	int64_t dims[] = { (int64_t)r->rows + 1, r->t->cols }, n = (int64_t)r->n;
	struct graph_table *out = &x->of_graph[i];
	char *name = mem_printf("table.%s.ids", r->t->name);

	out->place = find_place(x, i);
	if (!out->place && r->whole)
		out->place = place_in_whole(g->onnx, r, g->id);
	else if (!out->place)
		out->place = place_in_list(g->onnx, r,
		    onnx_tensor(g->onnx, name, ONNX_INT64, 1, &n, put_ids, x, i), g->id);
	free(name);
	name = mem_printf("table.%s", r->t->name);
	out->values = onnx_tensor(g->onnx, name, ONNX_FLOAT, 2, dims, put_values, x, i);
	free(name);
}

static void add_dense(struct onnx_tables *x, size_t i, const struct graph *g)
{
	const struct model_table *m = &x->p->job->table[i];
	int64_t dims[] = { (int64_t)m->rows, (int64_t)m->cols };
	char *name = mem_printf("table.%s", m->name);

	x->of_graph[i].values = onnx_tensor(g->onnx, name, ONNX_FLOAT, 2, dims, put_values, x, i);
	free(name);
}

enum err_code onnx_tables_add(struct params *p, struct graph *g, struct onnx_tables **out,
    struct err *e)
{
	size_t n = p->job->ntables;
	struct onnx_tables *x = mem_alloc(sizeof *x);
	enum err_code rc = ERR_OK;

	*out = x;
	x->p = p;
	x->table = mem_array(n + 1, sizeof *x->table);
	x->of_graph = mem_array(n + 1, sizeof *x->of_graph);
	g->table = x->of_graph;
	for (size_t i = 0; !rc && i < n; i++) {
		x->table[i].t = p->table[i];
		if (!p->job->table[i].sparse) {
			add_dense(x, i, g);
			continue;
		}
		rc = read_ids(x, &x->table[i], e);
		if (!rc)
			add_sparse(x, i, g);
	}
	return rc;
}

void onnx_tables_free(struct onnx_tables *x)
{
	if (!x)
		return;
	for (size_t i = 0; i < x->p->job->ntables; i++)
		free(x->table[i].id);
	free(x->table);
	free(x->of_graph);
	free(x);
}
