/* SPDX-License-Identifier: ISC */
#include "core/clock.h"
#include "client/client_state.h"
#include "codec/delta.h"
#include "core/endian.h"
#include "core/mem.h"
#include "socket/published.h"

/* ---- the request ---- */

/* Queues a pull of one run of partitions on the request's link, which is UP. With a base it
 * states the version of each partition (RECORD_DELTA). Encoded values are asked for only in steps
 * and for parameters: pulls of the present values and of optimizer state are exact. */
static void send_pull(struct request *r)
{
	struct link *l = r->link;
	struct record head = client_record_head(l->client, REC_PULL, r->step);
	size_t most = PAYLOAD_RUN_BYTES + (r->pull.base ? (size_t)r->count * 8 : 0);
	uint8_t small[BATCHER_SMALL], *body = batcher_reserve(&l->batcher, l->conn, most, small);

	head.seq = r->seq;
	head.table = r->table->id;
	head.part = r->part;
	head.offset = r->pull.vector;
	if (l->client->cfg.coding.pull_codec && r->step != CLIENT_NOW && !r->pull.vector)
		head.codec = l->client->cfg.coding.pull_codec->id;
	if (r->pull.base)
		head.flags |= RECORD_DELTA;
	if (r->pull.early)
		head.flags |= RECORD_EARLY;
	if (r->pull.no_values)
		head.flags |= RECORD_NO_VALUES;
	if (conn_view(l->conn) && !r->pull.whole)
		head.flags |= RECORD_BY_REFERENCE;
	head.len = (uint32_t)most;
	payload_encode_run(body, &(struct payload_run){ r->table->id, r->part, r->count, false });
	for (uint32_t i = 0; r->pull.base && i < r->count; i++)
		put_le64(body + PAYLOAD_RUN_BYTES + (size_t)i * 8, r->pull.since[i]);
	batcher_commit(&l->batcher, l->conn, &head, body, small);
}

/* Returns the place for the values of an answer, or NULL when the record does not fit. */
static float *dense_answer_place(const struct request *r, const struct record *head)
{
	if (r->ops != &client_pull_ops || r->pull.no_values || head->table != r->table->id ||
	    head->part < r->part || head->part - r->part >= r->count ||
	    (!head->codec && !(head->flags & (RECORD_DELTA | RECORD_BY_REFERENCE)) &&
	        head->len != table_part_elements(r->table, head->part) * 4))
		return NULL;
	return r->pull.dst + (table_part_begin(r->table, head->part) - r->pull.begin);
}

/* Raw partitions are received straight into the caller's table. */
uint8_t *client_pull_answer_place(void *link, const struct record *head)
{
	struct request *r = head->type == REC_PULLED && !head->codec &&
	        !(head->flags & (RECORD_DELTA | RECORD_BY_REFERENCE))
	    ? request_of_answer(link, head->seq)
	    : NULL;

	return r ? (uint8_t *)dense_answer_place(r, head) : NULL;
}

/* Take an answer with changes only: copy the base version to dst, and apply the changes. */
static enum err_code take_dense_changes(const struct request *r, const struct answer *a, float *dst,
    struct err *e)
{
	const struct codec *codec = codec_by_id(a->head->codec);
	size_t n = table_part_elements(r->table, a->head->part);
	const float *base = r->pull.base ? r->pull.base + table_part_begin(r->table, a->head->part)
	                                 : NULL;

	if (!base || !codec ||
	    delta_check(codec, a->payload, a->head->len, n, 1) == CODEC_MALFORMED)
		return err_set(e, ERR_PROTO, "malformed changes of parameters");
	if (base != dst)
		memcpy(dst, base, n * sizeof *dst);
	delta_apply(codec, a->payload, a->head->len, n, 1, NULL, dst);
	return ERR_OK;
}

/* Take an answer with whole values. Raw ones may have been received in place already. */
static enum err_code take_dense_values(const struct request *r, const struct answer *a, float *dst,
    struct err *e)
{
	const struct codec *codec = codec_by_id(a->head->codec);
	size_t n = table_part_elements(r->table, a->head->part);

	if (a->head->flags & RECORD_DELTA)
		return take_dense_changes(r, a, dst, e);
	if (!a->head->codec) {
		if ((const uint8_t *)dst != a->payload)
			memcpy(dst, a->payload, a->head->len);
		return ERR_OK;
	}
	if (!codec || codec->check(a->payload, a->head->len, n) == CODEC_MALFORMED)
		return err_set(e, ERR_PROTO, "malformed encoding of parameters");
	memset(dst, 0, n * sizeof *dst);
	codec->add(a->payload, a->head->len, n, 1, dst);
	return ERR_OK;
}

