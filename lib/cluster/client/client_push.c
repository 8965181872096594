/* SPDX-License-Identifier: ISC */
#include <math.h>
#include <stdlib.h>

#include "client/client_state.h"
#include "codec/codec.h"
#include "core/clock.h"
#include "core/fail.h"
#include "sync/push_status.h"

/* Pushes in general, and pushes of whole dense tables: submitting, sending, receipts.
 * client_encode.c chooses the bytes, client_clock.c announces the pushes. */

/* ---- the request ---- */

static void send_push(struct request *r)
{
	struct link *l = r->link;
	struct record head = client_record_head(l->client, REC_PUSH, r->step);
	const void *payload = r->push.body ? (const void *)r->push.body : r->push.g;

	head.table = r->table->id;
	head.part = r->part;
	head.examples = r->push.examples;
	head.seq = r->push.pulled;
	head.codec = r->push.codec;
	head.len = r->push.body ? (uint32_t)r->push.len : r->push.g ? r->n * 4 : 0;
	if (head.len <= BATCHER_SMALL) {
		batcher_add(&l->batcher, l->conn, &head, payload);
		return;
	}
	batcher_flush(&l->batcher, l->conn);
	conn_lend(l->conn, &head, payload);
}

/* The receipt of a push: when it was too late, its values join the table's next push. */
static enum err_code push_answered(struct request *r, const struct answer *a, struct err *e)
{
	(void)e;
	if (a->receipt->status == PUSH_LATE)
		client_encode_give_back(r);
	return ERR_OK;
}

static void release_push(struct request *r)
{
	free(r->push.body);
}

const struct request_ops client_push_ops = { .class = REQUEST_PUSH,
	.server = table_head,
	.send = send_push,
	.answered = push_answered,
	.release = release_push };

enum err_code client_submit_push(struct request *r, struct err *e)
{
	struct client *c = r->client;
	enum err_code rc;

	r->push.pulled = client_version(c, r->table, r->part);
	if (c->cfg.latency)
		r->push.sent_at = clock_now();
	if (c->cfg.oldest_open)
		atomic_store_explicit(c->cfg.oldest_open, 0, memory_order_relaxed);
	rc = request_submit(r, e);
	if (rc)
		request_free(r);
	else
		client_announce(r);
	return rc;
}

void client_push_note_oldest(struct client *c)
{
	bool exact = c->cfg.paused && c->cfg.paused(c->cfg.ctx);
	uint64_t oldest = c->nopen[REQUEST_PUSH] && !exact ? 0 : CLIENT_NONE_OPEN;

	client_assert_owner(c);
	if (!c->cfg.oldest_open)
		return;
	for (struct request *r = NULL; exact && (r = request_next(c, r));)
		if (r->ops->class == REQUEST_PUSH && r->step < oldest)
			oldest = r->step;
	atomic_store_explicit(c->cfg.oldest_open, oldest, memory_order_relaxed);
}

/* The encoded values of a push, which the client has until its receipt comes. *n: how many
 * floats. */
static const uint8_t *encoded_values(const struct request *r, size_t *len, size_t *n)
{
	size_t head = PAYLOAD_ROWS_HEAD + (size_t)r->n * 8,
	       counts = r->push.has_touching ? (size_t)r->n * PAYLOAD_COUNT_BYTES : 0;

	*n = r->table->sparse ? (size_t)r->n * r->table->cols : r->n;
	if (r->table->sparse) {
		*len = r->push.len - head - counts;
		return r->push.body + head;
	}
	*len = r->push.body ? r->push.len : *n * sizeof(float);
	return r->push.body ? r->push.body : (const uint8_t *)r->push.g;
}

/* The value that is farthest from zero, or the first one that is NaN. */
static float find_worst(const float *x, size_t n)
{
	float worst = 0;

	for (size_t i = 0; i < n && !isnan(worst); i++)
		if (isnan(x[i]) || fabsf(x[i]) > fabsf(worst))
			worst = x[i];
	return worst;
}

/* A receipt says that a push was refused, but not why: checks its values as the server did. Memory
 * that a server lacks for new rows is not a fault of the push. */
