/* SPDX-License-Identifier: ISC */
#include "core/map.h"

#include "core/keyed_hash.h"
#include "core/mem.h"

/* uthash would call exit() when memory is lacking. */
#define uthash_malloc(size) mem_alloc(size)
/* Names may come from data and from peers. */
#define HASH_FUNCTION(key, n, out) ((out) = (unsigned)keyed_hash_bytes(key, n))
#include <uthash.h>

struct entry {
	UT_hash_handle hh;
	void *value;
	char name[];
};

struct map {
	struct entry *head;
};

struct map *map_new(void)
{
	keyed_hash_begin();
	return mem_alloc(sizeof(struct map));
}

void map_free(struct map *m)
{
	struct entry *x, *next;

	if (!m)
		return;
	/* cppcheck-suppress uninitvar ; HASH_ITER sets it */
	HASH_ITER(hh, m->head, x, next)
	{
		HASH_DEL(m->head, x);
		free(x);
	}
	free(m);
}

static struct entry *find_entry(const struct map *m, const char *name)
{
	struct entry *x;

	HASH_FIND_STR(m->head, name, x);
	return x;
}

void map_put(struct map *m, const char *name, void *value)
{
	struct entry *x = find_entry(m, name);
	size_t n = strlen(name) + 1;

	if (!x) {
		x = mem_alloc(sizeof *x + n);
		memcpy(x->name, name, n);
		HASH_ADD_KEYPTR(hh, m->head, x->name, n - 1, x);
	}
	x->value = value;
}

void *map_get(const struct map *m, const char *name)
{
	struct entry *x = find_entry(m, name);

	return x ? x->value : NULL;
}
