/* SPDX-License-Identifier: ISC */
#include "shard/shard_source.h"

#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/endian.h"
#include "core/mem.h"
#include "sync/sync.h"

struct shard_source {
	struct param_source source; /* must be first */
	struct shard *shard;
	struct layout layout;
	uint16_t *number; /* of each table of the layout in the shard */
	/* For a read of rows: ids in the order of partitions, their places in the order of the
	 * caller, their values. Room for `room` rows and `floats` values. */
	uint8_t *ids;
	uint32_t *place;
	uint16_t *part;
	size_t room;
	float *rows;
	size_t floats;
};

static struct shard_source *source_of(const struct param_source *s)
{
	return (struct shard_source *)(uintptr_t)s;
}

static uint16_t number_of(const struct shard_source *s, const struct table *t)
{
	return s->number[t - s->layout.table];
}

static enum err_code fail_read(const struct table *t, enum shard_answer a, struct err *e)
{
	return err_set(e, ERR_NOTREADY, "the values of table \"%s\" %s", t->name,
	    a == SHARD_WAIT ? "are not here yet" : "are on another server");
}

/* Waits a moment before a read is tried again. False: it has been tried for long enough. */
static bool may_try_again(int64_t begin)
{
	if (clock_now() - begin > SHARD_SOURCE_PATIENCE)
		return false;
	clock_sleep(1);
	return true;
}

static const struct layout *get_layout(const struct param_source *s)
{
	return &source_of(s)->layout;
}

static enum err_code want_dense(struct param_source *source, const struct table *t,
    const float *base, float *dst, struct err *e)
{
	struct shard_source *s = source_of(source);

	(void)base;
	for (uint32_t p = 0; p < t->nparts; p++) {
		uint64_t version;
		enum shard_answer a = shard_pull(s->shard, number_of(s, t), p, SYNC_NEVER,
		    dst + table_part_begin(t, p), &version);

		if (a != SHARD_OK)
			return fail_read(t, a, e);
	}
	return ERR_OK;
}

static enum err_code reserve(struct shard_source *s, const struct table *t, size_t n, struct err *e)
{
	if (n > s->room) {
		free(s->ids);
		free(s->place);
		free(s->part);
		s->room = n + n / 4;
		s->ids = mem_try_array(s->room, 8);
		s->place = mem_try_array(s->room, sizeof *s->place);
		s->part = mem_try_array(s->room, sizeof *s->part);
		if (!s->ids || !s->place || !s->part)
			s->room = 0;
	}
	if (n * t->cols > s->floats) {
		free(s->rows);
		s->floats = n * t->cols + n * t->cols / 4;
		s->rows = mem_try_array(s->floats, sizeof *s->rows);
		if (!s->rows)
			s->floats = 0;
	}
	return n <= s->room && n * t->cols <= s->floats
	    ? ERR_OK
	    : err_set(e, ERR_NOMEM, "no memory for %zu rows of table \"%s\"", n, t->name);
}

/* Sorts the ids by partition, keeping their order, by counting. first: room for nparts + 1 numbers,
 * which become the first place of each partition. */
static void sort_by_part(struct shard_source *s, const struct table *t, const uint64_t *ids,
    size_t n, uint32_t *first)
{
	memset(first, 0, (t->nparts + 1) * sizeof *first);
	table_parts_of(t, ids, n, s->part);
	for (size_t i = 0; i < n; i++)
		first[s->part[i] + 1]++;
	for (uint32_t p = 0; p < t->nparts; p++)
		first[p + 1] += first[p];
	for (size_t i = 0; i < n; i++) {
		uint32_t at = first[s->part[i]]++;

		put_le64(s->ids + 8 * (size_t)at, ids[i]);
		s->place[at] = (uint32_t)i;
	}
	/* Each number is now that of the next partition. */
	memmove(first + 1, first, t->nparts * sizeof *first);
	first[0] = 0;
}

