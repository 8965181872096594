/* SPDX-License-Identifier: ISC */
#include "saved/saved_source.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf/conf.h"
#include "core/endian.h"
#include "core/mem.h"
#include "layout/values.h"
#include "saved/saved_kind.h"

/* The first id of each group of rows is kept beside the file: a search touches few of its pages. */
#define GROUP 64u
/* Bytes of dense values, and of a checkpoint's files, that are checked at a time. */
#define CHECK_BYTES (UINT64_C(16) << 20)
/* Partitions of ids that are computed at a time. */
#define IDS_AT_A_TIME 1024u
/* Rows that are given to a caller of each_row at a time, and the bytes of their values, at most. One row may
 * have more. */
#define PIECE_ROWS  16384u
#define PIECE_BYTES ((size_t)4 << 20)

/* Rows of a sparse table that are searched by id: all of them, or those of a partition. */
struct row_set {
	struct saved_extent at;
	struct saved_part own; /* has the rows that `at` points to, where they are not mapped */
	uint32_t *order;       /* numbers of the rows by ascending id; NULL: they lie so */
	uint64_t *first;       /* the id of every GROUP-th row, in this order */
};

struct source_table {
	/* sparse: one set, or one for each partition */
	struct row_set *set;
	size_t nsets;
	/* dense */
	const float *values;
	float *own; /* where the values are not mapped in one piece */
};

struct saved_source {
	struct param_source source; /* must be first */
	struct saved_model *model;
	const struct layout *layout;
	struct source_table *table; /* by the number of the table in the layout */
	json_t *config;             /* owns source.config */
	/* The first value that has not been checked: the table's number and the element. */
	size_t check_table;
	uint64_t check_at;
};

static struct source_table *table_of(struct saved_source *s, const struct table *t)
{
	return &s->table[t - s->layout->table];
}

/* ---- rows ---- */

/* The id of the k-th row by ascending id. */
static uint64_t row_id(const struct row_set *r, uint64_t k)
{
	return get_le64(r->at.ids + 8 * (r->order ? r->order[k] : k));
}

/* Notes the first id of each group of rows in the present order. False: the ids do not ascend. */
static bool note_first_ids(struct row_set *r)
{
	const uint8_t *ids = r->at.ids;
	const uint32_t *order = r->order;
	uint64_t n = r->at.n, last = 0;
	bool ascend = true;

	for (uint64_t at = 0, end; at < n; at = end) {
		end = n - at < GROUP ? n : at + GROUP;
		r->first[at / GROUP] = row_id(r, at);
		for (uint64_t k = at; k < end; k++) {
			uint64_t id = get_le64(ids + 8 * (order ? order[k] : k));

			ascend &= !k || id > last;
			last = id;
		}
	}
	return ascend;
}

static int compare_rows(const void *a, const void *b, void *ids)
{
	const uint32_t *i = a, *k = b;
	uint64_t x = get_le64((const uint8_t *)ids + 8 * (size_t)*i),
	         y = get_le64((const uint8_t *)ids + 8 * (size_t)*k);

	return (x > y) - (x < y);
}

/* Puts rows that lie in any order into the order of their ids. ERR_FORMAT: an id occurs twice. */
static enum err_code order_rows(struct row_set *r, const char *path, const struct table *t,
    struct err *e)
{
	if (r->at.n > UINT32_MAX)
		return err_set(e, ERR_LIMIT, "%s: table \"%s\" has more than %u rows", path,
		    t->name, UINT32_MAX);
	r->order = mem_try_array((size_t)r->at.n, sizeof *r->order);
	if (!r->order)
		return err_set(e, ERR_NOMEM, "no memory for the ids of table \"%s\"", t->name);
	for (uint32_t k = 0; k < r->at.n; k++)
		r->order[k] = k;
	qsort_r(r->order, (size_t)r->at.n, sizeof *r->order, compare_rows,
	    (void *)(uintptr_t)r->at.ids);
	if (note_first_ids(r))
		return ERR_OK;
	for (uint64_t k = 1; k < r->at.n; k++)
		if (row_id(r, k) == row_id(r, k - 1))
			return err_set(e, ERR_FORMAT, "%s: table \"%s\" has row %llu twice", path,
			    t->name, (unsigned long long)row_id(r, k));
	return ERR_OK;
}

/* Reads the rows of a partition into memory. */
static enum err_code read_set(struct saved_source *s, const struct table *t, uint32_t part,
    struct row_set *r, struct err *e)
{
	enum err_code rc = saved_model_read(s->model, t, part, false, &r->own, e);

	r->at = (struct saved_extent){ .n = r->own.n,
		.ids = (const uint8_t *)r->own.ids,
		.w = { .at = (const uint8_t *)r->own.w } };
	return rc;
}