/* Ask again for one partition of r, for its values themselves. */
static enum err_code repull_whole(const struct request *r, uint32_t part, struct err *e)
{
	struct request *again = request_new(r->client, r->ops, r->table, part, r->step);
	enum err_code rc;

	again->pull = (struct pull_request){ .dst = r->pull.dst,
		.begin = r->pull.begin,
		.early = r->pull.early,
		.whole = true };
	rc = request_submit(again, e);
	if (rc)
		request_free(again);
	return rc;
}

/* Copy a partition that the server has named in published memory. *copied false: it has changed
 * meanwhile. */
static enum err_code copy_published(const struct request *r, const struct answer *a, float *dst,
    bool *copied, struct err *e)
{
	struct conn *conn = r->link->conn;
	size_t bytes = table_part_elements(r->table, a->head->part) * sizeof *dst;
	struct payload_place x;

	if (r->pull.whole || r->pull.vector || a->head->codec || !conn_view(conn) ||
	    !payload_get_place(a->payload, a->head->len, &x) || x.bytes != bytes ||
	    !published_has(conn_view(conn), x.place, bytes))
		return err_set(e, ERR_PROTO, "%s sent an invalid place of parameters", r->link->id);
	*copied = published_copy(conn_view(conn), x.place, x.state, dst, bytes);
	if (*copied)
		conn_count_published(conn, 0, bytes);
	return ERR_OK;
}

/* Takes the answer for one partition and notes its version, which the next pull of the table may
 * use as a base. */
static enum err_code pull_answered(struct request *r, const struct answer *a, struct err *e)
{
	float *dst = dense_answer_place(r, a->head);
	bool here = true;
	enum err_code rc;

	if (r->pull.no_values && a->head->type == REC_PULLED && a->head->flags & RECORD_NO_VALUES)
		return ERR_OK;
	if (a->head->type != REC_PULLED || r->pull.no_values)
		return err_set(e, ERR_PROTO, "%s answered a different request", r->link->id);
	if (!dst)
		return err_set(e, ERR_PROTO, "%s sent a partition of the wrong size", r->link->id);
	if (a->head->flags & RECORD_BY_REFERENCE)
		rc = copy_published(r, a, dst, &here, e);
	else
		rc = take_dense_values(r, a, dst, e);
	if (!rc && !here)
		return repull_whole(r, a->head->part, e);
	if (rc)
		return rc;
	if (r->client->ops->took_dense)
		r->client->ops->took_dense(r, a->head->part, dst, a->head->total);
	*client_version_at(r->client, r->table, a->head->part) = a->head->total;
	return ERR_OK;
}

/* Ask for everything: dst may hold answers of another version than the base. */
static void forget_base(struct request *r)
{
	free(r->pull.since);
	r->pull.since = NULL;
	r->pull.base = NULL;
}

const struct request_ops client_pull_ops = { .class = REQUEST_PULL,
	.server = table_tail,
	.send = send_pull,
	.answered = pull_answered,
	.forget_server = forget_base,
	.release = forget_base };

/* ---- asking ---- */

/* A pull that names versions is one record: this many partitions fit. */
#define DELTA_PARTS ((RECORD_MAX - PAYLOAD_RUN_BYTES) / 8)

/* A pull of dense partitions; fields as in struct pull_request. */
struct dense_want {
	uint64_t step, vector, begin;
	bool early, no_values;
	const float *base;
	float *dst;
};

/* Ask for a run of partitions that have one chain of servers. */
static enum err_code want_part_run(struct client *c, const struct table *t, uint32_t first,
    uint32_t count, const struct dense_want *w, struct err *e)
{
	struct request *r = request_new(c, &client_pull_ops, t, first, w->step);
	enum err_code rc;

	r->count = count;
	r->pull = (struct pull_request){ .dst = w->dst,
		.begin = w->begin,
		.early = w->early,
		.no_values = w->no_values,
		.vector = w->vector };
	if (w->base && count <= DELTA_PARTS) {
		r->pull.base = w->base;
		r->pull.since = mem_array(count, sizeof *r->pull.since);
		for (uint32_t i = 0; i < count; i++)
			r->pull.since[i] = *client_version_at(c, t, first + i);
	}
	rc = request_submit(r, e);
	if (rc)
		request_free(r);
	return rc;
}

