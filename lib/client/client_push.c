#include "base/endian.h"
#include "base/mem.h"
#include "client/client_state.h"

/* ---- sending ----------------------------------------------------------------------------- */

static void send_rows(struct link *l, const struct doubt *d, struct record *r)
{
	r->type = REC_PUSH_ROWS;
	r->total = d->len;
	for (size_t at = 0; at < d->len; at += r->len) {
		r->offset = at;
		r->len = d->len - at < RECORD_MAX ? (uint32_t)(d->len - at) : RECORD_MAX;
		link_send(l, r, d->rows + at);
	}
}

void link_send_doubt(struct link *l, const struct doubt *d)
{
	struct record r = client_head(l->client, REC_PUSH, d->step);

	r.table = d->table->id;
	r.part = d->part;
	r.examples = d->examples;
	r.seq = d->pulled;
	if (d->rows) {
		send_rows(l, d, &r);
		return;
	}
	r.len = d->n * 4;
	if (r.len <= BATCHER_SMALL) {
		link_send(l, &r, d->g);
		return;
	}
	batcher_flush(&l->batcher, l->conn);
	conn_lend(l->conn, &r, d->g);
}

void link_send_clock(struct link *l)
{
	struct record r = client_head(l->client, REC_CLOCK, l->clock_step);

	r.examples = l->clock_examples;
	r.len = (uint32_t)l->clock_runs.len;
	link_send(l, &r, l->clock_runs.data);
}

void link_send_done(struct link *l)
{
	struct record r = client_head(l->client, REC_DONE, 0);

	r.seq = DONE_SEQ;
	link_send(l, &r, NULL);
}

/* ---- doubts -------------------------------------------------------------------------------- */

static void clear_doubts(struct link *l)
{
	for (size_t i = 0; i < l->ndoubts; i++)
		free(l->doubt[i].rows);
	l->ndoubts = l->first_doubt = l->open_doubts = 0;
}

static void add_doubt(struct client *c, struct link *l, const struct doubt *d)
{
	if (!l->open_doubts)
		clear_doubts(l);
	if (l->ndoubts == l->cap_doubts) {
		l->cap_doubts = l->cap_doubts ? l->cap_doubts * 2 : 64;
		l->doubt = mem_regrow(l->doubt, l->cap_doubts, sizeof *l->doubt);
	}
	l->doubt[l->ndoubts] = *d;
	l->doubt[l->ndoubts].pulled = *version_at(c, d->table, d->part);
	l->ndoubts++;
	l->open_doubts++;
	msg_put_run(&l->clock_runs, &(struct msg_run){ d->table->id, d->part, 1 });
	if (l->state == LINK_UP)
		link_send_doubt(l, &l->doubt[l->ndoubts - 1]);
}

void link_free_doubts(struct link *l)
{
	clear_doubts(l);
	free(l->doubt);
	l->doubt = NULL;
	l->cap_doubts = 0;
}

/* Receipts come mostly in the order of the pushes. */
static struct doubt *find_doubt(struct link *l, const struct msg_receipt *m)
{
	for (size_t k = 0; k < l->ndoubts; k++) {
		size_t i = (l->first_doubt + k) % l->ndoubts;
		struct doubt *d = &l->doubt[i];

		if (!d->settled && d->table->id == m->table && d->part == m->part && d->step == m->step) {
			l->first_doubt = i + 1 == l->ndoubts ? 0 : i + 1;
			return d;
		}
	}
	return NULL;
}

void doubt_receipts(struct link *l, const uint8_t *payload, size_t len)
{
	struct client_stats *s = &l->client->stats;
	struct msg_receipt m;

	for (size_t i = 0; msg_get_receipt(payload, len, i, &m); i++) {
		struct doubt *d = find_doubt(l, &m);

		if (!d)
			continue;       /* of a session before; its re-sent twin is answered too */
		d->settled = true;
		l->open_doubts--;
		if (m.status < sizeof s->receipts / sizeof *s->receipts)
			s->receipts[m.status]++;
		s->staleness_sum += m.staleness;
	}
}

/* ---- pushing -------------------------------------------------------------------------------- */

