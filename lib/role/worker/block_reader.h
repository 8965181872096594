/* SPDX-License-Identifier: ISC */
#ifndef WORKER_BLOCK_READER_H
#define WORKER_BLOCK_READER_H

#include "data/data_blocks.h"

/* Loads blocks of training data on a thread of its own, while the worker trains on those before.
 *
 *   idle     --block_reader_begin-->  loading --the thread has them--> loaded
 *   loading, loaded --block_reader_take (waits)-->                      idle
 *
 * All functions are called by the training thread; the mutex covers what both threads use. */
struct block_reader;

/* blocks is borrowed. ERR_IO: no thread can be started. */
enum err_code block_reader_new(const struct data_blocks *blocks, struct block_reader **out,
    struct err *e);
/* Ends the thread when it has loaded what it is at. NULL is fine. */
void block_reader_free(struct block_reader *r);

/* Begins to load these blocks as one dataset, when the reader is idle. */
void block_reader_begin(struct block_reader *r, const uint32_t *number, size_t n);
/* Waits for them. *out is the caller's; NULL: they have no lines. Errors as data_blocks_load. */
enum err_code block_reader_take(struct block_reader *r, struct dataset **out, struct err *e);

#endif