/* Ask for partitions, cut into the layout's runs. */
static enum err_code want_dense_parts(struct client *c, const struct table *t, uint32_t first,
    uint32_t count, const struct dense_want *w, struct err *e)
{
	uint32_t end = first + count;
	enum err_code rc = ERR_OK;

	while (!rc && first < end) {
		const struct run *run = table_run(t, first);
		uint32_t stop = run && run->first + run->count < end ? run->first + run->count
		                                                     : end;

		rc = run ? want_part_run(c, t, first, stop - first, w, e)
		         : err_set(e, ERR_NOTREADY, "table \"%s\" is not yet on a server", t->name);
		first = stop;
	}
	if (rc)
		request_free_pulls_to(c, w->dst);
	return rc;
}

enum err_code client_want_parts(struct client *c, const struct table *t, uint64_t step, bool early,
    uint32_t first, uint32_t count, const float *base, float *dst, struct err *e)
{
	client_assert_owner(c);
	return want_dense_parts(c, t, first, count,
	    &(struct dense_want){ .step = step, .early = early, .base = base, .dst = dst }, e);
}

enum err_code client_want_window(struct client *c, const struct table *t, uint32_t first,
    uint32_t count, float *dst, struct err *e)
{
	client_assert_owner(c);
	return want_dense_parts(c, t, first, count,
	    &(struct dense_want){ .step = CLIENT_NOW,
	        .begin = table_part_begin(t, first),
	        .dst = dst },
	    e);
}

enum err_code client_want_state(struct client *c, const struct table *t, uint64_t step, uint64_t k,
    float *dst, struct err *e)
{
	client_assert_owner(c);
	return want_dense_parts(c, t, 0, t->nparts,
	    &(struct dense_want){ .step = step, .vector = k, .dst = dst }, e);
}

enum err_code client_want_all_at(struct client *c, const struct table *t, uint64_t step,
    struct err *e)
{
	enum err_code rc = ERR_OK;

	client_assert_owner(c);
	for (size_t i = 0; !rc && i < t->nruns; i++)
		rc = want_dense_parts(c, t, t->run[i].first, 1,
		    &(struct dense_want){ .step = step, .no_values = true }, e);
	return rc;
}

enum err_code client_want_shown(struct client *c, const struct table *t, uint64_t step,
    struct err *e)
{
	client_assert_owner(c);
	return want_dense_parts(c, t, 0, t->nparts,
	    &(struct dense_want){ .step = step, .no_values = true, .early = true }, e);
}

uint64_t client_version(struct client *c, const struct table *t, uint32_t part)
{
	uint64_t version = *client_version_at(c, t, part);

	client_assert_owner(c);
	return version == CLIENT_NO_VERSION ? 0 : version;
}

enum err_code client_want(struct client *c, const struct table *t, uint64_t step, const float *base,
    float *dst, struct err *e)
{
	client_assert_owner(c);
	return client_want_parts(c, t, step, false, 0, t->nparts, base, dst, e);
}

/* ---- waiting ---- */

bool client_has_all(struct client *c)
{
	client_assert_owner(c);
	return !c->nopen[REQUEST_PULL] && !c->nopen[REQUEST_PUSH] && !client_is_lending(c);
}

uint64_t client_mark_pulls(const struct client *c)
{
	return c->next_seq;
}

/* Are all pulls before c->awaited_mark answered? */
static bool has_marked(struct client *c)
{
	client_assert_owner(c);
	if (!c->nopen[REQUEST_PULL])
		return true;
	for (const struct request *r = request_next(c, NULL); r; r = request_next(c, r))
		if (r->ops->class == REQUEST_PULL && r->seq < c->awaited_mark)
			return false;
	return true;
}

enum err_code client_wait_marked(struct client *c, uint64_t mark, uint64_t step, struct err *e)
{
	enum err_code rc;

	client_assert_owner(c);
	c->awaited_mark = mark;
	rc = client_wait_until(c, has_marked, step, e);
	if (rc)
		request_free_class(c, REQUEST_PULL);
	return rc;
}

bool client_caches_rows(const struct client *c)
{
	return c->route.state != ROUTE_RELAYED;
}

enum err_code client_wait(struct client *c, uint64_t step, struct err *e)
{
	enum err_code rc;

	client_assert_owner(c);
	c->seen.first_answer = 0;
	if (step != CLIENT_NOW)
		c->seen.awaited = step;
	rc = client_wait_until(c, client_has_all, step, e);
	if (!c->seen.first_answer)
		c->seen.first_answer = clock_now();
	if (rc)
		request_free_class(c, REQUEST_PULL);
	return rc;
}
