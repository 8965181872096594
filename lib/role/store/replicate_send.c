/* SPDX-License-Identifier: ISC */
#include "store/replicate_state.h"

#include "core/mem.h"

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
		.generation = atomic_load(&s->epochs.generation) };

	/* Partitions take their places in a new layout before the links learn of it
	 * (apply_view_news, which sends everything again). A record that was sent meanwhile under
	 * the old epoch could reach a server that is still in the old layout, and leaves the chain
	 * in one between the two: its acknowledgement of a state transfer would count, although it
	 * then dropped what it had. `installing` is set before any partition changes, and the
	 * partition's lock is held here. */
	if (atomic_load(&s->epochs.installing) != l->repl->epoch ||
	    conn_queued(l->conn) > LINK_QUEUE_MAX)
		return false;
	batcher_send_parts(&l->batcher, l->conn, &out,
	    &(struct batcher_parts){ c->head, c->body, c->nhead, c->nbody });
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
	l->todo = mem_grow(l->todo, &l->cap, l->ntodo + 1, sizeof *l->todo);
	l->todo[l->ntodo++] = t;
}
