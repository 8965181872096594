/* SPDX-License-Identifier: ISC */
#ifndef CORE_BUF_H
#define CORE_BUF_H

#include <stddef.h>
#include <stdint.h>

/* A growable array of bytes that owns its memory. BUF_INIT or all zeroes is an empty buffer. If
 * there are data, a NUL follows the last byte, so that a text buffer can be printed. Running out of
 * memory aborts. One thread at a time. */
struct buf {
	uint8_t *data;
	size_t len, cap;
};
#define BUF_INIT \
	{ \
		NULL, 0, 0 \
	}

void buf_release(struct buf *b); /* frees the contents */
void buf_clear(struct buf *b);   /* keeps the memory */
/* Makes room for n more bytes and returns where they go. buf_commit then adds the bytes that were
 * written. */
uint8_t *buf_reserve(struct buf *b, size_t n);
void buf_commit(struct buf *b, size_t n);
/* Append bytes, a string, or a formatted string. */
void buf_append(struct buf *b, const void *p, size_t n);
void buf_puts(struct buf *b, const char *s);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Removes n bytes from the front. */
void buf_consume(struct buf *b, size_t n);

#endif
