/* SPDX-License-Identifier: ISC */
#include "core/clock.h"
#include "client/client_state.h"
#include "client/relayed.h"
#include "codec/delta.h"
#include "core/endian.h"
#include "core/mem.h"

/* ---- versions that the last pull of each partition brought ---- */

uint64_t *client_version_at(struct client *c, const struct table *t, uint32_t part)
{
	if (t->id >= c->nversions) {
		size_t n = (size_t)t->id + 1;

		c->version = mem_regrow((void *)c->version, n, sizeof *c->version);
		c->nversion = mem_regrow(c->nversion, n, sizeof *c->nversion);
		for (size_t i = c->nversions; i < n; i++) {
			c->version[i] = NULL;
			c->nversion[i] = 0;
		}
		c->nversions = n;
	}
	if (c->nversion[t->id] < t->nparts) {
		c->version[t->id] = mem_regrow(c->version[t->id], t->nparts, sizeof **c->version);
		memset(c->version[t->id] + c->nversion[t->id], 0,
		    (t->nparts - c->nversion[t->id]) * sizeof **c->version);
		c->nversion[t->id] = t->nparts;
	}
	return &c->version[t->id][part];
}

/* ---- asking ---- */

void client_link_send_pull(struct link *l, struct ask *a)
{
	struct record r = client_record_head(l->client, a->type, a->step);
	struct buf body = BUF_INIT;

	r.seq = a->seq;
	r.table = a->table->id;
	r.part = a->part;
	a->left = a->count;
	if (a->type == REC_PULL) {
		msg_put_run(&body, &(struct msg_run){ a->table->id, a->part, a->count, false });
		if (l->client->cfg.coding.pull_codec && a->step != CLIENT_NOW && !a->vector)
			r.codec = l->client->cfg.coding.pull_codec->id;
		if (a->base)
			r.flags |= RECORD_DELTA;
		if (a->early)
			r.flags |= RECORD_EARLY;
		if (a->tell)
			r.flags |= RECORD_TELL;
		r.offset = a->vector;
		for (uint32_t i = 0; a->base && i < a->count; i++) {
			put_le64(buf_reserve(&body, 8), a->since[i]);
			buf_commit(&body, 8);
		}
	} else if (a->type == REC_PULL_ROWS) {
		client_rows_send_pull(l, a, &r);
		return;
	} else {
		r.total = a->begin ? 0 : 1;
		r.offset = a->after;
		r.step = a->scanned->since;
		r.flags |= (a->scanned->changed ? RECORD_DELTA : 0) |
		    (a->scanned->told ? RECORD_TELL : 0);
	}
	r.len = (uint32_t)body.len;
	client_link_send(l, &r, body.data);
	buf_release(&body);
}

static void append_question(struct link *l, struct ask *a)
{
	*l->asks_last = a;
	l->asks_last = &a->next;
}

struct ask *client_pull_add(struct client *c, struct link *l, enum msg_type type,
    const struct table *t, uint64_t step)
{
	struct ask *a = mem_alloc(sizeof *a);

	a->seq = c->next_seq++;
	a->type = type;
	a->table = t;
	a->step = step;
	a->count = a->left = 1;
	append_question(l, a);
	return a;
}

/* A pull that names versions is one record: this many partitions fit. */
#define DELTA_PARTS ((RECORD_MAX - MSG_RUN_BYTES) / 8)

/* A pull of dense partitions; fields as in struct ask. */
struct dense_want {
	uint64_t step, vector;
	bool early, tell;
	const float *base;
	float *dst;
};

