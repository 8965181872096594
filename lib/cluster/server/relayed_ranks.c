/* SPDX-License-Identifier: ISC */
#include "server/relayed_ranks.h"

#include "core/json.h"
#include "core/mem.h"

/* A relay of the view. */
struct relay_row {
	uint64_t incarnation; /* 0: it does not live */
	int upstream;         /* the relay that it sends to; -1: the servers */
	char key[48];
};

struct relayed_ranks {
	size_t n;
	struct relay_row relay[];
};

static struct relayed_ranks *read_relays(const struct view *view)
{
	size_t n = view->nrelays;
	struct relayed_ranks *g = n ? mem_alloc(sizeof *g + n * sizeof *g->relay) : NULL;

	if (g)
		g->n = n;
	for (size_t i = 0; i < n; i++) {
		const struct view_relay *o = &view->relays[i];

		g->relay[i].incarnation = o->live ? o->incarnation : 0;
		g->relay[i].upstream = (int)o->upstream;
		snprintf(g->relay[i].key, sizeof g->relay[i].key, "%s", o->key);
	}
	return g;
}

/* Follow the relays from the worker's own one (number `at`, -1: none) to this process (`self`: our
 * number as a relay, -1: a server). *out: the incarnation of the last relay before us, or 0 if the
 * worker sends to us directly. False: its way does not lead here. */
static bool find_last_relay(const struct relayed_ranks *g, int64_t at, int self, uint64_t *out)
{
	*out = 0;
	for (size_t hops = 0; at != self && g && hops <= g->n; hops++) {
		if (at < 0 || (size_t)at >= g->n)
			return false;
		*out = g->relay[at].incarnation;
		at = g->relay[at].upstream;
	}
	return at == self;
}

static bool is_member_state(int64_t state)
{
	return state == WORKER_ACTIVE || state == WORKER_JOINING || state == WORKER_DONE;
}

void relayed_ranks_install(struct server *s, const struct view *view, int self)
{
	struct relayed_ranks *g = read_relays(view), *old;

	for (size_t i = 0; i < view->nworkers; i++) {
		const struct view_worker *w = &view->workers[i];
		uint64_t relay = 0;

		if (!is_member_state(w->state) || !find_last_relay(g, w->relay, self, &relay))
			relay = 0;
		shard_set_relay(atomic_load(&s->shard), (uint32_t)i, relay,
		    relay ? w->incarnation : 0);
	}
	rwlock_write(&s->keys.lock);
	old = s->keys.relays;
	s->keys.relays = g;
	rwlock_unlock(&s->keys.lock);
	relayed_ranks_free(old);
}

bool relayed_ranks_comes_here(struct server *s, const struct view_worker *worker, int self)
{
	uint64_t ignored;
	bool ours;

	rwlock_read(&s->keys.lock);
	ours = is_member_state(worker->state) &&
	    find_last_relay(s->keys.relays, worker->relay, self, &ignored);
	rwlock_unlock(&s->keys.lock);
	return ours;
}

void relayed_ranks_free(struct relayed_ranks *g)
{
	free(g);
}

bool relayed_ranks_knows_relay(struct server *s, const char *key, uint64_t incarnation)
{
	bool known = false;

	rwlock_read(&s->keys.lock);
	for (size_t i = 0; incarnation && s->keys.relays && !known && i < s->keys.relays->n; i++)
		known = s->keys.relays->relay[i].incarnation == incarnation &&
		    strcmp(s->keys.relays->relay[i].key, key) == 0;
	rwlock_unlock(&s->keys.lock);
	return known;
}
