#include "server/state.h"

/* What another server sends of partitions of which this one has the next copy. */

enum conn_verdict peer_copy(struct peer *p, const struct record *r, const uint8_t *payload)
{
	struct server *s = p->lane->server;
	struct shard *sh = atomic_load(&s->shard);
	struct copy c = { .kind = (enum copy_kind)(r->type - REC_COPY_SUM + COPY_SUM), .table = r->table,
		.codec = r->codec, .part = r->part, .step = r->step };
	struct promise x = { .kind = PROMISE_COPIED, .table = r->table, .part = r->part, .seq = r->seq };
	const uint8_t *body;
	enum shard_answer a;
	enum conn_verdict v;

	/* Of a server whose time is over: it gets no answer, and so can give none. */
	if (r->epoch != atomic_load(&s->epoch) || r->generation != atomic_load(&s->generation)) {
		peer_gathered(p);
		return CONN_TAKEN;
	}
	v = peer_gather(p, r, payload, &body);
	if (v != CONN_TAKEN || !body)
		return v;
	a = shard_copy(sh, &c, body, r->total, &x.steps, &x.version);
	if (a == SHARD_HOLD)
		return CONN_HOLD;
	peer_gathered(p);
	if (a == SHARD_OK) {
		peer_promise(p, &x);
	} else if (a == SHARD_BAD) {
		peer_nack(p, r, ERR_PROTO, "%s of table %u partition %u does not fit what is here", record_type_name(r->type),
		    r->table, r->part);
		return CONN_DROP;
	}
	return CONN_TAKEN;
}
