/* SPDX-License-Identifier: ISC */
#include "codec/row_ids_cache.h"

#include <stdlib.h>
#include <string.h>

#include "core/mem.h"

/* uthash would call exit() when memory is lacking. */
#define uthash_malloc(size) mem_alloc(size)
#include <uthash.h>
#include <utlist.h>

struct cached_list {
	UT_hash_handle hh;
	struct cached_list *prev, *next;
	uint8_t name[ROW_IDS_NAME];
	size_t n;
	uint64_t *ids;
};

struct row_ids_cache {
	struct cached_list *by_name, *list; /* list: the most recently used first */
	size_t bytes;
};

/* The size that a list counts, with or without ids: both ends must compute the same. */
static size_t list_cost(const struct cached_list *k)
{
	return k->n * sizeof *k->ids + 256;
}

struct row_ids_cache *row_ids_cache_new(void)
{
	return mem_alloc(sizeof(struct row_ids_cache));
}

static void drop_list(struct row_ids_cache *c, struct cached_list *k)
{
	HASH_DEL(c->by_name, k);
	DL_DELETE(c->list, k);
	c->bytes -= list_cost(k);
	free(k->ids);
	free(k);
}

void row_ids_cache_free(struct row_ids_cache *c)
{
	while (c && c->list)
		drop_list(c, c->list);
	free(c);
}

static struct cached_list *find_list(struct row_ids_cache *c,
    const uint8_t name[static ROW_IDS_NAME])
{
	struct cached_list *k;

	HASH_FIND(hh, c->by_name, name, ROW_IDS_NAME, k);
	return k;
}

bool row_ids_cache_find(struct row_ids_cache *c, const uint8_t name[static ROW_IDS_NAME], size_t n,
    const uint64_t **ids)
{
	struct cached_list *k = find_list(c, name);

	if (!k || k->n != n)
		return false;
	DL_DELETE(c->list, k);
	DL_PREPEND(c->list, k);
	*ids = k->ids;
	return true;
}

void row_ids_cache_put(struct row_ids_cache *c, const uint8_t name[static ROW_IDS_NAME], size_t n,
    uint64_t *ids)
{
	struct cached_list *k = find_list(c, name);

	if (k)
		drop_list(c, k);
	k = mem_alloc(sizeof *k);
	memcpy(k->name, name, ROW_IDS_NAME);
	k->n = n;
	k->ids = ids;
	HASH_ADD(hh, c->by_name, name, ROW_IDS_NAME, k);
	DL_PREPEND(c->list, k);
	c->bytes += list_cost(k);
	while (c->bytes > ROW_IDS_CACHE_BYTES && c->list->prev != c->list)
		drop_list(c, c->list->prev);
}

void row_ids_cache_forget(struct row_ids_cache *c, const uint8_t name[static ROW_IDS_NAME])
{
	struct cached_list *k = find_list(c, name);

	if (k)
		drop_list(c, k);
}
