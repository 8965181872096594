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
	bool begun;     /* some answer had an id */
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
	head.examples = r->scan.most;
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

/* most: rows of the answer; 0: as many as a record has. */
static enum err_code ask_next_rows(struct client *c, struct table_scan *x, struct partition_scan *k,
    uint32_t most, struct err *e)
{
	struct request *r = request_new(c, &scan_ops, x->t, k->part, CLIENT_NOW);

	k->answer = (struct scan_answer){ 0 };
	r->scan = (struct scan_request){ .filter = x->filter,
		.after = k->after,
		.begin = !k->asked,
		.most = most,
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
			rc = ask_next_rows(c, x, &k[i], 0, e);
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

/* ---- all rows, in pieces ---- */

/* Bytes of answers that a scan of all rows holds, about. */
#define MERGE_BYTES ((size_t)64 << 20)
/* Rows that are given to the caller at a time, and the bytes of their values, at most. One row may have
 * more. */
#define PIECE_ROWS  16384u
#define PIECE_BYTES ((size_t)4 << 20)

/* A partition's part of a merge: the rows that are being taken, and those that come after them. */
struct merge_part {
	struct partition_scan scan;
	struct buf rows; /* an answer: n rows, of which `at` have been taken */
	const uint8_t *ids, *values;
	uint32_t n, at;
	bool asked; /* scan.answer is on its way, or has arrived */
};

/* A scan of all rows of some partitions, in ascending order of ids. Each partition answers in this order, in
 * pieces; while one piece is taken the next one is on its way. */
struct merge {
	struct client *client;
	struct table_scan scan;
	uint32_t most; /* rows of an answer; 0: as many as a record has */
	struct merge_part *part;
	uint32_t *heap, nheap; /* numbers of the parts that have rows, the lowest id first */
	uint64_t *ids;         /* the piece for the caller */
	float *rows;
	size_t n, room;
};

static uint64_t lowest_id(const struct merge *m, uint32_t at)
{
	const struct merge_part *k = &m->part[m->heap[at]];

	return get_le64(k->ids + (size_t)k->at * 8);
}

/* Moves the entry down to its place. */
static void sift_down(struct merge *m, uint32_t at)
{
	for (uint32_t low; (low = 2 * at + 1) < m->nheap; at = low) {
		uint32_t moved = m->heap[at];

		low += low + 1 < m->nheap && lowest_id(m, low + 1) < lowest_id(m, low);
		if (lowest_id(m, at) <= lowest_id(m, low))
			return;
		m->heap[at] = m->heap[low];
		m->heap[low] = moved;
	}
}

static void add_to_heap(struct merge *m, uint32_t part)
{
	uint32_t at = m->nheap++;

	m->heap[at] = part;
	for (; at && lowest_id(m, at) < lowest_id(m, (at - 1) / 2); at = (at - 1) / 2) {
		m->heap[at] = m->heap[(at - 1) / 2];
		m->heap[(at - 1) / 2] = part;
	}
}

/* Asks for the next piece of a partition that has more. */
static enum err_code ask_next_piece(struct merge *m, struct merge_part *k, struct err *e)
{
	if (k->asked || k->scan.last)
		return ERR_OK;
	k->asked = true;
	return ask_next_rows(m->client, &m->scan, &k->scan, m->most, e);
}

/* Makes the answer that has arrived the rows that are taken next. */
static enum err_code take_piece(struct merge *m, struct merge_part *k, struct err *e)
{
	const struct table *t = m->scan.t;

	buf_release(&k->rows);
	k->rows = k->scan.answer.body;
	k->scan.answer.body = (struct buf){ 0 };
	k->scan.last = k->scan.answer.last;
	k->asked = false;
	k->at = 0;
	if (!payload_get_rows(k->rows.data, k->rows.len, t->cols, &k->n, &k->ids, &k->values) ||
	    (!k->n && !k->scan.last))
		return err_set(e, ERR_PROTO,
		    "the server of table \"%s\" partition %u sends invalid rows", t->name,
		    k->scan.part);
	for (uint32_t i = 0; i < k->n; i++) {
		uint64_t id = get_le64(k->ids + (size_t)i * 8);

		if ((i || k->scan.begun) && id <= k->scan.after)
			return err_set(e, ERR_PROTO,
			    "the server of table \"%s\" partition %u sends rows that do not ascend",
			    t->name, k->scan.part);
		k->scan.after = id;
	}
	k->scan.begun |= k->n > 0;
	return ERR_OK;
}

/* Gives rows to each part that has taken all of its own, unless they were the last. */
static enum err_code refill(struct merge *m, struct err *e)
{
	enum err_code rc = client_wait(m->client, CLIENT_NOW, e);

	for (uint32_t i = 0; !rc && i < m->scan.count; i++) {
		struct merge_part *k = &m->part[i];

		if (k->at < k->n || !k->asked)
			continue;
		rc = take_piece(m, k, e);
		if (!rc && k->n)
			add_to_heap(m, i);
		if (!rc)
			rc = ask_next_piece(m, k, e);
	}
	return rc;
}

static enum err_code give_rows(struct merge *m, client_rows_fn fn, void *ctx, struct err *e)
{
	size_t n = m->n;

	m->n = 0;
	return n ? fn(ctx, m->ids, m->rows, n, e) : ERR_OK;
}

/* Takes rows in ascending order until a part is out of rows, and has more. */
static enum err_code take_rows(struct merge *m, client_rows_fn fn, void *ctx, struct err *e)
{
	size_t cols = m->scan.t->cols;
	enum err_code rc = ERR_OK;

	while (!rc && m->nheap) {
		struct merge_part *k = &m->part[m->heap[0]];

		m->ids[m->n] = lowest_id(m, 0);
		memcpy(m->rows + m->n * cols, k->values + (size_t)k->at * cols * sizeof(float),
		    cols * sizeof(float));
		if (++m->n == m->room)
			rc = give_rows(m, fn, ctx, e);
		if (++k->at == k->n)
			m->heap[0] = m->heap[--m->nheap];
		sift_down(m, 0);
		if (k->at == k->n && k->asked)
			return rc;
	}
	return rc;
}

static enum err_code merge_parts(struct merge *m, client_rows_fn fn, void *ctx, struct err *e)
{
	enum err_code rc = ERR_OK;

	for (uint32_t i = 0; !rc && i < m->scan.count; i++) {
		m->part[i].scan.part = m->scan.first + i;
		rc = ask_next_piece(m, &m->part[i], e);
	}
	for (bool more = true; !rc && more;) {
		rc = refill(m, e);
		if (!rc)
			rc = take_rows(m, fn, ctx, e);
		more = m->nheap > 0;
		for (uint32_t i = 0; i < m->scan.count; i++)
			more |= m->part[i].asked;
	}
	return rc ? rc : give_rows(m, fn, ctx, e);
}

enum err_code client_scan(struct client *c, const struct table *t, uint32_t first, uint32_t count,
    client_rows_fn fn, void *ctx, struct err *e)
{
	size_t width = t->cols * sizeof(float), share = MERGE_BYTES / 2 / (count ? count : 1),
	       fit = PIECE_BYTES / width;
	struct merge m = { .client = c,
		.scan = { .t = t, .first = first, .count = count, .step = UINT64_MAX },
		.most = (uint32_t)(share / (8 + width)) + 1,
		.part = mem_array(count + 1, sizeof *m.part),
		.heap = mem_array(count + 1, sizeof *m.heap),
		.room = !fit           ? 1
		    : fit < PIECE_ROWS ? fit
		                       : PIECE_ROWS };
	enum err_code rc;

	client_assert_owner(c);
	m.ids = mem_array(m.room, sizeof *m.ids);
	m.rows = mem_array(m.room, width);
	rc = merge_parts(&m, fn, ctx, e);
	if (rc)
		request_free_class(c, REQUEST_PULL); /* their answers would be written to m.part */
	for (uint32_t i = 0; i < count; i++) {
		buf_release(&m.part[i].rows);
		buf_release(&m.part[i].scan.answer.body);
	}
	free(m.part);
	free(m.heap);
	free(m.ids);
	free(m.rows);
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
