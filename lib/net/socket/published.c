/* SPDX-License-Identifier: ISC */
#include "socket/published.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/mem.h"
#include "socket/sealed.h"

#define BYTES_ALIGN 16u
#define PAGE        4096u
#define WHAT        "published memory"

/* The bytes begin at the same offset in a page as the large arrays of the system's allocator. With
 * other offsets a processor may mistake a load from one array for a load of what was just stored to
 * the other (4K aliasing). */
struct slot {
	_Alignas(PAGE) _Atomic uint64_t state;
	_Alignas(BYTES_ALIGN) uint8_t bytes[PUBLISHED_BYTES];
};

struct published {
	struct sealed memory;
	struct slot *at; /* n places in it */
	size_t n;
	_Atomic bool *taken; /* by place */
	_Atomic size_t next; /* where the search for a free place begins */
};

struct published_view {
	struct sealed_view memory;
	const struct slot *at;
	size_t n;
};

/* ---- the writer ---- */

/* As many places as fit into the memory of the machine. */
static size_t count_places(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);

	if (pages <= 0 || size <= 0)
		return 0;
	return (size_t)pages / (sizeof(struct slot) / PAGE) * ((size_t)size / PAGE);
}

static enum err_code map_places(struct published *p, struct err *e)
{
	enum err_code rc = sealed_new(WHAT, p->n * sizeof(struct slot), &p->memory, e);

	if (rc)
		return rc;
	p->at = (struct slot *)(void *)p->memory.at;
	madvise(p->at, p->memory.size, MADV_DONTDUMP);
	return ERR_OK;
}

enum err_code published_new(struct published **out, struct err *e)
{
	struct published *p = mem_alloc(sizeof *p);
	enum err_code rc;

	p->memory.fd = -1;
	p->n = count_places();
	p->taken = mem_try_array(p->n + 1, sizeof *p->taken);
	rc = p->n && p->taken ? map_places(p, e) : err_set(e, ERR_NOMEM, "no " WHAT);
	if (rc) {
		published_free(p);
		return rc;
	}
	*out = p;
	return ERR_OK;
}

void published_free(struct published *p)
{
	if (!p)
		return;
	sealed_release(&p->memory);
	free(p->taken);
	free(p);
}

uint64_t published_bytes(const struct published *p)
{
	return p ? p->n * sizeof(struct slot) : 0;
}

int published_fd(const struct published *p)
{
	return p->memory.fd;
}

void *published_take(struct published *p, size_t bytes)
{
	size_t from = p ? atomic_load(&p->next) : 0;

	for (size_t k = 0; p && bytes <= PUBLISHED_BYTES && k < p->n; k++) {
		size_t i = (from + k) % p->n;

		if (atomic_exchange(&p->taken[i], true))
			continue;
		atomic_store(&p->next, i + 1);
		return p->at[i].bytes;
	}
	return NULL;
}

static struct slot *slot_of(const void *at)
{
	return (struct slot *)((uintptr_t)at - offsetof(struct slot, bytes));
}

void published_give(struct published *p, void *at)
{
	size_t i = (size_t)(slot_of(at) - p->at);

	published_begin_change(p, at);
	published_end_change(p, at);
	atomic_store(&p->taken[i], false);
	/* Prefer places that have pages already. */
	if (i < atomic_load(&p->next))
		atomic_store(&p->next, i);
}

void published_begin_change(struct published *p, const void *at)
{
	_Atomic uint64_t *state;

	if (!p)
		return;
	state = &slot_of(at)->state;
	atomic_store_explicit(state, atomic_load_explicit(state, memory_order_relaxed) + 1,
	    memory_order_relaxed);
	/* No byte is changed before a reader can see the odd state. */
	atomic_thread_fence(memory_order_release);
}

void published_end_change(struct published *p, const void *at)
{
	_Atomic uint64_t *state;

	if (!p)
		return;
	state = &slot_of(at)->state;
	atomic_store_explicit(state, atomic_load_explicit(state, memory_order_relaxed) + 1,
	    memory_order_release);
}

uint32_t published_place(const struct published *p, const void *at, uint64_t *state)
{
	*state = atomic_load_explicit(&slot_of(at)->state, memory_order_relaxed);
	return (uint32_t)(slot_of(at) - p->at);
}

/* ---- the reader ---- */

enum err_code published_map(int fd, struct published_view **out, struct err *e)
{
	struct sealed_view memory;
	enum err_code rc = sealed_map(WHAT, fd, &memory, e);
	struct published_view *v;

	if (rc)
		return rc;
	if (memory.size % sizeof(struct slot)) {
		sealed_unmap(&memory);
		return err_set(e, ERR_PROTO, "malformed " WHAT);
	}
	v = mem_alloc(sizeof *v);
	v->memory = memory;
	v->at = (const struct slot *)(const void *)memory.at;
	v->n = memory.size / sizeof(struct slot);
	*out = v;
	return ERR_OK;
}

void published_unmap(struct published_view *v)
{
	if (!v)
		return;
	sealed_unmap(&v->memory);
	free(v);
}

bool published_has(const struct published_view *v, uint32_t place, size_t n)
{
	return place < v->n && n <= PUBLISHED_BYTES;
}

bool published_copy(const struct published_view *v, uint32_t place, uint64_t state, void *to,
    size_t n)
{
	const struct slot *x = &v->at[place];

	if (state % 2 || atomic_load_explicit(&x->state, memory_order_acquire) != state)
		return false;
	/* The writer may change these bytes meanwhile; the second test of the state then rejects
	 * the copy. */
	memcpy(to, x->bytes, n);
	/* The bytes have been read before the state is read again. */
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&x->state, memory_order_relaxed) == state;
}
