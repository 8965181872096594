/* SPDX-License-Identifier: ISC */
#include "tests/sim/sim.h"

#include <string.h>
#include <sys/mman.h>

/* The memory of the processes. It all lies in one region whose addresses depend on nothing but the
 * order of the calls, so that code which orders or hashes by address replays, too. */

#define REGION      (UINT64_C(1) << 36)
#define SPAN        (UINT64_C(1) << 16) /* bytes that an arena takes at a time */
#define CLEAR_LEAST (768u << 10)
#define SPANS       32 /* sizes of spans: SPAN << i */

/* In front of each allocation; 16 bytes keep its alignment. */
struct head {
	uint64_t class; /* of its size; CLASS_SPAN + i: a span of its own */
	uint64_t asked; /* bytes that were asked for */
};
#define CLASS_SPAN    64
#define CLASS_ALIGNED 65 /* `asked` is the distance to the pointer of the whole allocation */

struct span {
	struct span *next, *prev;
	uint64_t order;
	uint64_t unused;
};

/* Large spans are at the end of the region: their pages are given back again and again, those of small
 * ones stay for the next world. */
static char *region, *region_at, *region_end;
#define SPAN_LARGE (1u << 20)

static struct span *spare[SPANS];

void memory_reset(void)
{
	if (!region) {
		region = mmap((void *)UINT64_C(0x200000000000), REGION, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
		if (region == MAP_FAILED)
			sim_panic("no address space for the processes");
	}
	region_at = region;
	region_end = region + REGION;
	memset(spare, 0, sizeof spare);
}

bool memory_is_ours(const void *p)
{
	return (const char *)p >= region && (const char *)p < region + REGION;
}

/* ---- spans ---- */

static struct span *take_span(struct arena *a, size_t bytes)
{
	uint64_t order = 0;
	struct span *s;

	while (SPAN << order < bytes)
		order++;
	if (order >= SPANS)
		return NULL;
	s = spare[order];
	if (s) {
		spare[order] = s->next;
	} else {
		if (region_at + (SPAN << order) > region_end)
			return NULL;
		if (SPAN << order >= SPAN_LARGE) {
			region_end -= SPAN << order;
			s = (struct span *)(void *)region_end;
		} else {
			s = (struct span *)(void *)region_at;
			region_at += SPAN << order;
		}
	}
	s->order = order;
	s->prev = NULL;
	s->next = a->spans;
	if (s->next)
		s->next->prev = s;
	a->spans = s;
	return s;
}

static void give_span_back(struct arena *a, struct span *s)
{
	if (s->prev)
		s->prev->next = s->next;
	else
		a->spans = s->next;
	if (s->next)
		s->next->prev = s->prev;
	s->next = spare[s->order];
	spare[s->order] = s;
}

void arena_release(struct arena *a)
{
	while (a->spans)
		give_span_back(a, a->spans);
	memset(a, 0, sizeof *a);
}

/* ---- allocations ---- */

/* Sizes are 32 << k and 48 << k. */
static unsigned choose_class(size_t n, size_t *size)
{
	unsigned k;

	if (n <= 32)
		return *size = 32, 0;
	k = 63 - (unsigned)__builtin_clzll(n - 1);
	if (n <= (size_t)3 << (k - 1))
		return *size = (size_t)3 << (k - 1), 2 * (k - 5) + 1;
	return *size = (size_t)2 << k, 2 * (k - 4);
}

void *arena_alloc(struct arena *a, size_t n)
{
	size_t size;
	struct head *h;
	unsigned class;

	if (n > REGION / 2)
		return NULL;
	if (n + sizeof *h > SPAN / 4) {
		struct span *s = take_span(a, n + sizeof *h + sizeof *s);

		if (!s)
			return NULL;
		h = (struct head *)(s + 1);
		h->class = CLASS_SPAN;
	} else {
		class = choose_class(n + sizeof *h, &size);
		h = a->free[class];
		if (h) {
			a->free[class] = *(void **)(h + 1);
		} else {
			if ((size_t)(a->end - a->at) < size) {
				struct span *s = take_span(a, SPAN);

				if (!s)
					return NULL;
				a->at = (char *)(s + 1);
				a->end = (char *)s + SPAN;
			}
			h = (struct head *)(void *)a->at;
			a->at += size;
		}
		h->class = class;
	}
	h->asked = n;
	a->live++;
	a->bytes += n;
	return h + 1;
}

void *arena_alloc_aligned(struct arena *a, size_t align, size_t n)
{
	char *whole = arena_alloc(a, n + align + sizeof(struct head)), *p;
	struct head *h;

	if (!whole)
		return NULL;
	p = whole + sizeof *h;
	p += (align - (uintptr_t)p % align) % align;
	h = (struct head *)(void *)p - 1;
	h->class = CLASS_ALIGNED;
	h->asked = (uint64_t)(p - whole);
	return p;
}

void arena_free(struct arena *a, void *p)
{
	struct head *h = (struct head *)p - 1;

	if (h->class == CLASS_ALIGNED) {
		arena_free(a, (char *)p - h->asked);
		return;
	}
	a->live--;
	a->bytes -= h->asked;
	if (h->class == CLASS_SPAN) {
		give_span_back(a, (struct span *)(void *)h - 1);
		return;
	}
	*(void **)p = a->free[h->class];
	a->free[h->class] = h;
}

/* Large memory is given back to the kernel, which has zeros, instead of writing them. */
void arena_clear(void *p, size_t n)
{
	char *first = (char *)(((uintptr_t)p + 4095) & ~(uintptr_t)4095);
	char *end = (char *)(((uintptr_t)p + n) & ~(uintptr_t)4095);

	if (n < CLEAR_LEAST || madvise(first, (size_t)(end - first), MADV_DONTNEED)) {
		memset(p, 0, n);
		return;
	}
	memset(p, 0, (size_t)(first - (char *)p));
	memset(end, 0, (size_t)((char *)p + n - end));
}

size_t arena_size(const void *p)
{
	return ((const struct head *)p - 1)->asked;
}
