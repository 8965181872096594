#ifndef SHARD_ROWS_H
#define SHARD_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Rows of floats by 64-bit id: open addressing over arenas, so that a row's
 * address never changes while it lives.  About 16 bytes a row beside its
 * floats.  No locks: the partition's lock covers it. */
struct rows;

struct rows *rows_new(uint32_t stride);            /* floats a row */
void rows_free(struct rows *r);
float *rows_get(const struct rows *r, uint64_t id);
/* The row, made (zeroed, *made set) when it is new; NULL without memory. */
float *rows_put(struct rows *r, uint64_t id, bool *made);
/* Forget all rows, keep the memory. */
void rows_clear(struct rows *r);
size_t rows_count(const struct rows *r);
/* The i-th row in order of making. */
float *rows_at(const struct rows *r, size_t i, uint64_t *id);
size_t rows_bytes(const struct rows *r);

#endif
