#ifndef CODEC_KEYS_H
#define CODEC_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codec/zip.h"

/* Ascending lists of row ids as bytes, each with the head u32 n, u8 form, u8 1 when the
 * receiver shall keep it, u16 0, u32 bytes, u32 0; then so many bytes, and zeroes up to
 * a multiple of 8. */
enum keys_form {
	KEYS_PACKED = 1,        /* the first id, then distances less one, LEB128 */
	KEYS_ZIPPED = 2,        /* the same, compressed by zstd */
	KEYS_NAMED = 3,         /* KEYS_NAME bytes: a list that was kept */
};
#define KEYS_HEAD 16u
#define KEYS_NAME 16u
/* No longer list is a block, nor kept. */
#define KEYS_MAX 524288u
#define KEYS_KEEP_MAX 131072u

bool keys_ascend(const uint64_t *ids, size_t n);
/* SipHash-2-4 with 128 bits of all n: lists of one session are told apart by it, and no
 * session sees another's. */
void keys_name(const uint64_t *ids, size_t n, uint8_t name[static KEYS_NAME]);
/* Bytes that a list takes at most. */
size_t keys_bound(size_t n);
/* A list that ascends, zipped where that is less; how many bytes. */
size_t keys_put(struct zip *z, const uint64_t *ids, size_t n, bool keep, uint8_t *out);
size_t keys_put_name(const uint8_t name[static KEYS_NAME], size_t n, uint8_t *out);

struct keys_block {
	uint32_t n, len;
	enum keys_form form;
	bool keep;
	const uint8_t *bytes;
	size_t whole;                   /* with head and zeroes */
};
/* False: no whole, well-formed block begins here.  Nothing is believed of n. */
bool keys_parse(const uint8_t *p, size_t len, struct keys_block *out);
/* The n ids of a list that is not only named; false when they are others, or do not
 * ascend. */
bool keys_get(struct zip *z, const struct keys_block *b, uint64_t *ids);

#endif
