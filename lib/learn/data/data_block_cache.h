/* SPDX-License-Identifier: ISC */
#ifndef DATA_BLOCK_CACHE_H
#define DATA_BLOCK_CACHE_H

#include "data/data_cache.h"

/* Parsed blocks of training data (data_blocks.h) in a directory of the cache, which the workers of
 * a host share: what one has parsed, in this epoch or in an earlier job, the others need not parse
 * again. A block is read in pieces, and each piece is one file (format: data_store.h). A file
 * appears whole or not at all; two processes may write the same one, with the same contents.
 *
 *   CACHE/WHAT-STATE.blocks/          WHAT and STATE as those of data_cache.h, with the head and the size of
 *                                     blocks
 *     lock                            held by all that use the directory, shared
 *     BLOCK-PIECE.more                a piece that others of its block follow
 *     BLOCK-PIECE.last                the last piece of its block
 *     BLOCK-PIECE.none                empty: the block has no more examples
 *
 * A damaged file is not used, and written anew. Where nothing can be stored, training goes on
 * without. Both are logged once. One thread at a time. */
struct data_block_cache;

/* The data in blocks: paths, base_dir and want as given to data_blocks_open; head: theirs; block: bytes of a
 * block; name: their nfiles files. All are borrowed for the call, and c->log until the end. */
struct data_block_cache_spec {
	const char *const *paths;
	size_t npaths;
	const char *base_dir;
	const struct data_want *want;
	const struct dataset *head;
	uint64_t block;
	const char *const *name;
	size_t nfiles;
};

/* NULL: there is no cache for these data: none is wanted, they are objects, or the directory cannot be made,
 * which is logged. */
struct data_block_cache *data_block_cache_open(const struct data_cache *c,
    const struct data_block_cache_spec *spec);
void data_block_cache_close(struct data_block_cache *b); /* NULL is fine */

/* Looks for a piece. True: it is there; *out becomes the caller's, or NULL when the block has no
 * more examples; *last: no piece follows. */
bool data_block_cache_load(struct data_block_cache *b, uint32_t block, uint32_t piece,
    struct dataset **out, bool *last);
/* Stores a piece, read from the file of this number; d NULL: the block has no more examples. Does nothing for
 * data with skipped lines, which must be counted anew, and when the file has changed. */
void data_block_cache_store(struct data_block_cache *b, size_t file, uint32_t block, uint32_t piece,
    const struct dataset *d, bool last);

#endif
