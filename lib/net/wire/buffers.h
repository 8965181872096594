/* SPDX-License-Identifier: ISC */
#ifndef WIRE_BUFFERS_H
#define WIRE_BUFFERS_H

#include <stddef.h>
#include <stdint.h>

/* Buffers for the payloads of received records. A conn takes one when a record begins, and gives it
 * back when the record has been handled. The conns of one thread take them from the same list, the
 * last one that was given back first. So a buffer stays in the cache however many conns there are,
 * and a conn that waits has none.
 *
 * No locks: a list belongs to one thread. */

/* Buffers that are kept for later records. */
#define BUFFERS_SPARE 8u

/* A list; it begins as all zeroes. */
struct buffers {
	struct {
		uint8_t *at;
		size_t size;
	} spare[BUFFERS_SPARE];
	unsigned n;
};

/* A buffer of at least n bytes, with any contents; *size: its size. NULL: no memory. */
uint8_t *buffers_take(struct buffers *b, size_t n, size_t *size);
/* Gives a buffer of buffers_take back; NULL is fine. Of too many spare ones the smallest is
 * freed. */
void buffers_give(struct buffers *b, uint8_t *at, size_t size);
/* Frees the spare ones. */
void buffers_release(struct buffers *b);

#endif
