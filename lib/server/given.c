#include "server/given.h"

#include "base/json.h"
#include "base/mem.h"

struct one {
	uint64_t incarnation;           /* 0: it does not live */
	int upstream;                   /* the relay that it sends to; -1: the servers */
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

/* Of the relays on the way from the worker to us the last, by its incarnation; 0: the
 * worker itself.  self: our own number, -1 of a server.  False: it does not come here. */
static bool speaker(const struct given *g, int64_t at, int self, uint64_t *out)
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

static bool takes_part(const char *state)
{
	return strcmp(state, "active") == 0 || strcmp(state, "joining") == 0 || strcmp(state, "done") == 0;
}

void given_take(struct server *s, const json_t *view, int self)
{
	struct given *g = read_relays(json_object_get(view, "relays")), *old;
	const json_t *w;
	size_t i;

	json_array_foreach(json_object_get(view, "workers"), i, w) {
		uint64_t relay = 0;

		if (!takes_part(json_str(w, "state", "")) || !speaker(g, json_int(w, "relay", -1), self, &relay))
			relay = 0;
		shard_give(atomic_load(&s->shard), (uint32_t)i, relay, relay ? json_u64s(w, "incarnation", 0) : 0);
	}
	pthread_rwlock_wrlock(&s->keys_lock);
	old = s->given;
	s->given = g;
	pthread_rwlock_unlock(&s->keys_lock);
	given_free(old);
}

bool given_ours(struct server *s, const json_t *worker, int self)
{
	uint64_t ignored;
	bool ours;

	pthread_rwlock_rdlock(&s->keys_lock);
	ours = takes_part(json_str(worker, "state", "")) && speaker(s->given, json_int(worker, "relay", -1), self, &ignored);
	pthread_rwlock_unlock(&s->keys_lock);
	return ours;
}

void given_free(struct given *g)
{
	free(g);
}

bool given_knows(struct server *s, const char *key, uint64_t incarnation)
{
	bool known = false;

	pthread_rwlock_rdlock(&s->keys_lock);
	for (size_t i = 0; incarnation && s->given && !known && i < s->given->n; i++)
		known = s->given->relay[i].incarnation == incarnation && strcmp(s->given->relay[i].key, key) == 0;
	pthread_rwlock_unlock(&s->keys_lock);
	return known;
}
