/* SPDX-License-Identifier: ISC */
#include "wire/msg.h"

uint8_t *batcher_reserve(struct batcher *b, struct conn *c, size_t most,
    uint8_t small[static BATCHER_SMALL])
{
	if (most <= BATCHER_SMALL)
		return small;
	/* Send the gathered records first, to keep the order. */
	batcher_flush(b, c);
	return conn_reserve(c, (uint32_t)most);
}

void batcher_commit(struct batcher *b, struct conn *c, const struct record *r, const uint8_t *room,
    const uint8_t *small)
{
	if (room == small)
		batcher_add(b, c, r, room);
	else
		conn_commit(c, r);
}
