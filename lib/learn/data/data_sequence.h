/* SPDX-License-Identifier: ISC */
#ifndef DATA_SEQUENCE_H
#define DATA_SEQUENCE_H

#include "data/data_blocks.h"
#include "data/store/data_cache.h"

/* Examples in the order of their files, to be read from the first to the last, any number of times,
 * in bounded memory: data that may take more than `memory` bytes are read again in each pass, in
 * chunks of whole lines or rows. All others are loaded at once, by way of the cache, and are one
 * chunk.
 *
 * Words, observations of users and items, and data that can be read once and are not lines, are
 * always loaded at once.
 *
 *   first  --data_sequence_next: a chunk-->  inside  --data_sequence_next: NULL, or an error-->  first
 *
 * data_sequence_rewind leads to `first`, too. One thread at a time. */
struct data_sequence;

/* A chunk has a multiple of this many lines or rows, unless they are very long or a file ends with
 * it: where each line is an example, batches of a divisor of this are the same as batches of all data
 * at once. */
#define DATA_SEQUENCE_LINES 1000u

/* The data to be read: arguments of data_load. All are borrowed during the call, and `want`'s
 * contents and `like` until data_sequence_free. */
struct data_sequence_spec {
	const char *const *paths;
	size_t npaths;
	const char *base_dir;
	const struct data_want *want;
	const struct dataset *like; /* the training data; may be NULL */
	const struct data_cache *cache;
	uint64_t memory;
	bool once; /* there will be one pass: standard input need not be kept */
};

/* Errors as data_load; errors of data that are read in chunks appear in data_sequence_next. */
enum err_code data_sequence_open(const struct data_sequence_spec *spec, struct data_sequence **out,
    struct err *e);
void data_sequence_free(struct data_sequence *s); /* NULL is fine */

/* All examples of a dataset, which becomes the sequence's. */
struct data_sequence *data_sequence_of_dataset(struct dataset *d);
/* The n rows of a dataset in memory, one chunk; rows and d are borrowed. */
struct data_sequence *data_sequence_of_rows(const struct dataset *d, const uint32_t *row, size_t n);
/* The examples of n blocks (data_blocks.h), in chunks of about `memory` bytes. All are borrowed. */
struct data_sequence *data_sequence_of_blocks(const struct data_blocks *blocks,
    const uint32_t *number, size_t n, uint64_t memory);

/* The rows of the present chunk that belong to the sequence, *n of them; NULL: all do, in order. */
const uint32_t *data_sequence_rows(const struct data_sequence *s, size_t *n);
/* The next chunk, which is valid until the next call; NULL: there is no more. Errors as data_load. */
enum err_code data_sequence_next(struct data_sequence *s, const struct dataset **chunk,
    struct err *e);
void data_sequence_rewind(struct data_sequence *s);

/* All examples, where they are in memory; NULL: they are read in chunks. */
const struct dataset *data_sequence_whole(const struct data_sequence *s);
/* A description for messages. */
void data_sequence_describe(const struct data_sequence *s, char out[static DATA_DESCRIPTION]);

#endif
