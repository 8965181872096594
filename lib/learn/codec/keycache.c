/* SPDX-License-Identifier: ISC */
#include "codec/keycache.h"

#include <stdlib.h>
#include <string.h>

#include "core/mem.h"

/* uthash would call exit() when memory is lacking. */
#define uthash_malloc(size) mem_alloc(size)
#include <uthash.h>
#include <utlist.h>

struct kept {
	UT_hash_handle hh;
	struct kept *prev, *next;
	uint8_t name[KEYS_NAME];
	size_t n;
	uint64_t *ids;
};

struct keycache {
	struct kept *by_name, *list; /* list: the most recently used first */
	size_t bytes;
};

/* The size that a list counts, with or without ids: both ends must compute the same. */
static size_t list_cost(const struct kept *k)
{
	return k->n * sizeof *k->ids + 256;
}

struct keycache *keycache_new(void)
{
	return mem_alloc(sizeof(struct keycache));
}

static void drop_list(struct keycache *c, struct kept *k)
{
	HASH_DEL(c->by_name, k);
	DL_DELETE(c->list, k);
	c->bytes -= list_cost(k);
	free(k->ids);
	free(k);
}

void keycache_free(struct keycache *c)
{
	while (c && c->list)
		drop_list(c, c->list);
	free(c);
}

static struct kept *find_list(struct keycache *c, const uint8_t name[static KEYS_NAME])
{
	struct kept *k;

	HASH_FIND(hh, c->by_name, name, KEYS_NAME, k);
	return k;
}

bool keycache_find(struct keycache *c, const uint8_t name[static KEYS_NAME], size_t n,
    const uint64_t **ids)
{
	struct kept *k = find_list(c, name);

	if (!k || k->n != n)
		return false;
	DL_DELETE(c->list, k);
	DL_PREPEND(c->list, k);
	*ids = k->ids;
	return true;
}

void keycache_put(struct keycache *c, const uint8_t name[static KEYS_NAME], size_t n, uint64_t *ids)
{
	struct kept *k = find_list(c, name);

	if (k)
		drop_list(c, k);
	k = mem_alloc(sizeof *k);
	memcpy(k->name, name, KEYS_NAME);
	k->n = n;
	k->ids = ids;
	HASH_ADD(hh, c->by_name, name, KEYS_NAME, k);
	DL_PREPEND(c->list, k);
	c->bytes += list_cost(k);
	while (c->bytes > KEYCACHE_BYTES && c->list->prev != c->list)
		drop_list(c, c->list->prev);
}

void keycache_forget(struct keycache *c, const uint8_t name[static KEYS_NAME])
{
	struct kept *k = find_list(c, name);

	if (k)
		drop_list(c, k);
}