/* Ask for a run of partitions that have one chain of servers. */
static enum err_code want_part_run(struct client *c, const struct table *t, uint32_t first,
    uint32_t count, const struct dense_want *w, struct err *e)
{
	struct link *l = client_link_of_pull(c, t, first, w->step, e);
	struct ask *a;

	if (!l)
		return ERR_NOTREADY;
	a = client_pull_add(c, l, REC_PULL, t, w->step);
	a->part = first;
	a->count = a->left = count;
	a->dst = w->dst;
	a->early = w->early;
	a->tell = w->tell;
	a->vector = w->vector;
	if (w->base && count <= DELTA_PARTS) {
		a->base = w->base;
		a->since = mem_array(count, sizeof *a->since);
		for (uint32_t i = 0; i < count; i++)
			a->since[i] = *client_version_at(c, t, first + i);
	}
	if (l->state == LINK_UP)
		client_link_send_pull(l, a);
	return ERR_OK;
}

/* Ask for partitions, cut into the layout's runs. */
static enum err_code want_dense_parts(struct client *c, const struct table *t, uint32_t first,
    uint32_t count, const struct dense_want *w, struct err *e)
{
	uint32_t end = first + count;

	while (first < end) {
		const struct run *run = table_run(t, first);
		uint32_t stop = run && run->first + run->count < end ? run->first + run->count
		                                                     : end;

		if (!run)
			return err_set(e, ERR_NOTREADY, "table \"%s\" is on no server yet",
			    t->name);
		if (want_part_run(c, t, first, stop - first, w, e))
			return ERR_NOTREADY;
		first = stop;
	}
	return ERR_OK;
}

enum err_code client_want_parts(struct client *c, const struct table *t, uint64_t step, bool early,
    uint32_t first, uint32_t count, const float *base, float *dst, struct err *e)
{
	return want_dense_parts(c, t, first, count,
	    &(struct dense_want){ .step = step, .early = early, .base = base, .dst = dst }, e);
}

enum err_code client_want_state(struct client *c, const struct table *t, uint64_t step, uint64_t k,
    float *dst, struct err *e)
{
	return want_dense_parts(c, t, 0, t->nparts,
	    &(struct dense_want){ .step = step, .vector = k, .dst = dst }, e);
}

enum err_code client_want_all_at(struct client *c, const struct table *t, uint64_t step,
    struct err *e)
{
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && i < t->nruns; i++)
		rc = want_dense_parts(c, t, t->run[i].first, 1,
		    &(struct dense_want){ .step = step, .tell = true }, e);
	return rc;
}

enum err_code client_want_shown(struct client *c, const struct table *t, uint64_t step,
    struct err *e)
{
	return want_dense_parts(c, t, 0, t->nparts,
	    &(struct dense_want){ .step = step, .tell = true, .early = true }, e);
}

uint64_t client_version(struct client *c, const struct table *t, uint32_t part)
{
	return *client_version_at(c, t, part);
}

enum err_code client_want(struct client *c, const struct table *t, uint64_t step, const float *base,
    float *dst, struct err *e)
{
	return client_want_parts(c, t, step, false, 0, t->nparts, base, dst, e);
}

/* ---- answers ---- */

/* The place in the link's list that points to the question of this seq; NULL: none. */
static struct ask **find_question(struct link *l, uint64_t seq)
{
	struct ask **p = &l->asks;

	while (*p && (*p)->seq != seq)
		p = &(*p)->next;
	return *p ? p : NULL;
}

struct ask *client_pull_find(struct link *l, uint64_t seq)
{
	struct ask **p = find_question(l, seq);

	return p ? *p : NULL;
}

/* Returns the place for the values of an answer, or NULL when the record does not fit the question. */
static float *dense_answer_place(const struct ask *a, const struct record *r)
{
	if (a->type != REC_PULL || a->tell || r->table != a->table->id || r->part < a->part ||
	    r->part - a->part >= a->count ||
	    (!r->codec && !(r->flags & RECORD_DELTA) &&
	        r->len != table_part_elements(a->table, r->part) * 4))
		return NULL;
	return a->dst + table_part_begin(a->table, r->part);
}

