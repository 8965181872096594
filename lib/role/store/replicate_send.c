/* SPDX-License-Identifier: ISC */
#include "store/replicate_state.h"

#include "core/mem.h"

/* Queues the piece of a record that begins at byte `at` of head and body together. Small pieces
 * are gathered, large ones are copied straight into the queue of the connection. */
static void send_record_piece(struct link *l, struct record *out, const struct repl_record *c,
    uint64_t at)
{
	uint64_t left = out->total - at;
	size_t fromhead;
	uint8_t *to;

	out->offset = at;
	out->len = (uint32_t)(left < RECORD_MAX ? left : RECORD_MAX);
	fromhead = at < c->nhead ? c->nhead - at < out->len ? c->nhead - at : out->len : 0;
	if (out->len <= BATCHER_SMALL) {
		uint8_t small[BATCHER_SMALL];

		memcpy(small, c->head + (at < c->nhead ? at : 0), fromhead);
		if (out->len > fromhead)
			memcpy(small + fromhead, c->body + (at + fromhead - c->nhead),
			    out->len - fromhead);
		batcher_add(&l->batcher, l->conn, out, small);
		return;
	}
	batcher_flush(&l->batcher, l->conn);
	to = conn_reserve(l->conn, out->len);
	memcpy(to, c->head + (at < c->nhead ? at : 0), fromhead);
	memcpy(to + fromhead, c->body + (at + fromhead - c->nhead), out->len - fromhead);
	conn_commit(l->conn, out);
}

bool replicate_link_put(void *ctx, const struct repl_record *c)
{
	struct link *l = ctx;
	struct server *s = l->repl->server;
	struct record out = { .type = (uint8_t)(REC_REPL_SUM + c->kind - REPL_SUM),
		.table = c->table,
		.part = c->part,
		.codec = c->codec,
		.step = c->step,
		.seq = c->seq,
		.epoch = l->repl->epoch,
		.generation = atomic_load(&s->epochs.generation),
		.total = c->nhead + c->nbody };

	if (conn_queued(l->conn) > LINK_QUEUE_MAX)
		return false;
	for (uint64_t at = 0; at < out.total; at += out.len)
		send_record_piece(l, &out, c, at);
	return true;
}

bool replicate_link_next(struct link *l, struct todo *out)
{
	struct repl *r = l->repl;
	bool some;

	mutex_lock(&r->lock);
	some = l->ntodo > 0;
	if (some) {
		*out = l->todo[0];
		memmove(l->todo, l->todo + 1, --l->ntodo * sizeof *l->todo);
	}
	mutex_unlock(&r->lock);
	return some;
}

void replicate_link_add(struct link *l, struct todo t)
{
	if (l->ntodo && l->todo[l->ntodo - 1].table == t.table &&
	    l->todo[l->ntodo - 1].part == t.part)
		return;
	if (l->ntodo == l->cap) {
		l->cap = l->cap ? l->cap * 2 : 64;
		l->todo = mem_regrow(l->todo, l->cap, sizeof *l->todo);
	}
	l->todo[l->ntodo++] = t;
}