/* Prepares the search in set k of a table, which is a partition if there are several. */
static enum err_code index_set(struct saved_source *s, const struct table *t, uint32_t k,
    struct err *e)
{
	struct row_set *r = &table_of(s, t)->set[k];
	enum err_code rc = r->at.w.at ? ERR_OK : read_set(s, t, k, r, e);

	if (rc)
		return rc;
	r->first = mem_try_array((size_t)(r->at.n / GROUP) + 1, sizeof *r->first);
	if (!r->first)
		return err_set(e, ERR_NOMEM, "no memory for the ids of table \"%s\"", t->name);
	if (note_first_ids(r))
		return ERR_OK;
	/* Reading it says what is wrong. */
	return s->model->ops->rows_ascend ? read_set(s, t, k, r, e)
	                                  : order_rows(r, saved_model_about(s->model).path, t, e);
}

/* Finds the number of a row in r->at.w. False: the row does not exist. */
static bool find_row(const struct row_set *r, uint64_t id, uint64_t *number)
{
	uint64_t lo = 0, hi = (r->at.n + GROUP - 1) / GROUP;

	if (!r->at.n || id < r->first[0])
		return false;
	/* The group is the last one whose first id is not above this one. */
	while (hi - lo > 1) {
		uint64_t mid = lo + (hi - lo) / 2;

		if (r->first[mid] <= id)
			lo = mid;
		else
			hi = mid;
	}
	lo *= GROUP;
	hi = r->at.n - lo < GROUP ? r->at.n : lo + GROUP;
	while (hi - lo > 1) {
		uint64_t mid = lo + (hi - lo) / 2;

		if (row_id(r, mid) <= id)
			lo = mid;
		else
			hi = mid;
	}
	*number = r->order ? r->order[lo] : lo;
	return row_id(r, lo) == id;
}

static enum err_code want_rows(struct param_source *source, const struct table *t,
    const uint64_t *ids, size_t n, bool changed, float *dst, struct err *e)
{
	const struct source_table *x = table_of((struct saved_source *)source, t);
	uint64_t base = init_base(t);
	uint16_t part[IDS_AT_A_TIME] = { 0 };

	(void)changed;
	(void)e;
	for (size_t at = 0, m; at < n; at += m) {
		m = n - at < IDS_AT_A_TIME ? n - at : IDS_AT_A_TIME;
		if (x->nsets > 1)
			table_parts_of(t, ids + at, m, part);
		for (size_t i = 0; i < m; i++, dst += t->cols) {
			const struct row_set *set = &x->set[part[i]];
			uint64_t row;

			if (find_row(set, ids[at + i], &row))
				stored_rows_get(&set->at.w, t->cols, row, 1, dst);
			else
				init_fill_by(t, base, init_row_place(t, ids[at + i]), t->cols, dst);
		}
	}
	return ERR_OK;
}

static enum err_code find_rows(struct param_source *source, const struct table *t,
    const uint64_t *ids, size_t n, bool *there, float *dst, struct err *e)
{
	const struct source_table *x = table_of((struct saved_source *)source, t);
	uint16_t part[IDS_AT_A_TIME] = { 0 };

	(void)e;
	for (size_t at = 0, m; at < n; at += m) {
		m = n - at < IDS_AT_A_TIME ? n - at : IDS_AT_A_TIME;
		if (x->nsets > 1)
			table_parts_of(t, ids + at, m, part);
		for (size_t i = 0; i < m; i++) {
			const struct row_set *set = &x->set[part[i]];
			uint64_t row;

			there[at + i] = find_row(set, ids[at + i], &row);
			if (there[at + i] && dst)
				stored_rows_get(&set->at.w, t->cols, row, 1,
				    dst + (at + i) * t->cols);
		}
	}
	return ERR_OK;
}

/* A piece of rows for a caller of each_row. */
struct rows_piece {
	param_rows_fn *fn;
	void *ctx;
	uint64_t *ids;
	float *rows;
	size_t n, most;
};

static enum err_code give_piece(struct rows_piece *p, struct err *e)
{
	size_t n = p->n;

	p->n = 0;
	return n ? p->fn(p->ctx, p->ids, p->rows, n, e) : ERR_OK;
}

/* Adds the rows of a set to the piece, in the order in which they lie, and gives it away when it is
 * full. */
static enum err_code give_set(struct rows_piece *p, const struct row_set *r, uint32_t cols,
    struct err *e)
{
	enum err_code rc = ERR_OK;