/* there: which rows exist, in the order of s->ids; NULL: not wanted. */
static enum err_code read_part_rows(struct shard_source *s, const struct table *t, uint32_t part,
    uint32_t from, uint32_t to, bool *there, struct err *e)
{
	int64_t begin = clock_now();
	struct row_read x = { .step = SYNC_NEVER,
		.ids = s->ids + 8 * (size_t)from,
		.n = to - from,
		.out = s->rows + (size_t)from * t->cols,
		.there = there ? there + from : NULL };
	enum shard_answer a;

	do
		a = shard_read_rows(s->shard, number_of(s, t), part, &x);
	while (a == SHARD_WAIT && may_try_again(begin));
	return a == SHARD_OK ? ERR_OK : fail_read(t, a, e);
}

/* Reads rows into s->rows, in the order of s->ids. */
static enum err_code read_rows(struct shard_source *s, const struct table *t, const uint64_t *ids,
    size_t n, bool *there, struct err *e)
{
	uint32_t *first = mem_array(t->nparts + 1, sizeof *first);
	enum err_code rc = reserve(s, t, n, e);

	if (!rc)
		sort_by_part(s, t, ids, n, first);
	for (uint32_t p = 0; !rc && p < t->nparts; p++)
		if (first[p + 1] > first[p])
			rc = read_part_rows(s, t, p, first[p], first[p + 1], there, e);
	free(first);
	return rc;
}

static enum err_code want_rows(struct param_source *source, const struct table *t,
    const uint64_t *ids, size_t n, bool changed, float *dst, struct err *e)
{
	struct shard_source *s = source_of(source);
	enum err_code rc = read_rows(s, t, ids, n, NULL, e);

	(void)changed;
	for (size_t i = 0; !rc && i < n; i++)
		memcpy(dst + (size_t)s->place[i] * t->cols, s->rows + i * t->cols,
		    t->cols * sizeof *dst);
	return rc;
}

static enum err_code find_rows(struct param_source *source, const struct table *t,
    const uint64_t *ids, size_t n, bool *out, float *dst, struct err *e)
{
	struct shard_source *s = source_of(source);
	bool *there = mem_array(n + 1, sizeof *there);
	enum err_code rc = read_rows(s, t, ids, n, there, e);

	for (size_t i = 0; !rc && i < n; i++) {
		out[s->place[i]] = there[i];
		if (dst)
			memcpy(dst + (size_t)s->place[i] * t->cols, s->rows + i * t->cols,
			    t->cols * sizeof *dst);
	}
	free(there);
	return rc;
}

/* Room for a piece of a scan of all rows, during which the partition takes no pushes. */
#define PIECE_BYTES ((size_t)16 << 20)

/* Gives all rows of a partition to fn. */
static enum err_code scan_part(struct shard_source *s, const struct table *t, uint32_t part,
    struct scan *x, uint64_t *id, uint32_t room, param_rows_fn *fn, void *ctx, struct err *e)
{
	enum err_code rc = ERR_OK;

	x->begin = true;
	do {
		int64_t begin = clock_now();
		enum shard_answer a;

		x->request++;
		do {
			x->n = room;
			a = shard_scan(s->shard, number_of(s, t), part, x);
		} while (a == SHARD_WAIT && may_try_again(begin));
		if (a != SHARD_OK)
			return fail_read(t, a, e);
		for (uint32_t i = 0; i < x->n; i++)
			id[i] = get_le64(x->ids + 8 * (size_t)i);
		if (x->n)
			rc = fn(ctx, id, x->out, x->n, e);
		x->begin = false;
		x->after = x->n ? id[x->n - 1] : x->after;
	} while (!rc && x->more);
	return rc;
}

