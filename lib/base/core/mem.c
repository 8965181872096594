/* SPDX-License-Identifier: ISC */
#include "core/mem.h"

#include <stdarg.h>
#include <stdint.h>

/* Elements of an array that grows for the first time. */
#define GROW_FIRST 32

void mem_fail(void)
{
	fputs("out of memory\n", stderr);
	abort();
}

static void *require_memory(void *p)
{
	if (!p)
		mem_fail();
	return p;
}

void *mem_alloc(size_t size)
{
	return require_memory(calloc(1, size ? size : 1));
}

void *mem_array(size_t n, size_t size)
{
	return require_memory(calloc(n ? n : 1, size ? size : 1));
}

void *mem_regrow(void *p, size_t n, size_t size)
{
	return require_memory(reallocarray(p, n ? n : 1, size ? size : 1));
}

void *mem_regrow_doubled(void *p, size_t *room, size_t need, size_t size)
{
	if (need > SIZE_MAX / 2)
		mem_fail();
	*room = *room ? 2 * *room : GROW_FIRST;
	if (*room < need)
		*room = need;
	return mem_regrow(p, *room, size);
}

char *mem_strdup(const char *s)
{
	return require_memory(strdup(s));
}

char *mem_printf(const char *fmt, ...)
{
	va_list ap;
	char *out;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&out, fmt, ap);
	va_end(ap);
	return require_memory(n < 0 ? NULL : out);
}

void *mem_try_array(size_t n, size_t size)
{
	size_t bytes;
	void *p;

	if (__builtin_mul_overflow(n, size, &bytes) || bytes > SIZE_MAX - 64)
		return NULL;
	bytes = (bytes + 63) / 64 * 64;
	p = aligned_alloc(64, bytes ? bytes : 64);
	if (p)
		memset(p, 0, bytes);
	return p;
}
