/* SPDX-License-Identifier: ISC */
#ifndef DATA_BLOCKS_H
#define DATA_BLOCKS_H

#include "data/data_walk.h"
#include "data/store/data_cache.h"

/* Training data as a list of blocks, for data that are larger than the memory for them. A block is
 * a part of a file (data_parts.h): bytes of lines, rows of an array, frames of a compressed file,
 * or a whole compressed file. The list depends on the files alone, so all workers have the same
 * one.
 *
 * The head is some examples from many places of the data, which are read when the list is made. It
 * says how all blocks are read (classes, columns, scaling, index base): as evaluation data are. A
 * category that the head does not have is not a feature, and a class that it does not have is an
 * error with its place.
 *
 * Life: data_blocks_open; data_blocks_walk any number of times; data_blocks_free. After the first,
 * nothing changes, so that all threads may read. */
struct data_blocks;

/* Makes the list of the files that the paths stand for. *out becomes NULL, without an error, when
 * they cannot be cut: a format that has no parts, standard input, or data that will take no more
 * than `memory` bytes once they are read, or whose head is wrong while the files are no larger than
 * that. block: bytes of a block's data. Errors as data_load. */
enum err_code data_blocks_open(const char *const *paths, size_t npaths, const char *base_dir,
    const struct data_want *want, uint64_t memory, uint64_t block, struct data_blocks **out,
    struct err *e);
void data_blocks_free(struct data_blocks *b);
/* Keeps parsed blocks in this cache (data_cache.h) from now on, where it can. The paths are
 * those of data_blocks_open. Before other threads read. */
void data_blocks_use_cache(struct data_blocks *b, const struct data_cache *c,
    const char *const *paths, size_t npaths, const char *base_dir);

/* Has each dataset pass through `finish`, which changes it and may remove examples, before
 * data_walk_next returns it; datasets without examples are not returned. ctx: borrowed. Called by
 * the threads that read blocks, several at a time. Errors of `finish` are errors of
 * data_walk_next. */
void data_blocks_finish_by(struct data_blocks *b,
    enum err_code (*finish)(const void *ctx, struct dataset *d, struct err *e), const void *ctx);

size_t data_blocks_count(const struct data_blocks *b);
uint64_t data_blocks_bytes(const struct data_blocks *b);
/* Bytes that all data would take in memory, as the head suggests. */
double data_blocks_memory(const struct data_blocks *b);
/* The head's examples; valid until data_blocks_free. */
const struct dataset *data_blocks_head(const struct data_blocks *b);
/* Returns the head, too, for changes (data_pairs_join) before other threads read it. */
struct dataset *data_blocks_own_head(struct data_blocks *b);

/* A walk over the n blocks of these numbers, in this order, such as the blocks of a range: its
 * datasets take about `memory` bytes each at most; the first one takes `first` bytes, and each
 * further one may be twice as large as the one before. The blocks, their order and these sizes
 * alone determine the datasets. Different threads may read different walks. b is borrowed.
 *
 * A line in an error is named by its number in the first block of a file, and else by the byte of
 * the file at which it begins ("a.csv+1048590"). */
struct data_walk *data_blocks_walk(const struct data_blocks *b, const uint32_t *number, size_t n,
    uint64_t first, uint64_t memory);
/* Bytes of the blocks in the datasets so far; *left: blocks in none. Not while data_walk_next
 * runs. */
uint64_t data_blocks_walked(const struct data_walk *w, uint64_t *left);

#endif
