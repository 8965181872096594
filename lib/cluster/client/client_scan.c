/* SPDX-License-Identifier: ISC */
#include "core/endian.h"
#include "client/client_state.h"
#include "core/mem.h"

/* Scans of sparse tables: all rows, all that have changed, or the ids that were removed, without
 * naming ids. */

/* A scan of some partitions of a table: the request to each of them, and the rows of all
 * answers. */
struct table_scan {
	const struct table *t;
	uint32_t first, count; /* `first` and `count` are partitions */
	struct scan_filter filter;
	struct buf rows;        /* records of an id and the row's floats */
	uint64_t step, removed; /* step: the lowest of all answers; removed: the highest */
	bool unknown;           /* some server has not answered the question for removed ids */
};

/* Bytes of a record in x->rows. */
static size_t scan_stride(const struct table_scan *x)
{
	return 8 + (x->filter.ids_only ? 0 : (size_t)x->t->cols * 4);
}

/* One partition's scan: it answers in ascending order of ids, one record at a time. */
struct partition_scan {
	uint32_t part;
	bool asked, last;
	uint64_t after; /* the highest id of all answers */
	struct scan_answer answer;
};

static void send_scan(struct request *r)
{
	struct record head = client_record_head(r->client, REC_SCAN, r->step);

	head.seq = r->seq;
	head.table = r->table->id;
	head.part = r->part;
	head.total = r->scan.begin ? 0 : 1;
	head.offset = r->scan.after;
	head.step = r->scan.filter.since;
	head.flags |= (r->scan.filter.changed_only ? RECORD_DELTA : 0) |
	    (r->scan.filter.ids_only ? RECORD_NO_VALUES : 0);
	batcher_add(&r->link->batcher, r->link->conn, &head, NULL);
}

static enum err_code scan_answered(struct request *r, const struct answer *a, struct err *e)
{
	struct scan_answer *s = r->scan.answer;

	if (a->head->type != REC_SCANNED)
		return err_set(e, ERR_PROTO, "%s answered a different request", r->link->id);
	buf_append(&s->body, a->payload, a->head->len);
	s->last = a->head->flags & RECORD_LAST;
	s->knows = a->head->flags & RECORD_NO_VALUES;
	s->step = a->head->step;
	s->removed = a->head->offset;
	*client_version_at(r->client, r->table, r->part) = a->head->total;
	return ERR_OK;
}

static const struct request_ops scan_ops = { .class = REQUEST_PULL,
	.server = table_tail,
	.send = send_scan,
	.answered = scan_answered };

static enum err_code ask_next_rows(struct client *c, struct table_scan *x, struct partition_scan *k,
    struct err *e)
{
	struct request *r = request_new(c, &scan_ops, x->t, k->part, CLIENT_NOW);

	k->answer = (struct scan_answer){ 0 };
	r->scan = (struct scan_request){ .filter = x->filter,
		.after = k->after,
		.begin = !k->asked,
		.answer = &k->answer };
	k->asked = true;
	if (!request_submit(r, e))
		return ERR_OK;
	request_free(r);
	return ERR_NOTREADY;
}

static enum err_code take_scanned_rows(struct table_scan *x, struct partition_scan *k,
    struct err *e)
{
	const struct scan_answer *s = &k->answer;
	size_t floats = scan_stride(x) - 8;
	const uint8_t *ids, *values;
	uint32_t n;

	if (!payload_get_rows(s->body.data, s->body.len, (uint32_t)(floats / 4), &n, &ids, &values))
		return err_set(e, ERR_PROTO,
		    "the server of table \"%s\" partition %u sends invalid rows", x->t->name,
		    k->part);
	for (uint32_t i = 0; i < n; i++) {
		buf_append(&x->rows, ids + (size_t)i * 8, 8);
		if (floats)
			buf_append(&x->rows, values + (size_t)i * floats, floats);
		k->after = get_le64(ids + (size_t)i * 8);
	}
	k->last = s->last;
	/* Each answer's step and removed hold for its own rows. The lowest step and the
	 * highest removed hold for all of them. */
	x->unknown |= !s->knows;
	x->step = s->step < x->step ? s->step : x->step;
	x->removed = s->removed > x->removed ? s->removed : x->removed;
	return ERR_OK;
}

/* How many partitions are asked at the same time. */
#define WAVE 32u

/* Ask each partition that is not complete for its next rows, and take the answers. */
static enum err_code scan_wave(struct client *c, struct table_scan *x, struct partition_scan *k,
    uint32_t n, struct err *e)
{
	enum err_code rc = ERR_OK;

	for (uint32_t i = 0; !rc && i < n; i++)
		if (!k[i].last)
			rc = ask_next_rows(c, x, &k[i], e);
	if (!rc)
		rc = client_wait(c, CLIENT_NOW, e);
	else
		request_free_class(c, REQUEST_PULL); /* their answers would be written to k */
	for (uint32_t i = 0; i < n; i++) {
		if (!rc && !k[i].last)
			rc = take_scanned_rows(x, &k[i], e);
		buf_release(&k[i].answer.body);
	}
	return rc;
}

static bool are_scans_done(const struct partition_scan *k, uint32_t n)
{
	uint32_t i = 0;

	while (i < n && k[i].last)
		i++;
	return i == n;
}

static int compare_row_ids(const void *a, const void *b)
{
	uint64_t x = get_le64(a), y = get_le64(b);

	return (x > y) - (x < y);
}

