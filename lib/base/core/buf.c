/* SPDX-License-Identifier: ISC */
#include "core/buf.h"

#include <stdarg.h>

#include "core/mem.h"

void buf_release(struct buf *b)
{
	free(b->data);
	*b = (struct buf)BUF_INIT;
}

void buf_clear(struct buf *b)
{
	b->len = 0;
	if (b->data)
		b->data[0] = 0;
}

uint8_t *buf_reserve(struct buf *b, size_t n)
{
	size_t want = b->len + n + 1, cap = b->cap ? b->cap : 64;

	if (want < n || want > SIZE_MAX / 2)
		abort(); /* a bug: no buffer needs half of the address space */
	if (want > b->cap) {
		while (cap < want)
			cap += cap / 2;
		b->data = mem_regrow(b->data, cap, 1);
		b->cap = cap;
		b->data[b->len] = 0;
	}
	return b->data + b->len;
}

void buf_commit(struct buf *b, size_t n)
{
	b->len += n;
	b->data[b->len] = 0;
}

void buf_append(struct buf *b, const void *p, size_t n)
{
	uint8_t *at = buf_reserve(b, n);

	if (n)
		memcpy(at, p, n);
	buf_commit(b, n);
}

void buf_puts(struct buf *b, const char *s)
{
	buf_append(b, s, strlen(s));
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap, again;
	int n;

	va_start(ap, fmt);
	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n > 0) {
		vsnprintf((char *)buf_reserve(b, (size_t)n), (size_t)n + 1, fmt, again);
		buf_commit(b, (size_t)n);
	}
	va_end(again);
}

void buf_consume(struct buf *b, size_t n)
{
	if (!n)
		return;
	memmove(b->data, b->data + n, b->len - n);
	b->len -= n;
	b->data[b->len] = 0;
}
