/* SPDX-License-Identifier: ISC */
#include "core/clock.h"
#include "core/endian.h"
#include "core/fail.h"
#include "core/mem.h"
#include "server/relayed_ranks.h"
#include "server/server_role.h"
#include "session/tracer.h"
#include "server/session_trace.h"
#include "wire/payload.h"

/* Records from relays: sums of pushes, and the clocks of the workers that they serve. */

/* A relay's key is not enough: the process must be the living relay of the view. */
static bool is_living_relay(struct server_session *p, const struct record *r)
{
	if (relayed_ranks_knows_relay(p->io_thread->server, p->who.keytext, p->who.incarnation))
		return true;
	session_refuse(p, r, ERR_FENCED, "%s is not one of the cluster's relays", p->who.name);
	return false;
}

/* Gives a relay's sum to the shard, whole. A split sum is answered with SUMMED as well, and its
 * status tells the relay to send the pushes one by one. SHARD_FENCED never comes from
 * shard_push_sum, which answers it as split. */
static enum conn_verdict take_relay_sum(struct server_session *p, const struct record *r,
    const uint8_t *body, size_t len)
{
	const struct table *t = shard_table(session_shard(p), r->table);
	struct sum sum = { .relay = p->who.incarnation,
		.step = r->step,
		.table = r->table,
		.part = r->part };
	enum shard_answer a = SHARD_BAD;
	int64_t begin = tracer_is_on(p->io_thread->server->tracer) ? clock_now() : 0;
	struct receipt m;
	uint32_t row;
	bool parsed;

	if (!is_living_relay(p, r))
		return CONN_DROP;
	if (session_is_full(p))
		return CONN_HOLD;
	parsed = t && sum_body_parse(body, len, t->sparse ? t->cols : 0, &sum.body);
	if (parsed && sum.body.touching &&
	    !payload_counts_fit(sum.body.touching, sum.body.nrows, sum_body_examples(&sum.body),
	        &row)) {
		session_refuse(p, r, ERR_PROTO,
		    "a sum of %llu examples for table %u partition %u claims that %u of them "
		    "touch row %llu",
		    (unsigned long long)sum_body_examples(&sum.body), r->table, r->part,
		    get_le32(sum.body.touching + (size_t)row * PAYLOAD_COUNT_BYTES),
		    (unsigned long long)get_le64(sum.body.ids + (size_t)row * 8));
		return CONN_DROP;
	}
	if (parsed)
		a = shard_push_sum(session_shard(p), &sum, &m);
	switch (a) {
	case SHARD_OK:
		FAIL_POINT("sum_taken");
		if (begin)
			session_trace_push(p, r->step, begin);
		session_add_pending(p, r,
		    &(struct pending_ack){ .kind = PENDING_SUMMED,
		        .table = r->table,
		        .part = r->part,
		        .due = m.due,
		        .status = m.status,
		        .step = r->step,
		        .seq = r->seq });
		return CONN_TAKEN;
	case SHARD_WAIT:
		return CONN_HOLD;
	case SHARD_ELSEWHERE:
		session_send_nack(p, r, ERR_STALE,
		    "table %u partition %u is pushed to another server", r->table, r->part);
		return CONN_TAKEN;
	default:
		session_refuse(p, r, ERR_PROTO,
		    "a sum for table %u partition %u has the wrong size", r->table, r->part);
		return CONN_DROP;
	}
}

enum conn_verdict session_push_sum(struct server_session *p, const struct record *r,
    const uint8_t *payload)
{
	loop_assert_thread(p->io_thread->loop);
	return session_take_staged(p, r, payload, take_relay_sum);
}

/* ---- clocks ---- */

/* Records with early clocks that a session may keep, and their bytes. A relay has sent one clock of
 * each of its workers that is not acknowledged, and those that it has at the same time in one
 * record. The number is limited because each record of clocks makes all of them be tried again. */
#define EARLY_CLOCKS_MOST  1024u
#define EARLY_CLOCKS_BYTES (1u << 20)

/* Take the clock of one worker. The relay's word about a worker that it no longer serves is
 * ignored: that worker's clock reaches us another way. again: the record was tried before, and its
 * announcements are taken. */
static enum shard_answer take_relayed_clock(struct server_session *p, const struct rank_clock *c,
    bool again)
{
	struct shard *sh = session_shard(p);
	enum shard_answer a = shard_relay_may_push(sh, p->who.incarnation, c->rank, c->incarnation);
	bool advance;

	if (a != SHARD_OK)
		return a;
	advance = session_expect_announced(p, c) && !again;
	if (c->clocks)
		a = shard_clock(sh, c->rank, c->incarnation, c->step, c->examples);
	if (a == SHARD_OK && c->done)
		a = shard_done(sh, c->rank, c->incarnation);
	if (advance)
		shard_advance(sh);
	if (a == SHARD_OK && c->clocks && tracer_is_on(p->io_thread->server->tracer))
		session_trace_clock(p, c->rank, c->step);
	/* The relay may push for this holder, so the view that installs the holder is still to
	 * come. */
	return a == SHARD_FENCED ? SHARD_WAIT : a;
}

