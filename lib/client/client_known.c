#include "base/mem.h"
#include "client/client_state.h"
#include "codec/since.h"
#include "kern/copy.h"

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

static uint32_t block(const struct ask *a, uint32_t at)
{
	return a->n - at < ROWS_BLOCK ? a->n - at : ROWS_BLOCK;
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
	a->since = mem_regrow(NULL, a->n, sizeof *a->since);
	for (uint32_t at = 0; at < a->n; at += ROWS_BLOCK) {
		const uint8_t *ids = (const uint8_t *)(a->ids + at);
		float *young[ROWS_BLOCK], *old[ROWS_BLOCK];
		uint32_t n = block(a, at);

		rows_find(k->young, ids, n, young);
		rows_find(k->old, ids, n, old);
		for (uint32_t i = 0; i < n; i++) {
			const float *row = young[i] ? young[i] : old[i];

			a->since[at + i] = SINCE_NEVER;
			if (!row)
				continue;
			copy_floats(a->dst + (size_t)a->pos[at + i] * cols, row, cols);
			memcpy(&a->since[at + i], row + cols, sizeof *a->since);
		}
	}
}

void known_take(struct client *c, const struct ask *a, uint64_t version)
{
	struct known *k = known_of(c, a->table);
	uint32_t cols = a->table->cols;

	for (uint32_t at = 0; at < a->n; at += ROWS_BLOCK) {
		float *row[ROWS_BLOCK];
		uint64_t made;
		uint32_t n = block(a, at);

		if (!rows_make(k->young, (const uint8_t *)(a->ids + at), n, row, &made))
			abort();
		for (uint32_t i = 0; i < n; i++) {
			copy_floats(row[i], a->dst + (size_t)a->pos[at + i] * cols, cols);
			memcpy(row[i] + cols, &version, sizeof version);
		}
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
