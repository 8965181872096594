#include "base/mem.h"
#include "client/client_state.h"
#include "codec/since.h"

/* Sparse rows as they came last, for pulls that need bring only what has changed.  What
 * is used is young; when there is too much of that it is all old, and what was old until
 * then, and has not been used for as long, is forgotten. */
struct known {
	struct rows *young, *old;
};

/* Of all tables together. */
#define KNOWN_BYTES (64u << 20)

/* A row's values, and behind them of which version they are. */
static struct rows *store(const struct table *t)
{
	return rows_new(t->cols + sizeof(uint64_t) / sizeof(float));
}

static struct known *known_of(struct client *c, const struct table *t)
{
	if (t->id >= c->nknown) {
		c->known = mem_regrow(c->known, (size_t)t->id + 1, sizeof *c->known);
		while (c->nknown <= t->id)
			c->known[c->nknown++] = (struct known){ NULL, NULL };
	}
	if (!c->known[t->id].young)
		c->known[t->id] = (struct known){ store(t), store(t) };
	return &c->known[t->id];
}

static void age(const struct client *c, const struct table *t, struct known *k)
{
	if (rows_bytes(k->young) <= KNOWN_BYTES / 2 / c->layout.ntables)
		return;
	rows_free(k->old);
	k->old = k->young;
	k->young = store(t);
}

static float *make(struct known *k, uint64_t id)
{
	bool made;
	float *row = rows_put(k->young, id, &made);

	if (!row)
		abort();
	return row;
}

static const float *find(const struct known *k, uint64_t id)
{
	const float *row = rows_get(k->young, id);

	return row ? row : rows_get(k->old, id);
}

void known_ask(struct client *c, struct ask *a)
{
	uint32_t cols = a->table->cols;
	struct known *k;

	/* After a restart from a checkpoint versions are counted anew. */
	if (c->known_generation != c->layout.generation)
		known_forget(c);
	c->known_generation = c->layout.generation;
	k = known_of(c, a->table);
	a->since = mem_array(a->n, sizeof *a->since);
	for (uint32_t i = 0; i < a->n; i++) {
		const float *row = find(k, a->ids[i]);

		a->since[i] = SINCE_NEVER;
		if (!row)
			continue;
		memcpy(a->dst + (size_t)a->pos[i] * cols, row, cols * sizeof *row);
		memcpy(&a->since[i], row + cols, sizeof a->since[i]);
	}
}

void known_take(struct client *c, const struct ask *a, uint64_t version)
{
	struct known *k = known_of(c, a->table);
	uint32_t cols = a->table->cols;

	for (uint32_t i = 0; i < a->n; i++) {
		float *row = make(k, a->ids[i]);

		memcpy(row, a->dst + (size_t)a->pos[i] * cols, cols * sizeof *row);
		memcpy(row + cols, &version, sizeof version);
	}
	age(c, a->table, k);
}

void known_forget(struct client *c)
{
	for (size_t i = 0; i < c->nknown; i++) {
		rows_free(c->known[i].young);
		rows_free(c->known[i].old);
	}
	free(c->known);
	c->known = NULL;
	c->nknown = 0;
}
