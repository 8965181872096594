/* SPDX-License-Identifier: ISC */
#ifndef CORE_MEM_H
#define CORE_MEM_H

#include <stddef.h>

/* Allocation with checked sizes. Except mem_try_array these functions never return NULL: without
 * memory they abort with a line on stderr, because a failing small allocation leaves nothing
 * sensible to do. Use them for small, bounded things. Sizes that a peer, a file or a table decides
 * go to mem_try_array, which returns NULL instead. Any thread. */
void *mem_alloc(size_t size);           /* zeroed */
void *mem_array(size_t n, size_t size); /* zeroed; n * size checked */
void *mem_regrow(void *p, size_t n, size_t size);
void *mem_regrow_doubled(void *p, size_t *room, size_t need, size_t size); /* for mem_grow */
/* Reports the lack of memory and aborts. */
_Noreturn void mem_fail(void);
char *mem_strdup(const char *s);
char *mem_printf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Returns array p, moved if it had to grow, with room for at least `need` elements of `size` bytes.
 * *room is the number of elements for which there is room; it at least doubles when it grows, so
 * that appending takes constant time on average. New elements are not zeroed. Arrays that run in
 * parallel grow together: the first one by mem_grow, the others by mem_regrow to *room. */
static inline void *mem_grow(void *p, size_t *room, size_t need, size_t size)
{
	return need <= *room ? p : mem_regrow_doubled(p, room, need, size);
}

/* Zeroed, aligned to 64 bytes, NULL on overflow or lack; release with free(). */
void *mem_try_array(size_t n, size_t size);

#endif
