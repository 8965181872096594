/* SPDX-License-Identifier: ISC */
#include "store/relayed_slots.h"

#include "core/json.h"
#include "core/mem.h"

/* A relay of the view. */
struct one {
	uint64_t incarnation; /* 0: it does not live */
	int upstream;         /* the relay that it sends to; -1: the servers */
	char key[48];
};

struct given {
	size_t n;
	struct one relay[];
};

static struct given *read_relays(const json_t *relays)
{
	size_t n = json_array_size(relays), i;
	struct given *g = n ? mem_alloc(sizeof *g + n * sizeof *g->relay) : NULL;
	const json_t *o;

	if (g)
		g->n = n;
	json_array_foreach(relays, i, o) {
		g->relay[i].incarnation = json_flag(o, "live") ? json_u64s(o, "incarnation", 0) : 0;
		g->relay[i].upstream = (int)json_int(o, "upstream", -1);
		snprintf(g->relay[i].key, sizeof g->relay[i].key, "%s", json_str(o, "key", ""));
	}
	return g;
}

/* Follow the relays from the worker's own one (number `at`, -1: none) to this process (`self`: our
 * number as a relay, -1: a server).  *out: the incarnation of the last relay before us, or 0 if the
 * worker sends to us directly.  False: its way does not lead here. */
static bool find_last_relay(const struct given *g, int64_t at, int self, uint64_t *out)
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

static bool is_member_state(const char *state)
{
	return strcmp(state, "active") == 0 || strcmp(state, "joining") == 0 ||
	    strcmp(state, "done") == 0;
}

void relayed_slots_install(struct server *s, const json_t *view, int self)
{
	struct given *g = read_relays(json_object_get(view, "relays")), *old;
	const json_t *w;
	size_t i;

	json_array_foreach(json_object_get(view, "workers"), i, w) {
		uint64_t relay = 0;

		if (!is_member_state(json_str(w, "state", "")) ||
		    !find_last_relay(g, json_int(w, "relay", -1), self, &relay))
			relay = 0;
		shard_set_relay(atomic_load(&s->shard), (uint32_t)i, relay,
		    relay ? json_u64s(w, "incarnation", 0) : 0);
	}
	rwlock_write(&s->keys.lock);
	old = s->keys.given;
	s->keys.given = g;
	rwlock_unlock(&s->keys.lock);
	relayed_slots_free(old);
}

bool relayed_slots_comes_here(struct server *s, const json_t *worker, int self)
{
	uint64_t ignored;
	bool ours;

	rwlock_read(&s->keys.lock);
	ours = is_member_state(json_str(worker, "state", "")) &&
	    find_last_relay(s->keys.given, json_int(worker, "relay", -1), self, &ignored);
	rwlock_unlock(&s->keys.lock);
	return ours;
}

void relayed_slots_free(struct given *g)
{
	free(g);
}

bool relayed_slots_knows_relay(struct server *s, const char *key, uint64_t incarnation)
{
	bool known = false;

	rwlock_read(&s->keys.lock);
	for (size_t i = 0; incarnation && s->keys.given && !known && i < s->keys.given->n; i++)
		known = s->keys.given->relay[i].incarnation == incarnation &&
		    strcmp(s->keys.given->relay[i].key, key) == 0;
	rwlock_unlock(&s->keys.lock);
	return known;
}