	for (uint64_t at = 0, n; !rc && at < r->at.n; at += n) {
		n = r->at.n - at < p->most - p->n ? r->at.n - at : p->most - p->n;
		for (uint64_t k = 0; k < n; k++)
			p->ids[p->n + k] = get_le64(r->at.ids + 8 * (at + k));
		stored_rows_get(&r->at.w, cols, at, (size_t)n, p->rows + p->n * cols);
		p->n += (size_t)n;
		if (p->n == p->most)
			rc = give_piece(p, e);
	}
	return rc;
}

static enum err_code each_row(struct param_source *source, const struct table *t, param_rows_fn *fn,
    void *ctx, struct err *e)
{
	const struct source_table *x = table_of((struct saved_source *)source, t);
	size_t fit = PIECE_BYTES / (t->cols * sizeof(float)),
	       most = fit < 1  ? 1
	    : fit < PIECE_ROWS ? fit
	                       : PIECE_ROWS;
	struct rows_piece p = { .fn = fn,
		.ctx = ctx,
		.ids = mem_try_array(most, sizeof *p.ids),
		.rows = mem_try_array(most * t->cols, sizeof *p.rows),
		.most = most };
	enum err_code rc = p.ids && p.rows
	    ? ERR_OK
	    : err_set(e, ERR_NOMEM, "no memory for rows of table \"%s\"", t->name);

	for (size_t k = 0; !rc && k < x->nsets; k++)
		rc = give_set(&p, &x->set[k], t->cols, e);
	if (!rc)
		rc = give_piece(&p, e);
	free(p.ids);
	free(p.rows);
	return rc;
}

/* ---- dense tables ---- */

static bool has_floats(const struct saved_extent *x)
{
	return x->w.type == ELEMENT_f32 && !x->w.scale;
}

/* Do the extents lie one after the other, as floats at an address for floats? */
static bool is_one_piece(const struct saved_extent *x, size_t n)
{
	bool together = (uintptr_t)x->w.at % _Alignof(float) == 0 && has_floats(x);

	for (size_t k = 1; together && k < n; k++)
		together = has_floats(&x[k]) &&
		    x[k].w.at == x[k - 1].w.at + x[k - 1].n * sizeof(float);
	return together;
}

static enum err_code place_values(struct source_table *x, const struct table *t,
    const struct saved_extent *extent, size_t n, struct err *e)
{
	float *at;

	if (is_one_piece(extent, n)) {
		x->values = (const float *)(const void *)extent->w.at;
		return ERR_OK;
	}
	x->values = x->own = at = mem_try_array((size_t)table_elements(t), sizeof *at);
	if (!at)
		return err_set(e, ERR_NOMEM, "no memory for table \"%s\"", t->name);
	/* Only rows of bytes must be whole. */
	for (size_t k = 0; k < n; at += extent[k].n, k++) {
		size_t cols = extent[k].w.scale ? t->cols : 1;

		stored_rows_get(&extent[k].w, cols, 0, (size_t)extent[k].n / cols, at);
	}
	return ERR_OK;
}

static enum err_code lend_dense(struct param_source *source, const struct table *t,
    const float **out, struct err *e)
{
	(void)e;
	*out = table_of((struct saved_source *)source, t)->values;
	return ERR_OK;
}

static enum err_code want_dense(struct param_source *source, const struct table *t,
    const float *base, float *dst, struct err *e)
{
	(void)base;
	(void)e;
	memcpy(dst, table_of((struct saved_source *)source, t)->values,
	    (size_t)table_elements(t) * sizeof *dst);
	return ERR_OK;
}

/* Checks the next values of dense tables, `most` of them at most. */
static enum err_code check_values(struct saved_source *s, uint64_t most, struct err *e)
{
	enum err_code rc = ERR_OK;

	while (!rc && most && s->check_table < s->layout->ntables) {
		const struct table *t = &s->layout->table[s->check_table];
		uint64_t left = t->sparse || t->dropped ? 0 : table_elements(t) - s->check_at,
		         n = left < most ? left : most;

		if (n)
			rc = values_check_dense(t->name, t->cols, s->check_at,
			    table_of(s, t)->values + s->check_at, (size_t)n, e);
		most -= n;
		s->check_at += n;
		if (n == left) {
			s->check_table++;
			s->check_at = 0;
		}
	}
	return rc ? err_prefix(e, "the model %.200s is damaged", saved_model_about(s->model).path)
	          : ERR_OK;
}

static enum err_code check_bytes(struct param_source *source, uint64_t most, struct err *e)
{
	struct saved_source *s = (struct saved_source *)source;
	enum err_code rc = saved_model_check(s->model, most, e);

	return rc ? rc : check_values(s, most / sizeof(float), e);
}

static enum err_code check_some(struct param_source *source, struct err *e)
{
	return check_bytes(source, CHECK_BYTES, e);
}

