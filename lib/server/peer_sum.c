#include "base/clock.h"
#include "base/fail.h"
#include "client/tracer.h"
#include "server/given.h"
#include "server/peer_trace.h"
#include "server/uplink.h"

/* What relays send: sums of pushes, and the clocks of their slots. */

static struct shard *shard_of(const struct peer *p)
{
	return atomic_load(&p->lane->server->shard);
}

/* Its key may be a relay's; its word is that of the process in the view. */
static bool is_relay(struct peer *p, const struct record *r)
{
	if (given_knows(p->lane->server, p->keytext, p->incarnation))
		return true;
	peer_nack(p, r, ERR_FENCED, "%s is not one of the cluster's relays", p->name);
	return false;
}

static enum conn_verdict take_sum(struct peer *p, const struct record *r, const uint8_t *body, size_t len)
{
	const struct table *t = shard_table(shard_of(p), r->table);
	struct sum sum = { .relay = p->incarnation, .step = r->step, .table = r->table, .part = r->part };
	enum shard_answer a = SHARD_BAD;
	int64_t begin = tracer_is_on(p->lane->server->tracer) ? clock_now() : 0;
	struct receipt m;

	if (!is_relay(p, r))
		return CONN_DROP;
	if (t && sum_parse(body, len, t->sparse ? t->cols : 0, &sum.body))
		a = shard_push_sum(shard_of(p), &sum, &m);
	switch (a) {
	case SHARD_OK:
		FAIL_POINT("sum_taken");
		if (begin)
			trace_push(p, r->step, begin);
		peer_promise(p, &(struct promise){ .kind = PROMISE_SUMMED, .table = r->table, .part = r->part,
			.steps = m.safe_steps, .status = m.status, .step = r->step, .seq = r->seq });
		return CONN_TAKEN;
	case SHARD_HOLD:
		return CONN_HOLD;
	case SHARD_ELSEWHERE:
		peer_object(p, r, ERR_STALE, "table %u partition %u is pushed to another server", r->table, r->part);
		return CONN_TAKEN;
	default:
		peer_nack(p, r, ERR_PROTO, "a sum for table %u partition %u that does not fit", r->table, r->part);
		return CONN_DROP;
	}
}

enum conn_verdict peer_push_sum(struct peer *p, const struct record *r, const uint8_t *payload)
{
	return peer_staged(p, r, payload, take_sum);
}

/* ---- clocks ------------------------------------------------------------------------- */

/* One slot's.  Of who is no longer the relay's it says nothing: another tells us. */
static enum shard_answer take_clock(struct peer *p, const struct slot_clock *c)
{
	struct shard *sh = shard_of(p);
	enum shard_answer a = shard_speaks(sh, p->incarnation, c->slot, c->incarnation);
	bool settle;

	if (a != SHARD_OK)
		return a;
	settle = peer_claims(p, c) && !p->retold;
	if (c->clocks)
		a = shard_clock(sh, c->slot, c->incarnation, c->step, c->examples);
	if (a == SHARD_OK && c->done)
		a = shard_done(sh, c->slot, c->incarnation);
	if (settle)
		shard_settle(sh);
	if (a == SHARD_OK && c->clocks && tracer_is_on(p->lane->server->tracer))
		trace_clock(p, c->slot, c->step);
	/* It was right a moment ago: then the view has still to come. */
	return a == SHARD_FENCED ? SHARD_HOLD : a;
}

/* To those above, when all were taken here: what the last of them waits for. */
static uint64_t hand_on(struct server *s, struct peer *p, const uint8_t *payload, size_t len)
{
	struct slot_clock c;
	uint64_t token = 0;
	size_t at = 0;
	bool bad;

	while (clocks_next(payload, len, &at, &c, &bad))
		if (shard_speaks(shard_of(p), p->incarnation, c.slot, c.incarnation) == SHARD_OK)
			token = uplink_clock(s->uplink, &c);
	return token;
}

/* Held until all are taken: each may be taken twice. */
enum conn_verdict peer_clocks(struct peer *p, const struct record *r, const uint8_t *payload)
{
	struct server *s = p->lane->server;
	struct slot_clock c;
	size_t at = 0;
	bool bad, hold = false;

	if (peer_stale(p, r))
		return CONN_TAKEN;
	if (!is_relay(p, r))
		return CONN_DROP;
	while (clocks_next(payload, r->len, &at, &c, &bad))
		hold |= take_clock(p, &c) == SHARD_HOLD;
	p->retold = hold && !bad;
	if (bad) {
		peer_nack(p, r, ERR_PROTO, "clocks that are none");
		return CONN_DROP;
	}
	if (hold)
		return CONN_HOLD;
	if (s->uplink)
		peer_promise(p, &(struct promise){ .kind = PROMISE_CLOCKED, .step = r->step, .seq = r->seq,
			.version = hand_on(s, p, payload, r->len) });
	else
		peer_clocked(p, r->step, r->seq);
	return CONN_TAKEN;
}