/* Take an answer with changes only: copy the base version to dst, and apply the changes. */
static enum err_code take_dense_changes(const struct ask *a, const struct record *r,
    const uint8_t *payload, float *dst, struct err *e)
{
	const struct codec *codec = codec_by_id(r->codec);
	size_t n = table_part_elements(a->table, r->part);
	const float *base = a->base ? a->base + table_part_begin(a->table, r->part) : NULL;

	if (!base || !codec || delta_check(codec, payload, r->len, n, 1) == CODEC_MALFORMED)
		return err_set(e, ERR_PROTO,
		    "changes of parameters that are not as they should be");
	if (base != dst)
		memcpy(dst, base, n * sizeof *dst);
	delta_apply(codec, payload, r->len, n, 1, NULL, dst);
	return ERR_OK;
}

/* Take an answer with whole values. Raw ones may have been received in place already. */
static enum err_code take_dense_values(const struct ask *a, const struct record *r,
    const uint8_t *payload, float *dst, struct err *e)
{
	const struct codec *codec = codec_by_id(r->codec);
	size_t n = table_part_elements(a->table, r->part);

	if (r->flags & RECORD_DELTA)
		return take_dense_changes(a, r, payload, dst, e);
	if (!r->codec) {
		if ((const uint8_t *)dst != payload)
			memcpy(dst, payload, r->len);
		return ERR_OK;
	}
	if (!codec || codec->check(payload, r->len, n) == CODEC_MALFORMED)
		return err_set(e, ERR_PROTO, "parameters that are not encoded as they should be");
	memset(dst, 0, n * sizeof *dst);
	codec->add(payload, r->len, n, 1, dst);
	return ERR_OK;
}

/* Raw partitions are received straight into the caller's table. */
uint8_t *client_pull_answer_place(struct link *l, const struct record *r)
{
	struct ask **p = r->type == REC_PULLED && !r->codec && !(r->flags & RECORD_DELTA)
	    ? find_question(l, r->seq)
	    : NULL;

	return p ? (uint8_t *)dense_answer_place(*p, r) : NULL;
}

static void free_question(struct client *c, struct ask *a)
{
	client_row_list_drop(c, a->list);
	free(a->since);
	free(a);
}

/* One answer has come: after the last one free the question. */
static enum err_code count_answer(struct link *l, struct ask **p)
{
	struct ask *a = *p;

	if (--a->left == 0) {
		*p = a->next;
		if (!a->next)
			l->asks_last = p;
		free_question(l->client, a);
	}
	return ERR_OK;
}

enum err_code client_pull_take_answer(struct link *l, const struct record *r,
    const uint8_t *payload, struct err *e)
{
	const struct client_relay_hooks *h = l->client->cfg.hooks;
	struct ask **p = find_question(l, r->seq), *a;
	enum err_code rc = ERR_OK;
	float *dst;

	/* No such question: it was moved to another link, or this is a second answer. */
	if (!p)
		return ERR_OK;
	a = *p;
	if (r->type == REC_PULLED && a->tell) {
		if (!(r->flags & RECORD_TELL))
			return err_set(e, ERR_PROTO, "%s answers another question", l->id);
		return count_answer(l, p);
	}
	if (r->type == REC_PULLED) {
		dst = dense_answer_place(a, r);
		if (!dst)
			return err_set(e, ERR_PROTO, "%s sends a partition that does not fit",
			    l->id);
		rc = take_dense_values(a, r, payload, dst, e);
		if (!rc && h)
			h->dense(h->ctx, a->table, r->part, a->step, dst, r->total);
	} else if (r->type == REC_ROWS) {
		rc = client_rows_take_answer(l, a, r, payload, e);
	} else if (a->type == REC_SCAN) {
		buf_append(&a->scanned->body, payload, r->len);
		a->scanned->last = r->flags & RECORD_LAST;
		a->scanned->step = r->step;
		a->scanned->removed = r->offset;
	} else {
		rc = err_set(e, ERR_PROTO, "%s answers another question", l->id);
	}
	if (rc)
		return rc;
	*client_version_at(l->client, a->table,
	    r->part < a->table->nparts ? r->part : 0) = r->total;
	return count_answer(l, p);
}

