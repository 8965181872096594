#include "base/endian.h"
#include "base/mem.h"
#include "client/client_state.h"

/* Sparse tables whole, or what has changed of them: rows that nobody has named. */

/* What is wanted of each partition, and what all of them have given. */
struct whole {
	const struct table *t;
	uint32_t first, count;          /* partitions */
	struct scanned want;
	struct buf rows;                /* (id, floats) records */
	uint64_t step, removed;         /* the least, and the highest */
};

static size_t stride_of(const struct whole *x)
{
	return 8 + (x->want.told ? 0 : (size_t)x->t->cols * 4);
}

/* Of one partition, in ascending order, piece by piece. */
struct piece {
	uint32_t part;
	bool asked, last;
	uint64_t after;                 /* the last id that has come */
	struct scanned answer;
};

static enum err_code ask(struct client *c, struct whole *x, struct piece *k, struct err *e)
{
	struct link *l = link_of_pull(c, x->t, k->part, CLIENT_NOW, e);
	struct ask *a;

	if (!l)
		return ERR_NOTREADY;
	k->answer = x->want;
	a = ask_add(c, l, REC_SCAN, x->t, CLIENT_NOW);
	a->part = k->part;
	a->begin = !k->asked;
	a->after = k->after;
	a->scanned = &k->answer;
	k->asked = true;
	if (l->state == LINK_UP)
		link_send_ask(l, a);
	return ERR_OK;
}

static enum err_code take(struct whole *x, struct piece *k, struct err *e)
{
	const struct scanned *s = &k->answer;
	size_t floats = stride_of(x) - 8;
	const uint8_t *ids, *values;
	uint32_t n;

	if (!msg_get_rows(s->body.data, s->body.len, (uint32_t)(floats / 4), &n, &ids, &values))
		return err_set(e, ERR_PROTO, "the server of table \"%s\" partition %u sends rows that do not fit", x->t->name, k->part);
	for (uint32_t i = 0; i < n; i++) {
		buf_append(&x->rows, ids + (size_t)i * 8, 8);
		if (floats)
			buf_append(&x->rows, values + (size_t)i * floats, floats);
		k->after = get_le64(ids + (size_t)i * 8);
	}
	k->last = s->last;
	/* Later answers tell of what is in them, too: the first has been longest on its way. */
	x->step = s->step < x->step ? s->step : x->step;
	x->removed = s->removed > x->removed ? s->removed : x->removed;
	return ERR_OK;
}

/* So many partitions are asked at once. */
#define WAVE 32u

static enum err_code scan_wave(struct client *c, struct whole *x, struct piece *k, uint32_t n, struct err *e)
{
	enum err_code rc = ERR_OK;

	for (uint32_t i = 0; !rc && i < n; i++)
		if (!k[i].last)
			rc = ask(c, x, &k[i], e);
	if (!rc)
		rc = client_wait(c, CLIENT_NOW, e);
	for (uint32_t i = 0; i < n; i++) {
		if (!rc && !k[i].last)
			rc = take(x, &k[i], e);
		buf_release(&k[i].answer.body);
	}
	return rc;
}

static bool is_done(const struct piece *k, uint32_t n)
{
	uint32_t i = 0;

	while (i < n && k[i].last)
		i++;
	return i == n;
}

static int by_first_u64(const void *a, const void *b)
{
	uint64_t x = get_le64(a), y = get_le64(b);

	return (x > y) - (x < y);
}

/* All of the partitions', by id; how many. */
static enum err_code scan_all(struct client *c, struct whole *x, size_t *n, struct err *e)
{
	enum err_code rc = ERR_OK;

	x->step = UINT64_MAX;
	for (uint32_t at = 0; !rc && at < x->count; at += WAVE) {
		uint32_t k = x->count - at < WAVE ? x->count - at : WAVE;
		struct piece piece[WAVE] = { 0 };

		for (uint32_t i = 0; i < k; i++)
			piece[i].part = x->first + at + i;
		while (!rc && !is_done(piece, k))
			rc = scan_wave(c, x, piece, k, e);
	}
	*n = x->rows.len / stride_of(x);
	if (!rc && *n && x->count > 1)
		qsort(x->rows.data, *n, stride_of(x), by_first_u64);
	return rc;
}

static enum err_code give(const struct whole *x, size_t n, client_rows_fn fn, void *ctx, struct err *e)
{
	size_t cols = x->t->cols;
	uint64_t *ids = mem_array(n, sizeof *ids);
	float *rows = mem_array(n * cols, sizeof *rows);
	enum err_code rc;

	for (size_t i = 0; i < n; i++) {
		ids[i] = get_le64(x->rows.data + i * stride_of(x));
		memcpy(rows + i * cols, x->rows.data + i * stride_of(x) + 8, cols * 4);
	}
	rc = n ? fn(ctx, ids, rows, n, e) : ERR_OK;
	free(ids);
	free(rows);
	return rc;
}

enum err_code client_scan(struct client *c, const struct table *t, client_rows_fn fn, void *ctx, struct err *e)
{
	struct whole x = { .t = t, .count = t->nparts };
	size_t n;
	enum err_code rc = scan_all(c, &x, &n, e);

	if (!rc)
		rc = give(&x, n, fn, ctx, e);
	buf_release(&x.rows);
	return rc;
}

/* Who is left, where somebody went. */
static enum err_code scan_live(struct client *c, const struct whole *of, struct client_changes *out, struct err *e)
{
	struct whole x = { .t = of->t, .first = of->first, .count = of->count, .want.told = true };
	enum err_code rc = scan_all(c, &x, &out->nlive, e);

	if (!rc) {
		out->live = mem_array(out->nlive, sizeof *out->live);
		for (size_t i = 0; i < out->nlive; i++)
			out->live[i] = get_le64(x.rows.data + i * 8);
	}
	buf_release(&x.rows);
	return rc;
}

static enum err_code scan_changed(struct client *c, struct whole *x, client_rows_fn fn, void *ctx, struct client_changes *out,
    struct err *e)
{
	uint64_t since = x->want.since;
	enum err_code rc;
	size_t n;

	*out = (struct client_changes){ 0 };
	if (x->want.changed && !policy_dates(&x->t->policy))
		return err_set(e, ERR_CONFIG, "of table \"%s\" it is not known when rows change: its policy must have changes, expire or memory",
		    x->t->name);
	rc = scan_all(c, x, &n, e);
	if (!rc)
		rc = give(x, n, fn, ctx, e);
	out->step = x->step;
	out->gone = since && x->removed > since;
	if (!rc && out->gone)
		rc = scan_live(c, x, out, e);
	buf_release(&x->rows);
	return rc;
}

enum err_code client_scan_changed(struct client *c, const struct table *t, uint64_t since, client_rows_fn fn, void *ctx,
    struct client_changes *out, struct err *e)
{
	struct whole x = { .t = t, .count = t->nparts, .want = { .changed = true, .since = since } };

	return scan_changed(c, &x, fn, ctx, out, e);
}

enum err_code client_scan_parts(struct client *c, const struct table *t, uint32_t first, uint32_t count, uint64_t since,
    client_rows_fn fn, void *ctx, struct client_changes *out, struct err *e)
{
	struct whole x = { .t = t, .first = first, .count = count, .want = { .changed = since != CLIENT_ALL } };

	x.want.since = x.want.changed ? since : 0;
	return scan_changed(c, &x, fn, ctx, out, e);
}
