/* SPDX-License-Identifier: ISC */
#include "server/server_state.h"

/* Records from the previous server of a chain, for partitions of which this server has a replica.
 * The answer (REPLICATED) waits, like a receipt, until the replicas after this one have the record,
 * too: so one REPLICATED confirms all of them. */

enum conn_verdict session_repl(struct server_session *p, const struct record *r,
    const uint8_t *payload)
{
	struct server *s = p->io_thread->server;
	struct shard *sh = atomic_load(&s->shard);
	struct repl_record c = { .kind = (enum repl_kind)(r->type - REC_REPL_SUM + REPL_SUM),
		.table = r->table,
		.codec = r->codec,
		.part = r->part,
		.step = r->step };
	struct pending_ack x = { .kind = PENDING_REPLICATED,
		.table = r->table,
		.part = r->part,
		.seq = r->seq };
	const uint8_t *body;
	enum shard_answer a;
	enum conn_verdict v;

	loop_assert_thread(p->io_thread->loop);
	/* The sender may have been cut off from the chain. Without our acknowledgement it cannot
	 * acknowledge anything to others. */
	if (r->epoch != atomic_load(&s->epochs.installed) ||
	    r->generation != atomic_load(&s->epochs.generation)) {
		session_drop_pieces(p);
		return CONN_TAKEN;
	}
	v = session_collect_pieces(p, r, payload, &body);
	if (v != CONN_TAKEN || !body)
		return v;
	if (session_has_too_many_records(p)) {
		session_refuse(p, r, ERR_LIMIT,
		    "more than %zu replication records without an answer", p->data.npending);
		return CONN_DROP;
	}
	a = shard_replicate(sh, &c, body, r->total, &x.due);
	if (a == SHARD_WAIT)
		return CONN_HOLD;
	session_drop_pieces(p);
	if (a == SHARD_OK) {
		session_add_pending(p, r, &x);
	} else if (a == SHARD_BAD) {
		session_refuse(p, r, ERR_PROTO,
		    "%s of table %u partition %u does not fit the replica here",
		    record_type_name(r->type), r->table, r->part);
		return CONN_DROP;
	}
	return CONN_TAKEN;
}
