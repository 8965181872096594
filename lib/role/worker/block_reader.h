/* SPDX-License-Identifier: ISC */
#ifndef WORKER_BLOCK_READER_H
#define WORKER_BLOCK_READER_H

#include "data/data_blocks.h"

/* Reads the datasets of blocks of training data on a thread of its own, while the worker trains on those
 * before.
 *
 *   idle     --block_reader_begin-->  reading --the thread has the dataset--> read
 *   reading, read --block_reader_take (waits)-->                            idle
 *
 * All functions are called by the training thread; the mutex covers what both threads use. */
struct block_reader;

/* ERR_IO: no thread can be started. */
enum err_code block_reader_new(struct block_reader **out, struct err *e);
/* Finishes the current read, then stops the thread. `r` may be NULL. */
void block_reader_free(struct block_reader *r);

/* Begins to read the next dataset of c, which is borrowed until it was taken, when the reader is idle. */
void block_reader_begin(struct block_reader *r, struct data_walk *c);
/* Waits for the dataset. Results as those of data_walk_next. */
enum err_code block_reader_take(struct block_reader *r, struct dataset **out, bool *last,
    struct err *e);

#endif