static void note_refused_push(struct client *c, const struct request *r)
{
	const struct codec *codec = codec_by_id(r->push.codec);
	struct client_bad_pushes *bad = &c->stats.bad;
	size_t len, n;
	const uint8_t *at = r->push.body || r->push.g ? encoded_values(r, &len, &n) : NULL;
	const float *x;

	if (!at || codec->check(at, len, n) != CODEC_BAD_VALUE || bad->n++)
		return;
	x = codec->raw_values ? codec->raw_values(at, n) : NULL;
	bad->step = r->step;
	bad->table = r->table->id;
	bad->worst = x ? find_worst(x, n) : 0;
}

void client_push_take_receipts(struct link *l, const struct record *head, const uint8_t *payload)
{
	struct client *c = l->client;
	struct client_stats *s = &c->stats;
	int64_t now = c->cfg.latency ? clock_now() : 0;
	struct payload_receipt m;

	for (size_t i = 0; payload_get_receipt(payload, head->len, i, &m); i++) {
		struct request *r = request_of_receipt(l, m.table, m.part, m.step);

		if (!r)
			/* A duplicate of a push gets a receipt, too, and the push has ended. */
			continue;
		if (m.status < sizeof s->receipts / sizeof *s->receipts)
			s->receipts[m.status]++;
		if (m.status == PUSH_REFUSED)
			note_refused_push(c, r);
		if (m.status == PUSH_SPLIT) {
			/* The relay could not aggregate it: push it to the primary. */
			r->past_relay = true;
			request_reroute(r);
			continue;
		}
		if (c->cfg.latency)
			hist_add(c->cfg.latency, (uint64_t)(now - r->push.sent_at));
		if (r->push.was_rerouted && c->seen.lost_at) {
			log_info(c->cfg.log,
			    "layout epoch %u: pushes are acknowledged again, %.3f s after a server was lost",
			    c->layout.epoch,
			    (double)(clock_now() - c->seen.lost_at) / NSEC_PER_SEC);
			c->seen.lost_at = 0;
		}
		if (m.status != PUSH_LATE)
			s->staleness_sum += m.staleness;
		else if (m.step + m.staleness > c->seen.open_step)
			c->seen.open_step = m.step + m.staleness;
		request_answer(r, &(struct answer){ head, payload, &m }, NULL);
	}
}

/* ---- the worker's calls ---- */

enum err_code client_begin_pushes(struct client *c, uint64_t step, struct err *e)
{
	client_assert_owner(c);
	/* A server that gets a push before the CLOCK of the step before holds it until that step is
	 * complete, and reads nothing more from this session, not even the CLOCK. */
	if (!c->nopen[REQUEST_CLOCK] || step == CLIENT_NOW || step <= c->clock.step)
		return ERR_OK;
	return client_wait_until(c, client_clocks_answered, step, e);
}

enum err_code client_push(struct client *c, const struct table *t, uint64_t step, uint32_t examples,
    const float *g, struct err *e)
{
	client_assert_owner(c);
	return client_push_parts(c, t, step, examples, 0, t->nparts, g, e);
}

enum err_code client_push_parts(struct client *c, const struct table *t, uint64_t step,
    uint32_t examples, uint32_t first, uint32_t count, const float *g, struct err *e)
{
	enum err_code rc = client_begin_pushes(c, step, e);

	client_assert_owner(c);
	for (uint32_t i = first; !rc && i < first + count; i++) {
		struct request *r = request_new(c, &client_push_ops, t, i, step);

		r->n = table_part_elements(t, i);
		r->push.examples = examples;
		r->push.g = g + table_part_begin(t, i);
		client_encode_push(r);
		rc = client_submit_push(r, e);
	}
	FAIL_POINT("push_sent");
	return rc;
}

enum err_code client_push_mean(struct client *c, const struct table *t, uint64_t step,
    uint32_t part, uint32_t examples, const float *mean, struct err *e)
{
	struct request *r = request_new(c, &client_push_ops, t, part, step);

	client_assert_owner(c);
	r->n = table_part_elements(t, part);
	r->push.examples = mean ? examples : 0;
	r->push.g = mean ? mean + table_part_begin(t, part) : NULL;
	r->push.mean = true;
	return client_submit_push(r, e);
}

static bool all_pushes_answered(struct client *c)
{
	return !c->nopen[REQUEST_PUSH] && !client_is_lending(c);
}

enum err_code client_wait_receipts(struct client *c, struct err *e)
{
	client_assert_owner(c);
	return client_wait_until(c, all_pushes_answered, CLIENT_NOW, e);
}