void client_link_free_pulls(struct link *l)
{
	struct ask *a;

	while ((a = l->asks)) {
		l->asks = a->next;
		free_question(l->client, a);
	}
	l->asks_last = &l->asks;
}

/* Ask an open question again, by the present layout. A run of partitions is asked for whole,
 * even if some of its answers have come: those may have another version. */
static void move_question(struct client *c, struct link *old, struct ask *a)
{
	uint32_t part = a->part, end = a->part + a->count;
	struct link *l;

	if (a->type != REC_PULL) {
		/* The cached versions mean nothing to a relay or another replica: ask for all
		 * rows. */
		free(a->since);
		a->since = NULL;
		l = client_link_of_pull(c, a->table, a->part, a->step, NULL);
		l = l ? l : old;
		append_question(l, a);
		if (l->state == LINK_UP)
			client_link_send_pull(l, a);
		return;
	}
	while (part < end) {
		const struct run *run = table_run(a->table, part);
		uint32_t stop = run->first + run->count < end ? run->first + run->count : end;

		/* Without a base: dst may hold answers of another version. When no server
		 * holds the partitions, the question stays on the old link until another
		 * layout. */
		if (want_part_run(c, a->table, part, stop - part,
		        &(struct dense_want){ .step = a->step,
		            .vector = a->vector,
		            .early = a->early,
		            .tell = a->tell,
		            .dst = a->dst },
		        NULL)) {
			struct ask *rest = client_pull_add(c, old, REC_PULL, a->table, a->step);

			rest->part = part;
			rest->count = rest->left = stop - part;
			rest->dst = a->dst;
			rest->early = a->early;
			rest->tell = a->tell;
			rest->vector = a->vector;
		}
		part = stop;
	}
	free_question(c, a);
}

/* Stop receiving answers in place. Their questions are about to be asked again, and other
 * answers will write to the same memory. */
static void stop_placing_answers(struct client *c)
{
	struct err e;

	for (unsigned i = 0; i < c->nlinks; i++)
		if (c->link[i]->conn && conn_unplace(c->link[i]->conn, &e))
			client_link_drop(c->link[i], &e);
}

void client_pull_drop_all(struct client *c)
{
	stop_placing_answers(c);
	for (unsigned i = 0; i < c->nlinks; i++)
		client_link_free_pulls(c->link[i]);
}

void client_pull_reroute_all(struct client *c)
{
	struct ask **open = mem_array(c->nlinks + 1, sizeof *open);

	stop_placing_answers(c);
	for (unsigned i = 0; i < c->nlinks; i++) {
		open[i] = c->link[i]->asks;
		c->link[i]->asks = NULL;
		c->link[i]->asks_last = &c->link[i]->asks;
	}
	for (unsigned i = 0; i < c->nlinks; i++)
		for (struct ask *a = open[i], *next; a; a = next) {
			next = a->next;
			a->next = NULL;
			move_question(c, c->link[i], a);
		}
	free(open);
}

/* ---- waiting ---- */

bool client_has_all(struct client *c)
{
	for (unsigned i = 0; i < c->nlinks; i++)
		if (c->link[i]->asks || c->link[i]->open_inflight)
			return false;
	return true;
}

enum err_code client_wait(struct client *c, uint64_t step, struct err *e)
{
	enum err_code rc;

	c->first_answer = 0;
	rc = client_wait_until(c, client_has_all, step, e);
	if (!c->first_answer)
		c->first_answer = clock_now();
	if (rc)
		for (unsigned i = 0; i < c->nlinks; i++)
			client_link_free_pulls(c->link[i]);
	return rc;
}
