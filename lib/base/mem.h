#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stddef.h>

/* Allocation that cannot overflow its size and never returns NULL for lack of
 * memory: these abort with one line on stderr, because a small allocation that
 * fails leaves nothing sensible to do.  Use them for small, bounded things.
 * Whatever a peer, a file or a table's size decides is allocated with
 * mem_try_array, which returns NULL instead. */
void *mem_alloc(size_t size);                  /* zeroed */
void *mem_array(size_t n, size_t size);        /* zeroed; n * size checked */
void *mem_regrow(void *p, size_t n, size_t size);
/* What these do then. */
_Noreturn void mem_fail(void);
char *mem_strdup(const char *s);
char *mem_printf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Zeroed, aligned to 64 bytes, NULL on overflow or lack; release with free(). */
void *mem_try_array(size_t n, size_t size);

#endif
