/* SPDX-License-Identifier: ISC */
#ifndef CODEC_ROW_IDS_H
#define CODEC_ROW_IDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codec/zip.h"

/* Encodes ascending lists of row ids as blocks. A block has a head (u32 n, u8 form, u8 1 when the
 * receiver shall remember it, u16 0, u32 bytes, u32 0), then that many bytes, then zeroes up to a
 * multiple of 8. Pure, except that struct zip has memory for one thread. */
enum row_ids_form {
	ROW_IDS_PACKED = 1, /* the first id, then each distance minus 1, in LEB128 */
	ROW_IDS_ZIPPED = 2, /* packed, then compressed by zstd */
	ROW_IDS_NAMED = 3,  /* ROW_IDS_NAME bytes: the name of a remembered list */
};
#define ROW_IDS_HEAD 16u
#define ROW_IDS_NAME 16u
/* Longest list in a block, and longest one that is remembered. */
#define ROW_IDS_MAX      524288u
#define ROW_IDS_KEEP_MAX 131072u

/* Do the ids ascend strictly? */
bool row_ids_ascend(const uint64_t *ids, size_t n);
/* The name of a list: 128-bit SipHash-2-4 of its n ids. It only has to distinguish lists within a
 * session; no session uses another's. */
void row_ids_name(const uint64_t *ids, size_t n, uint8_t name[static ROW_IDS_NAME]);
/* Most bytes that a block of n ids may take. */
size_t row_ids_bound(size_t n);
/* Writes an ascending list as a block, compressed where that saves bytes. Returns the number of
 * bytes. */
size_t row_ids_put(struct zip *z, const uint64_t *ids, size_t n, bool keep, uint8_t *out);
/* Writes a block that names a remembered list of n ids. Returns the number of bytes. */
size_t row_ids_put_name(const uint8_t name[static ROW_IDS_NAME], size_t n, uint8_t *out);

struct row_ids_block {
	uint32_t n, len;
	enum row_ids_form form;
	bool keep;
	const uint8_t *bytes;
	size_t whole; /* length with head and padding */
};
/* Parses the block that p begins with. False: there is no complete, well-formed one. n comes from
 * the sender and is only checked against ROW_IDS_MAX. */
bool row_ids_parse(const uint8_t *p, size_t len, struct row_ids_block *out);
/* Decodes the n ids of a block that is not ROW_IDS_NAMED. False: it does not contain n ascending
 * ids. */
bool row_ids_get(struct zip *z, const struct row_ids_block *b, uint64_t *ids);

#endif
