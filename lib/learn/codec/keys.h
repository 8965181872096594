/* SPDX-License-Identifier: ISC */
#ifndef CODEC_KEYS_H
#define CODEC_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codec/zip.h"

/* Encodes ascending lists of row ids as blocks. A block has a head (u32 n, u8 form, u8 1 when the
 * receiver shall remember it, u16 0, u32 bytes, u32 0), then that many bytes, then zeroes up to a
 * multiple of 8. Pure, except that struct zip has memory for one thread. */
enum keys_form {
	KEYS_PACKED = 1, /* the first id, then each distance minus 1, in LEB128 */
	KEYS_ZIPPED = 2, /* packed, then compressed by zstd */
	KEYS_NAMED = 3,  /* KEYS_NAME bytes: the name of a remembered list */
};
#define KEYS_HEAD 16u
#define KEYS_NAME 16u
/* Longest list in a block, and longest one that is remembered. */
#define KEYS_MAX      524288u
#define KEYS_KEEP_MAX 131072u

/* Do the ids ascend strictly? */
bool keys_ascend(const uint64_t *ids, size_t n);
/* The name of a list: 128-bit SipHash-2-4 of its n ids. It only has to distinguish lists within a
 * session; no session uses another's. */
void keys_name(const uint64_t *ids, size_t n, uint8_t name[static KEYS_NAME]);
/* Most bytes that a block of n ids may take. */
size_t keys_bound(size_t n);
/* Writes an ascending list as a block, compressed where that saves bytes. Returns the number of
 * bytes. */
size_t keys_put(struct zip *z, const uint64_t *ids, size_t n, bool keep, uint8_t *out);
/* Writes a block that names a remembered list of n ids. Returns the number of bytes. */
size_t keys_put_name(const uint8_t name[static KEYS_NAME], size_t n, uint8_t *out);

struct keys_block {
	uint32_t n, len;
	enum keys_form form;
	bool keep;
	const uint8_t *bytes;
	size_t whole; /* length with head and padding */
};
/* Parses the block that p begins with. False: there is no complete, well-formed one. n comes from
 * the sender and is only checked against KEYS_MAX. */
bool keys_parse(const uint8_t *p, size_t len, struct keys_block *out);
/* Decodes the n ids of a block that is not KEYS_NAMED. False: it does not contain n ascending
 * ids. */
bool keys_get(struct zip *z, const struct keys_block *b, uint64_t *ids);

#endif
