/* SPDX-License-Identifier: ISC */
#include "core/mem.h"
#include "client/client_state.h"
#include "codec/row_versions.h"
#include "math/copy.h"

/* A cache of pulled rows of sparse tables, so that a pull need bring only rows that have
 * changed. Each table has two generations: used rows go to the young one; when that is too
 * large it becomes the old one, and the rows of the old one that were not used since are
 * forgotten. */
struct known {
	struct rows *young, *old;
};

/* The limit for all tables together. */
#define KNOWN_BYTES (64u << 20)

/* A store for rows whose values are followed by their version. */
static struct rows *new_row_store(const struct table *t)
{
	return rows_new(t->cols * (uint32_t)sizeof(float) + (uint32_t)sizeof(uint64_t));
}

static struct known *table_cache(struct client *c, const struct table *t)
{
	if (t->id >= c->cache.ntables) {
		c->cache.tables = mem_regrow(c->cache.tables, (size_t)t->id + 1,
		    sizeof *c->cache.tables);
		while (c->cache.ntables <= t->id)
			c->cache.tables[c->cache.ntables++] = (struct known){ NULL, NULL };
	}
	if (!c->cache.tables[t->id].young)
		c->cache.tables[t->id] = (struct known){ new_row_store(t), new_row_store(t) };
	return &c->cache.tables[t->id];
}

/* Start a new young generation when the present one has its share of the memory. */
static void age_cache(const struct client *c, const struct table *t, struct known *k)
{
	if (rows_bytes(k->young) <= KNOWN_BYTES / 2 / c->layout.ntables)
		return;
	rows_free(k->old);
	k->old = k->young;
	k->young = new_row_store(t);
}

/* How many rows the block at `at` has: the row store is asked for one block at a time. */
static uint32_t row_block_size(const struct request *r, uint32_t at)
{
	return r->n - at < ROWS_BLOCK ? r->n - at : ROWS_BLOCK;
}

void client_row_cache_lookup(struct request *r)
{
	struct client *c = r->client;
	uint32_t cols = r->table->cols;
	struct known *k = table_cache(c, r->table);

	r->pull.since = mem_regrow(NULL, r->n, sizeof *r->pull.since);
	for (uint32_t at = 0; at < r->n; at += ROWS_BLOCK) {
		const uint8_t *ids = (const uint8_t *)(r->pull.ids + at);
		void *young[ROWS_BLOCK], *old[ROWS_BLOCK];
		uint32_t n = row_block_size(r, at);

		rows_find(k->young, ids, n, young);
		rows_find(k->old, ids, n, old);
		for (uint32_t i = 0; i < n; i++) {
			const float *row = young[i] ? young[i] : old[i];

			r->pull.since[at + i] = ROW_VERSION_NONE;
			if (!row)
				continue;
			copy_floats(r->pull.dst + (size_t)r->pull.pos[at + i] * cols, row, cols);
			memcpy(&r->pull.since[at + i], row + cols, sizeof *r->pull.since);
		}
	}
}

void client_row_cache_store(const struct request *r, uint64_t version)
{
	struct client *c = r->client;
	struct known *k = table_cache(c, r->table);
	uint32_t cols = r->table->cols;

	for (uint32_t at = 0; at < r->n; at += ROWS_BLOCK) {
		void *row[ROWS_BLOCK];
		uint64_t made;
		uint32_t n = row_block_size(r, at);

		if (!rows_make(k->young, (const uint8_t *)(r->pull.ids + at), n, row, &made))
			abort();
		for (uint32_t i = 0; i < n; i++) {
			copy_floats(row[i], r->pull.dst + (size_t)r->pull.pos[at + i] * cols, cols);
			memcpy((float *)row[i] + cols, &version, sizeof version);
		}
	}
	age_cache(c, r->table, k);
}

void client_row_cache_free(struct client *c)
{
	for (size_t i = 0; i < c->cache.ntables; i++) {
		rows_free(c->cache.tables[i].young);
		rows_free(c->cache.tables[i].old);
	}
	free(c->cache.tables);
	c->cache.tables = NULL;
	c->cache.ntables = 0;
}
