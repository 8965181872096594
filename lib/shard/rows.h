#ifndef SHARD_ROWS_H
#define SHARD_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Rows of floats by 64-bit id.  A row lies beside its id in an arena, and its address
 * never changes while it lives, but in rows_sift; the index has 32 bits for it, its number and of its hash
 * what room there is beside that, 16 to a cache line: a look-up reads one line of the
 * index and the row itself.
 *
 * Memory: 8 bytes of id and 4 a float for each row; for the index 4.6 to 6.1 bytes a row,
 * 10.7 while it grows (by a third at a time); and one arena that is not full yet, of up to
 * 4 KiB or of one row.  So 10 million rows of 8 floats are 52 bytes each at no moment.  Of the
 * order of 2^32 rows at most.  No locks: the partition's lock covers it. */
struct rows;

/* Ids that are looked up together; a bit each of 64. */
#define ROWS_BLOCK 64u

struct rows *rows_new(uint32_t stride);            /* floats a row */
void rows_free(struct rows *r);
float *rows_get(const struct rows *r, uint64_t id);
/* The row, made (zeroed, *made set) when it is new; NULL without memory. */
float *rows_put(struct rows *r, uint64_t id, bool *made);
/* The same of up to ROWS_BLOCK ids (u64 little-endian, any alignment), several times
 * faster.  rows_find: NULL for those that are not there.  rows_make: bit i of *made is set
 * when row i is new, zeroed, and the first of its id here; false without memory, after
 * those that *made has. */
void rows_find(const struct rows *r, const uint8_t *ids, uint32_t n, float **row);
bool rows_make(struct rows *r, const uint8_t *ids, uint32_t n, float **row, uint64_t *made);
/* Drop the rows that `keeps` says no to, and the memory that they leave whole; the others may
 * move, and stay in their order.  Returns how many went.  For many at a time: it looks at all. */
typedef bool rows_keeps_fn(void *ctx, uint64_t id, const float *row);
size_t rows_sift(struct rows *r, rows_keeps_fn *keeps, void *ctx);
/* Forget all rows, keep the memory. */
void rows_clear(struct rows *r);
size_t rows_count(const struct rows *r);
/* The i-th row in order of making. */
float *rows_at(const struct rows *r, size_t i, uint64_t *id);
size_t rows_bytes(const struct rows *r);
/* Ids, u64 each, in ascending order: for qsort and bsearch. */
int rows_by_id(const void *a, const void *b);

#endif
