#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stddef.h>
#include <stdint.h>

/* A growable run of bytes that owns its memory.  BUF_INIT or all zeroes is an
 * empty buffer.  data is always NUL-terminated one past len, so that a text
 * buffer can be printed. */
struct buf {
	uint8_t *data;
	size_t len, cap;
};
#define BUF_INIT { NULL, 0, 0 }

void buf_release(struct buf *b);               /* frees the contents */
void buf_clear(struct buf *b);                 /* keeps the memory */
/* Room for n more bytes; returns where they go.  Commit with buf_commit. */
uint8_t *buf_reserve(struct buf *b, size_t n);
void buf_commit(struct buf *b, size_t n);
void buf_append(struct buf *b, const void *p, size_t n);
void buf_puts(struct buf *b, const char *s);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Drop n bytes from the front. */
void buf_consume(struct buf *b, size_t n);

#endif