static enum err_code check_rest(struct param_source *source, struct err *e)
{
	return check_bytes(source, UINT64_MAX, e);
}

/* ---- the source ---- */

static const struct layout *get_layout(const struct param_source *source)
{
	return ((const struct saved_source *)source)->layout;
}

/* Reads are complete when they have been asked for. */
static enum err_code await_nothing(struct param_source *source, struct err *e)
{
	(void)source;
	(void)e;
	return ERR_OK;
}

static const struct param_source_ops saved_ops = {
	.layout = get_layout,
	.want_dense = want_dense,
	.want_rows = want_rows,
	.wait = await_nothing,
	.attend = check_some,
	.lend_dense = lend_dense,
	.find_rows = find_rows,
	.each_row = each_row,
	.finish = check_rest,
	.close = saved_source_close,
};

static enum err_code open_sparse(struct saved_source *s, const struct table *t,
    const struct saved_extent *extent, size_t n, struct err *e)
{
	struct source_table *x = table_of(s, t);
	enum err_code rc = ERR_OK;

	x->set = mem_array(n, sizeof *x->set);
	x->nsets = n;
	for (size_t k = 0; k < n; k++)
		x->set[k].at = extent[k];
	for (size_t k = 0; !rc && k < n; k++)
		rc = index_set(s, t, (uint32_t)k, e);
	return rc;
}

static enum err_code open_tables(struct saved_source *s, struct err *e)
{
	enum err_code rc = ERR_OK;

	s->table = mem_array(s->layout->ntables + 1, sizeof *s->table);
	for (size_t i = 0; !rc && i < s->layout->ntables; i++) {
		const struct table *t = &s->layout->table[i];
		struct saved_extent *extent = NULL;
		size_t n;

		if (t->dropped)
			continue;
		rc = s->model->ops->map(s->model, t, &extent, &n, e);
		if (!rc)
			rc = t->sparse ? open_sparse(s, t, extent, n, e)
			               : place_values(table_of(s, t), t, extent, n, e);
		free(extent);
	}
	return rc;
}

/* The configuration is that of a read-only cluster: it names no files that may be gone. */
static enum err_code take_config(struct saved_source *s, const json_t *config, struct err *e)
{
	struct conf conf = { 0 };
	enum err_code rc = conf_from_json(config, &conf, e);

	if (!rc)
		rc = conf_make_read_only(&conf, e);
	if (!rc)
		rc = conf_validate_keys(&conf, e);
	if (!rc)
		s->source.config = s->config = conf_to_json(&conf);
	conf_release(&conf);
	return rc;
}

enum err_code saved_source_open(const char *path, struct param_source **out, struct err *e)
{
	struct saved_source *s = mem_alloc(sizeof *s);
	struct saved_about about;
	enum err_code rc = saved_model_open_unchecked(path, &s->model, e);

	*out = NULL;
	s->source.ops = &saved_ops;
	if (!rc) {
		about = saved_model_about(s->model);
		s->layout = about.layout;
		s->source.facts = about.facts;
		rc = take_config(s, about.config, e);
	}
	if (!rc)
		rc = open_tables(s, e);
	if (!rc)
		rc = check_some(&s->source, e);
	if (rc)
		saved_source_close(&s->source);
	else
		*out = &s->source;
	return rc;
}

struct saved_about saved_source_about(const struct param_source *s)
{
	return saved_model_about(((const struct saved_source *)s)->model);
}

/* The sentence about a file that was cut off. It is made before the signal, whose handler must not
 * format. */
static char cut_text[160];

static void report_cut_file(int sig)
{
	(void)sig;
	if (write(STDERR_FILENO, cut_text, strlen(cut_text)) < 0) {
		/* There is no other way to tell it. */
	}
	_exit(1);
}

void saved_source_report_cuts(void)
{
	snprintf(cut_text, sizeof cut_text,
	    "%.40s: a file of the saved model was cut off while it was in use; replace such a file by "
	    "rename\n",
	    program_invocation_short_name);
	sigaction(SIGBUS, &(struct sigaction){ .sa_handler = report_cut_file }, NULL);
}

static void release_table(struct source_table *x)
{
	for (size_t k = 0; k < x->nsets; k++) {
		saved_part_release(&x->set[k].own);
		free(x->set[k].order);
		free(x->set[k].first);
	}
	free(x->set);
	free(x->own);
}

void saved_source_close(struct param_source *source)
{
	struct saved_source *s = (struct saved_source *)source;

	if (!s)
		return;
	for (size_t i = 0; s->table && i < s->layout->ntables; i++)
		release_table(&s->table[i]);
	free(s->table);
	json_decref(s->config);
	saved_model_close(s->model);
	free(s);
}
