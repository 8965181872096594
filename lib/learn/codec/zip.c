/* SPDX-License-Identifier: ISC */
#include "codec/zip.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "core/mem.h"

#define LEVEL 1
#define LEAST 256u /* shortest input worth trying */
/* Inputs of at least this size are tried on a piece in the middle first: data that look random
 * there, such as distances of random ids, cost more time than they save. */
#define LARGE (64u << 10)
#define PIECE (8u << 10)

struct zip {
	ZSTD_CCtx *in;
	ZSTD_DCtx *out;
	uint8_t *room;
	size_t cap;
};

struct zip *zip_new(void)
{
	return mem_alloc(sizeof(struct zip));
}

void zip_free(struct zip *z)
{
	if (!z)
		return;
	ZSTD_freeCCtx(z->in);
	ZSTD_freeDCtx(z->out);
	free(z->room);
	free(z);
}

static uint8_t *reserve_buffer(struct zip *z, size_t n)
{
	if (n > z->cap) {
		free(z->room);
		z->room = mem_try_array(1, n);
		z->cap = z->room ? n : 0;
	}
	return z->room;
}

/* Compresses into `to` and returns the length; 0: not much shorter. */
static size_t compress_bytes(struct zip *z, uint8_t *to, const uint8_t *bytes, size_t len)
{
	size_t got = ZSTD_compressCCtx(z->in, to, len - len / 16, bytes, len, LEVEL);

	return ZSTD_isError(got) ? 0 : got;
}

size_t zip_shrink(struct zip *z, uint8_t *bytes, size_t len)
{
	uint8_t *to = z && len >= LEAST ? reserve_buffer(z, len) : NULL;
	size_t got;

	if (z && !z->in)
		z->in = ZSTD_createCCtx();
	if (!to || !z->in)
		return 0;
	if (len >= LARGE && !compress_bytes(z, to, bytes + (len - PIECE) / 2, PIECE))
		return 0;
	got = compress_bytes(z, to, bytes, len);
	memcpy(bytes, to, got);
	return got;
}

const uint8_t *zip_expand(struct zip *z, const uint8_t *p, size_t len, size_t most, size_t *got)
{
	uint8_t *to = reserve_buffer(z, most + 1);

	if (!z->out)
		z->out = ZSTD_createDCtx();
	if (!to || !z->out)
		return NULL;
	*got = ZSTD_decompressDCtx(z->out, to, most, p, len);
	return ZSTD_isError(*got) ? NULL : to;
}