static enum err_code each_row(struct param_source *source, const struct table *t, param_rows_fn *fn,
    void *ctx, struct err *e)
{
	struct shard_source *s = source_of(source);
	size_t fit = PIECE_BYTES / (t->cols * sizeof(float));
	uint32_t room = fit ? (uint32_t)fit : 1;
	uint64_t *id = mem_array(room, sizeof *id);
	struct scan_window window = { 0 };
	struct scan x = { .window = &window,
		.ids = mem_array(room, 8),
		.out = mem_try_array((size_t)room * t->cols, sizeof(float)) };
	enum err_code rc = x.out
	    ? ERR_OK
	    : err_set(e, ERR_NOMEM, "no memory for a row of table \"%s\"", t->name);

	for (uint32_t part = 0; !rc && part < t->nparts; part++)
		rc = scan_part(s, t, part, &x, id, room, fn, ctx, e);
	scan_window_release(&window);
	free(id);
	free(x.ids);
	free(x.out);
	return rc;
}

/* Reads are complete when they have been asked for, and there is no cluster to attend to. */
static enum err_code await_nothing(struct param_source *source, struct err *e)
{
	(void)source;
	(void)e;
	return ERR_OK;
}

static void close_source(struct param_source *source)
{
	struct shard_source *s = source_of(source);

	layout_release(&s->layout);
	free(s->number);
	free(s->ids);
	free(s->place);
	free(s->part);
	free(s->rows);
	free(s);
}

static const struct param_source_ops shard_source_ops = {
	.layout = get_layout,
	.want_dense = want_dense,
	.want_rows = want_rows,
	.find_rows = find_rows,
	.wait = await_nothing,
	.attend = await_nothing,
	.each_row = each_row,
	.close = close_source,
};

static const struct table *find_in_shard(struct shard *shard, const char *name)
{
	const struct table *t;

	for (uint16_t i = 0; (t = shard_table(shard, i)); i++)
		if (!t->dropped && strcmp(t->name, name) == 0)
			return t;
	return NULL;
}

/* Are all values of a table here? */
static enum err_code check_values_are_here(struct shard *shard, const struct table *t,
    struct err *e)
{
	for (uint32_t p = 0; p < t->nparts; p++) {
		uint64_t version;
		/* A read of no rows says whether rows may be read. */
		enum shard_answer a = t->sparse
		    ? shard_pull_rows(shard, t->id, p, SYNC_NEVER, NULL, 0, NULL, &version)
		    : shard_may_show(shard, t->id, p, SYNC_NEVER, &version);

		if (a != SHARD_OK)
			return fail_read(t, a, e);
	}
	return ERR_OK;
}

static enum err_code add_table(struct shard_source *s, const struct table *like, struct err *e)
{
	const struct table *t = find_in_shard(s->shard, like->name);
	struct table shape, *added;
	enum err_code rc;

	if (!t)
		return err_set(e, ERR_NOTREADY, "table \"%s\" is not here yet", like->name);
	if (t->sparse != like->sparse || t->cols != like->cols ||
	    (!t->sparse && t->rows != like->rows))
		return err_set(e, ERR_CONFIG, "table \"%s\" has another shape than in the model",
		    like->name);
	rc = check_values_are_here(s->shard, t, e);
	/* A copy that shares nothing. */
	shape = *t;
	shape.run = NULL;
	shape.nruns = 0;
	if (!rc)
		rc = layout_add(&s->layout, &shape, &added, e);
	if (!rc) {
		added->nparts = t->nparts;
		memcpy(added->piece, t->piece, sizeof t->piece);
		added->npieces = t->npieces;
		s->number[added - s->layout.table] = t->id;
	}
	return rc;
}

enum err_code shard_source_open(struct shard *shard, const struct layout *like,
    const json_t *config, const json_t *facts, struct param_source **out, struct err *e)
{
	struct shard_source *s = mem_alloc(sizeof *s);
	enum err_code rc = ERR_OK;

	*out = NULL;
	*s = (struct shard_source){ .source = { &shard_source_ops, config, facts },
		.shard = shard };
	s->number = mem_array(like->ntables + 1, sizeof *s->number);
	for (size_t i = 0; !rc && i < like->ntables; i++)
		if (!like->table[i].dropped)
			rc = add_table(s, &like->table[i], e);
	if (rc)
		close_source(&s->source);
	else
		*out = &s->source;
	return rc;
}