enum err_code client_push(struct client *c, const struct table *t, uint64_t step, uint32_t examples, const float *g,
    struct err *e)
{
	for (uint32_t p = 0; p < t->nparts; p++) {
		struct link *l = link_of(c, t, p, e);
		struct doubt d = { .table = t, .part = p, .examples = examples, .step = step };

		if (!l)
			return ERR_NOTREADY;
		d.n = table_part_elements(t, p);
		d.g = g + table_part_begin(p);
		add_doubt(c, l, &d);
	}
	return ERR_OK;
}

static uint8_t *rows_body(const struct table *t, const uint64_t *ids, const float *g, const uint32_t *order, uint32_t n,
    size_t *len)
{
	uint8_t *body, *values;

	*len = MSG_ROWS_HEAD + (size_t)n * (8 + (size_t)t->cols * 4);
	body = mem_array(1, *len);
	msg_put_rows_head(body, n);
	values = body + MSG_ROWS_HEAD + (size_t)n * 8;
	for (uint32_t i = 0; i < n; i++) {
		put_le64(body + MSG_ROWS_HEAD + (size_t)i * 8, ids[order[i]]);
		memcpy(values + (size_t)i * t->cols * 4, g + (size_t)order[i] * t->cols, t->cols * 4);
	}
	return body;
}

enum err_code client_push_rows(struct client *c, const struct table *t, uint64_t step, uint32_t examples,
    const uint64_t *ids, size_t n, const float *g, struct err *e)
{
	uint32_t *start = mem_array(t->nparts + 1, sizeof *start), *order = mem_array(n, sizeof *order);
	enum err_code rc = ERR_OK;

	rows_by_part(t, ids, n, start, order);
	for (uint32_t p = 0; !rc && p < t->nparts; p++) {
		struct doubt d = { .table = t, .part = p, .examples = examples, .step = step, .n = start[p + 1] - start[p] };
		struct link *l;

		if (!d.n)
			continue;
		l = link_of(c, t, p, e);
		if (!l) {
			rc = ERR_NOTREADY;
			break;
		}
		d.rows = rows_body(t, ids, g, order + start[p], d.n, &d.len);
		add_doubt(c, l, &d);
	}
	free(start);
	free(order);
	return rc;
}

/* ---- clocks --------------------------------------------------------------------------------- */

static bool all_written(struct client *c)
{
	for (unsigned i = 0; i < c->nlinks; i++) {
		struct link *l = &c->link[i];

		if (l->used && (l->state != LINK_UP || l->batcher.n || conn_queued(l->conn)))
			return false;
	}
	return true;
}

static bool none_due(struct client *c)
{
	for (unsigned i = 0; i < c->nlinks; i++)
		if (c->link[i].clock_due)
			return false;
	return true;
}

enum err_code client_clock(struct client *c, uint64_t step, uint32_t examples, struct err *e)
{
	/* One CLOCK in doubt a link: a server that missed one would wait for ever. */
	enum err_code rc = client_turn(c, none_due, step, e);

	if (rc)
		return rc;
	for (unsigned i = 0; i < c->nlinks; i++) {
		struct link *l = &c->link[i];

		l->used = true;
		l->clock_due = true;
		l->clock_step = step;
		l->clock_examples = examples;
		if (l->state == LINK_UP)
			link_send_clock(l);
	}
	rc = client_turn(c, all_written, step, e);
	for (unsigned i = 0; i < c->nlinks; i++)
		buf_clear(&c->link[i].clock_runs);
	return rc;
}

static bool all_done(struct client *c)
{
	for (unsigned i = 0; i < c->nlinks; i++)
		if (!c->link[i].done)
			return false;
	return true;
}

enum err_code client_done(struct client *c, struct err *e)
{
	enum err_code rc = client_settle(c, e);

	if (!rc)
		rc = client_turn(c, none_due, CLIENT_NOW, e);
	for (unsigned i = 0; !rc && i < c->nlinks; i++) {
		struct link *l = &c->link[i];

		l->used = true;
		l->done = false;
		l->done_due = true;
		if (l->state == LINK_UP)
			link_send_done(l);
	}
	return rc ? rc : client_turn(c, all_done, CLIENT_NOW, e);
}

static bool none_in_doubt(struct client *c)
{
	for (unsigned i = 0; i < c->nlinks; i++)
		if (c->link[i].open_doubts)
			return false;
	return true;
}

enum err_code client_settle(struct client *c, struct err *e)
{
	return client_turn(c, none_in_doubt, CLIENT_NOW, e);
}
