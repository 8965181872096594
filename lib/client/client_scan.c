#include "base/endian.h"
#include "base/mem.h"
#include "client/client_state.h"

/* Sparse tables whole, or what has changed of them: rows that nobody has named. */

/* What is wanted of each partition, and what all of them have given. */
struct whole {
	const struct table *t;
	struct scanned want;
	struct buf rows;                /* (id, floats) records */
	uint64_t step, removed;         /* the least, and the highest */
};

static size_t stride_of(const struct whole *x)
{
	return 8 + (x->want.told ? 0 : (size_t)x->t->cols * 4);
}

static enum err_code ask_once(struct client *c, struct whole *x, uint32_t part, bool begin, uint64_t after, struct scanned *s,
    struct err *e)
{
	struct link *l = link_of_pull(c, x->t, part, CLIENT_NOW, e);
	struct ask *a;

	if (!l)
		return ERR_NOTREADY;
	a = ask_add(c, l, REC_SCAN, x->t, CLIENT_NOW);
	a->part = part;
	a->begin = begin;
	a->after = after;
	a->scanned = s;
	if (l->state == LINK_UP)
		link_send_ask(l, a);
	return client_wait(c, CLIENT_NOW, e);
}

/* What is wanted of one partition, in ascending order. */
static enum err_code scan_part(struct client *c, struct whole *x, uint32_t part, struct err *e)
{
	size_t floats = stride_of(x) - 8;
	uint64_t after = 0;
	bool begin = true, last = false;

	while (!last) {
		struct scanned s = x->want;
		const uint8_t *ids, *values;
		enum err_code rc = ask_once(c, x, part, begin, after, &s, e);
		uint32_t n;

		if (!rc && !msg_get_rows(s.body.data, s.body.len, (uint32_t)(floats / 4), &n, &ids, &values))
			rc = err_set(e, ERR_PROTO, "the server of table \"%s\" partition %u sends rows that do not fit", x->t->name, part);
		for (uint32_t i = 0; !rc && i < n; i++) {
			buf_append(&x->rows, ids + (size_t)i * 8, 8);
			if (floats)
				buf_append(&x->rows, values + (size_t)i * floats, floats);
			after = get_le64(ids + (size_t)i * 8);
		}
		begin = false;
		last = s.last;
		/* Later answers tell of what is in them, too: the first has been longest on its way. */
		x->step = s.step < x->step ? s.step : x->step;
		x->removed = s.removed > x->removed ? s.removed : x->removed;
		buf_release(&s.body);
		if (rc)
			return rc;
	}
	return ERR_OK;
}

static int by_first_u64(const void *a, const void *b)
{
	uint64_t x = get_le64(a), y = get_le64(b);

	return (x > y) - (x < y);
}

/* All partitions', by id; how many. */
static enum err_code scan_all(struct client *c, struct whole *x, size_t *n, struct err *e)
{
	enum err_code rc = ERR_OK;

	x->step = UINT64_MAX;
	for (uint32_t p = 0; !rc && p < x->t->nparts; p++)
		rc = scan_part(c, x, p, e);
	*n = x->rows.len / stride_of(x);
	if (!rc && *n)
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
	struct whole x = { .t = t };
	size_t n;
	enum err_code rc = scan_all(c, &x, &n, e);

	if (!rc)
		rc = give(&x, n, fn, ctx, e);
	buf_release(&x.rows);
	return rc;
}

/* Who is left, where somebody went. */
static enum err_code scan_live(struct client *c, const struct table *t, struct client_changes *out, struct err *e)
{
	struct whole x = { .t = t, .want.told = true };
	enum err_code rc = scan_all(c, &x, &out->nlive, e);

	if (!rc) {
		out->live = mem_array(out->nlive, sizeof *out->live);
		for (size_t i = 0; i < out->nlive; i++)
			out->live[i] = get_le64(x.rows.data + i * 8);
	}
	buf_release(&x.rows);
	return rc;
}

enum err_code client_scan_changed(struct client *c, const struct table *t, uint64_t since, client_rows_fn fn, void *ctx,
    struct client_changes *out, struct err *e)
{
	struct whole x = { .t = t, .want = { .changed = true, .since = since } };
	enum err_code rc;
	size_t n;

	*out = (struct client_changes){ 0 };
	if (!policy_dates(&t->policy))
		return err_set(e, ERR_CONFIG, "of table \"%s\" it is not known when rows change: its policy must have changes, expire or memory", t->name);
	rc = scan_all(c, &x, &n, e);
	if (!rc)
		rc = give(&x, n, fn, ctx, e);
	out->step = x.step;
	out->gone = since && x.removed > since;
	if (!rc && out->gone)
		rc = scan_live(c, t, out, e);
	buf_release(&x.rows);
	return rc;
}