/* Takes those clocks of a record that are not too early. Taking a clock twice does no harm. Returns
 * whether all are taken now. */
static bool take_relayed_clocks(struct server_session *p, const uint8_t *payload, size_t len,
    bool again)
{
	struct rank_clock c;
	bool bad, all = true;
	size_t at = 0;

	while (sum_body_clocks_next(payload, len, &at, &c, &bad))
		all &= take_relayed_clock(p, &c, again) != SHARD_WAIT;
	/* An announcement of a worker whose view came after the first try was taken now. */
	if (all && again)
		shard_advance(session_shard(p));
	return all;
}

/* Pass the clocks on to the servers above this relay, after all were taken here. Returns the token
 * of the last one, for server_upstream.acked. */
static uint64_t forward_clocks(struct server *s, struct server_session *p, const uint8_t *payload,
    size_t len)
{
	struct rank_clock c;
	uint64_t token = 0;
	size_t at = 0;
	bool bad;

	while (sum_body_clocks_next(payload, len, &at, &c, &bad))
		if (shard_relay_may_push(session_shard(p), p->who.incarnation, c.rank,
		        c.incarnation) == SHARD_OK)
			token = server_upstream(s)->clock(s, &c);
	return token;
}

/* Answers a record of clocks after all were taken. */
static void acknowledge_clocks(struct server_session *p, const struct record *r,
    const uint8_t *payload)
{
	struct server *s = p->io_thread->server;

	if (server_upstream(s))
		session_add_pending(p, r,
		    &(struct pending_ack){ .kind = PENDING_CLOCKED,
		        .step = r->step,
		        .seq = r->seq,
		        .token = forward_clocks(s, p, payload, r->len) });
	else
		session_send_clocked(p,
		    &(struct pending_ack){ .step = r->step,
		        .seq = r->seq,
		        .epoch = r->epoch,
		        .generation = r->generation });
}

static void keep_early_clocks(struct server_session *p, const struct record *r,
    const uint8_t *payload)
{
	struct early_clocks *x = mem_alloc(sizeof *x + r->len), **last = &p->data.early_clocks;

	while (*last)
		last = &(*last)->next;
	*x = (struct early_clocks){ .head = *r };
	memcpy(x->payload, payload, r->len);
	p->data.early_records++;
	p->data.early_bytes += r->len;
	*last = x;
}

void session_retry_clocks(struct server_session *p)
{
	struct early_clocks **at = &p->data.early_clocks, *x;

	loop_assert_thread(p->io_thread->loop);
	while ((x = *at)) {
		if (!session_refuse_stale(p, &x->head)) {
			if (!take_relayed_clocks(p, x->payload, x->head.len, true)) {
				at = &x->next;
				continue;
			}
			acknowledge_clocks(p, &x->head, x->payload);
		}
		*at = x->next;
		p->data.early_records--;
		p->data.early_bytes -= x->head.len;
		free(x);
	}
}

static bool are_clocks_valid(const uint8_t *payload, size_t len)
{
	struct rank_clock c;
	size_t at = 0;
	bool bad;

	while (sum_body_clocks_next(payload, len, &at, &c, &bad))
		;
	return !bad;
}

/* A record with a clock that is too early is kept, and later records of the session are handled.
 * They may have the clock of another worker without which the early one can never be taken. This
 * happens when a server and the relay have both been started again: worker A has its CLOCKs of
 * steps s and s + 1 sent through the new relay, because the other servers have closed step s, and
 * only then worker B's CLOCK of step s, which its broken session to the old relay had delayed. This
 * server has not closed step s, and takes A's second CLOCK when it has B's. */
enum conn_verdict session_sum_clocks(struct server_session *p, const struct record *r,
    const uint8_t *payload)
{
	loop_assert_thread(p->io_thread->loop);
	if (session_refuse_stale(p, r))
		return CONN_TAKEN;
	if (!is_living_relay(p, r))
		return CONN_DROP;
	if (!are_clocks_valid(payload, r->len)) {
		session_refuse(p, r, ERR_PROTO, "malformed clocks");
		return CONN_DROP;
	}
	if (server_upstream(p->io_thread->server) && session_is_full(p))
		return CONN_HOLD;
	/* Earlier records go first, because a later one may announce other pushes of the same clock. */
	session_retry_clocks(p);
	if (take_relayed_clocks(p, payload, r->len, p->state == SESSION_CLOCK_HELD)) {
		p->state = SESSION_READING;
		acknowledge_clocks(p, r, payload);
		return CONN_TAKEN;
	}
	if (p->data.early_records == EARLY_CLOCKS_MOST ||
	    p->data.early_bytes + r->len > EARLY_CLOCKS_BYTES) {
		p->state = SESSION_CLOCK_HELD;
		return CONN_HOLD;
	}
	p->state = SESSION_READING;
	keep_early_clocks(p, r, payload);
	return CONN_TAKEN;
}
