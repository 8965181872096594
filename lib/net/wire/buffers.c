/* SPDX-License-Identifier: ISC */
#include "wire/buffers.h"

#include <stdlib.h>

#include "core/mem.h"

/* Takes the i-th out of the list, and keeps the order of the others. */
static void remove_spare(struct buffers *b, unsigned i)
{
	for (b->n--; i < b->n; i++)
		b->spare[i] = b->spare[i + 1];
}

uint8_t *buffers_take(struct buffers *b, size_t n, size_t *size)
{
	uint8_t *at;

	for (unsigned i = b->n; i-- > 0;)
		if (b->spare[i].size >= n) {
			at = b->spare[i].at;
			*size = b->spare[i].size;
			remove_spare(b, i);
			return at;
		}
	/* None is large enough. The new one takes the place of one that is too small. */
	if (b->n)
		free(b->spare[--b->n].at);
	at = mem_try_array(1, n);
	*size = at ? n : 0;
	return at;
}

void buffers_give(struct buffers *b, uint8_t *at, size_t size)
{
	unsigned least = 0;

	if (!at)
		return;
	if (b->n == BUFFERS_SPARE) {
		for (unsigned i = 1; i < b->n; i++)
			if (b->spare[i].size < b->spare[least].size)
				least = i;
		if (b->spare[least].size > size) {
			free(at);
			return;
		}
		free(b->spare[least].at);
		remove_spare(b, least);
	}
	b->spare[b->n].at = at;
	b->spare[b->n++].size = size;
}

void buffers_release(struct buffers *b)
{
	while (b->n)
		free(b->spare[--b->n].at);
}
