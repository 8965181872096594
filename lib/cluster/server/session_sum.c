/* SPDX-License-Identifier: ISC */
#include "core/clock.h"
#include "core/endian.h"
#include "core/fail.h"
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

/* Take the clock of one worker. The relay's word about a worker that it no longer serves is
 * ignored: that worker's clock reaches us another way. */
static enum shard_answer take_relayed_clock(struct server_session *p, const struct rank_clock *c)
{
	struct shard *sh = session_shard(p);
	enum shard_answer a = shard_relay_may_push(sh, p->who.incarnation, c->rank, c->incarnation);
	bool advance;

	if (a != SHARD_OK)
		return a;
	advance = session_expect_announced(p, c) && p->state != SESSION_CLOCK_HELD;
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

/* The record is held until every clock in it is taken. Taking a clock twice does no harm. */
enum conn_verdict session_sum_clocks(struct server_session *p, const struct record *r,
    const uint8_t *payload)
{
	struct server *s = p->io_thread->server;
	struct rank_clock c;
	size_t at = 0;
	bool bad, hold = false;

	loop_assert_thread(p->io_thread->loop);
	if (session_refuse_stale(p, r))
		return CONN_TAKEN;
	if (!is_living_relay(p, r))
		return CONN_DROP;
	if (server_upstream(s) && session_is_full(p))
		return CONN_HOLD;
	while (sum_body_clocks_next(payload, r->len, &at, &c, &bad))
		hold |= take_relayed_clock(p, &c) == SHARD_WAIT;
	p->state = hold && !bad ? SESSION_CLOCK_HELD : SESSION_READING;
	if (bad) {
		session_refuse(p, r, ERR_PROTO, "malformed clocks");
		return CONN_DROP;
	}
	if (hold)
		return CONN_HOLD;
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
	return CONN_TAKEN;
}
