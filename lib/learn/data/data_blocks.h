/* SPDX-License-Identifier: ISC */
#ifndef DATA_BLOCKS_H
#define DATA_BLOCKS_H

#include "data/data_cache.h"

/* Training data as a list of blocks, for data that are larger than the memory for them. A block is a part of
 * a file (data_parts.h): bytes of lines, rows of an array, frames of a compressed file, or a whole compressed
 * file. The list depends on the files alone, so all workers have the same one.
 *
 * The head is some examples from many places of the data, which are read when the list is made. It says how
 * all blocks are read (classes, columns, scaling, index base): as evaluation data are. A category that the
 * head does not have is no feature, and a class that it does not have is an error with its place.
 *
 * Life: data_blocks_open; data_chunks_new any number of times; data_blocks_free. After the first,
 * nothing changes, so that all threads may read. */
struct data_blocks;

/* Makes the list of the files that the paths stand for. *out becomes NULL, without an error, when they
 * cannot be cut: a format that has no parts, standard input, or data that will take no more than `memory`
 * bytes once they are read, or whose head is wrong while the files are no larger than that. block: bytes of
 * a block's data. Errors as data_load. */
enum err_code data_blocks_open(const char *const *paths, size_t npaths, const char *base_dir,
    const struct data_want *want, uint64_t memory, uint64_t block, struct data_blocks **out,
    struct err *e);
void data_blocks_free(struct data_blocks *b);
/* Keeps parsed blocks in this cache (data_block_cache.h) from now on, where it can. The paths are those of
 * data_blocks_open. Then one sequence of chunks can be read at a time. */
void data_blocks_use_cache(struct data_blocks *b, const struct data_cache *c,
    const char *const *paths, size_t npaths, const char *base_dir);

/* Has each chunk pass through `finish`, which changes it and may remove examples, before data_chunks_next
 * returns it; chunks without examples are not returned. ctx: borrowed. Called by the threads that read
 * chunks, several at a time. Errors of `finish` are errors of data_chunks_next. */
void data_blocks_finish_by(struct data_blocks *b,
    enum err_code (*finish)(const void *ctx, struct dataset *chunk, struct err *e),
    const void *ctx);

size_t data_blocks_count(const struct data_blocks *b);
uint64_t data_blocks_bytes(const struct data_blocks *b);
/* Bytes that all data would take in memory, as the head suggests. */
double data_blocks_memory(const struct data_blocks *b);
/* The head's examples; valid until data_blocks_free. */
const struct dataset *data_blocks_head(const struct data_blocks *b);
/* Returns the head, too, for changes (data_pairs_join) before other threads read it. */
struct dataset *data_blocks_own_head(struct data_blocks *b);

/* Reads the examples of the n blocks of these numbers, in this order, as a sequence of datasets
 * (chunks) that take about `memory` bytes each at most; the first one takes `first` bytes, and each
 * further one may be twice as large as the one before. The blocks, their order and these sizes
 * alone determine the sequence. Different threads may read different sequences. b is borrowed. */
struct data_chunks;
struct data_chunks *data_chunks_new(const struct data_blocks *b, const uint32_t *number, size_t n,
    uint64_t first, uint64_t memory);
/* The next chunk, which becomes the caller's; NULL when the rest of the blocks has no example. *last: no
 * example follows. It is not called again after that, nor after an error. A line in an error is named by
 * its number in the first block of a file, and else by the byte of the file at which it begins
 * ("a.csv+1048590"). Errors as data_load. */
enum err_code data_chunks_next(struct data_chunks *c, struct dataset **out, bool *last,
    struct err *e);
/* Gives back a chunk that is no longer needed, whose memory a later one takes. Not while
 * data_chunks_next runs. */
void data_chunks_reuse(struct data_chunks *c, struct dataset *used);
/* Bytes of the blocks in the chunks so far; *left: blocks in none. Not while data_chunks_next runs. */
uint64_t data_chunks_read(const struct data_chunks *c, uint64_t *left);
void data_chunks_free(struct data_chunks *c);

#endif