/* Scan all partitions into x->rows, sorted by id. *n: how many rows. */
static enum err_code scan_partitions(struct client *c, struct table_scan *x, size_t *n,
    struct err *e)
{
	enum err_code rc = ERR_OK;

	x->step = UINT64_MAX;
	for (uint32_t at = 0; !rc && at < x->count; at += WAVE) {
		uint32_t k = x->count - at < WAVE ? x->count - at : WAVE;
		struct partition_scan wave[WAVE] = { 0 };

		for (uint32_t i = 0; i < k; i++)
			wave[i].part = x->first + at + i;
		while (!rc && !are_scans_done(wave, k))
			rc = scan_wave(c, x, wave, k, e);
	}
	*n = x->rows.len / scan_stride(x);
	if (!rc && *n && x->count > 1)
		qsort(x->rows.data, *n, scan_stride(x), compare_row_ids);
	return rc;
}

/* Call fn with the rows of the scan, if there are any. */
static enum err_code deliver_rows(const struct table_scan *x, size_t n, client_rows_fn fn,
    void *ctx, struct err *e)
{
	size_t cols = x->t->cols;
	uint64_t *ids = mem_array(n, sizeof *ids);
	float *rows = mem_array(n * cols, sizeof *rows);
	enum err_code rc;

	for (size_t i = 0; i < n; i++) {
		ids[i] = get_le64(x->rows.data + i * scan_stride(x));
		memcpy(rows + i * cols, x->rows.data + i * scan_stride(x) + 8, cols * 4);
	}
	rc = n ? fn(ctx, ids, rows, n, e) : ERR_OK;
	free(ids);
	free(rows);
	return rc;
}

enum err_code client_scan(struct client *c, const struct table *t, client_rows_fn fn, void *ctx,
    struct err *e)
{
	struct table_scan x = { .t = t, .count = t->nparts };
	size_t n;
	enum err_code rc = scan_partitions(c, &x, &n, e);

	client_assert_owner(c);
	if (!rc)
		rc = deliver_rows(&x, n, fn, ctx, e);
	buf_release(&x.rows);
	return rc;
}

/* Does a scan of ids only, which become *ids, *n of them, to be freed by the caller. */
static enum err_code scan_ids(struct client *c, struct table_scan *x, uint64_t **ids, size_t *n,
    struct err *e)
{
	enum err_code rc = scan_partitions(c, x, n, e);

	*ids = rc ? NULL : mem_array(*n + 1, sizeof **ids);
	for (size_t i = 0; !rc && i < *n; i++)
		(*ids)[i] = get_le64(x->rows.data + i * 8);
	buf_release(&x->rows);
	return rc;
}

enum err_code client_scan_live(struct client *c, const struct table *t, uint32_t first,
    uint32_t count, uint64_t **ids, size_t *n, struct err *e)
{
	struct table_scan x = { .t = t, .first = first, .count = count, .filter.ids_only = true };

	client_assert_owner(c);
	return scan_ids(c, &x, ids, n, e);
}

enum err_code client_scan_removed(struct client *c, const struct table *t, uint32_t first,
    uint32_t count, uint64_t since, uint64_t **ids, size_t *n, bool *known, struct err *e)
{
	struct table_scan x = { .t = t,
		.first = first,
		.count = count,
		.filter = { .changed_only = true, .ids_only = true, .since = since } };
	enum err_code rc;

	client_assert_owner(c);
	rc = scan_ids(c, &x, ids, n, e);
	*known = !rc && !x.unknown;
	return rc;
}

static enum err_code scan_changed_rows(struct client *c, struct table_scan *x, client_rows_fn fn,
    void *ctx, struct client_changes *out, struct err *e)
{
	uint64_t since = x->filter.since;
	enum err_code rc;
	size_t n;

	*out = (struct client_changes){ 0 };
	if (x->filter.changed_only && !row_policy_dates(&x->t->policy))
		return err_set(e, ERR_CONFIG,
		    "table \"%s\" does not record the changes of its rows: its policy must have "
		    "changes, expire or memory",
		    x->t->name);
	rc = scan_partitions(c, x, &n, e);
	if (!rc)
		rc = deliver_rows(x, n, fn, ctx, e);
	out->step = x->step;
	out->gone = since && x->removed > since;
	buf_release(&x->rows);
	return rc;
}

enum err_code client_scan_changed(struct client *c, const struct table *t, uint64_t since,
    client_rows_fn fn, void *ctx, struct client_changes *out, struct err *e)
{
	struct table_scan x = { .t = t,
		.count = t->nparts,
		.filter = { .changed_only = true, .since = since } };
	enum err_code rc;

	client_assert_owner(c);
	rc = scan_changed_rows(c, &x, fn, ctx, out, e);
	if (!rc && out->gone)
		rc = client_scan_live(c, t, 0, t->nparts, &out->live, &out->nlive, e);
	return rc;
}

enum err_code client_scan_parts(struct client *c, const struct table *t, uint32_t first,
    uint32_t count, uint64_t since, client_rows_fn fn, void *ctx, struct client_changes *out,
    struct err *e)
{
	struct table_scan x = { .t = t,
		.first = first,
		.count = count,
		.filter = { .changed_only = since != CLIENT_ALL } };

	client_assert_owner(c);
	x.filter.since = x.filter.changed_only ? since : 0;
	return scan_changed_rows(c, &x, fn, ctx, out, e);
}
