/* SPDX-License-Identifier: ISC */
#ifndef SHARD_ROWS_H
#define SHARD_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A hash table of rows by 64-bit id. A row is a number of bytes, aligned for floats, whose meaning
 * is the caller's. It lies beside its id in an arena, and its address stays the same while it
 * exists, except in rows_sift. The index has 32 bits for a row: its number and as many bits of its
 * hash as fit. 16 entries make a cache line, so a look-up reads one line of the index and the row
 * itself.
 *
 * Memory: 8 bytes of id beside the bytes of each row; for the index 4.6 to 6.1 bytes a row, and
 * 10.7 while it grows (by a third at a time); and one arena that is not full yet, of up to 4 KiB or
 * one row. So 10 million rows of 8 floats never take more than 52 bytes each. It holds about 2^32
 * rows at most. No locks: the partition's lock covers it. */
struct rows;

/* Greatest number of ids that are looked up together: one bit each of a uint64_t. */
#define ROWS_BLOCK 64u
/* Bytes of a row beside its own (id and place in the index), at most. */
#define ROW_OVERHEAD 16u

/* Makes an empty table of rows of this many bytes, which is a multiple of 4. */
struct rows *rows_new(uint32_t bytes);
/* Frees the table, and with it every row that was returned. NULL is fine. */
void rows_free(struct rows *r);
/* The row of an id, or NULL. The address is valid until rows_sift or rows_clear. */
void *rows_get(const struct rows *r, uint64_t id);
/* The row of an id, which is made and zeroed (*made set) when it is new; NULL without memory. */
void *rows_put(struct rows *r, uint64_t id, bool *made);
/* Look up n ids at a time (at most ROWS_BLOCK; u64 little-endian, any alignment), several times
 * faster. rows_find: NULL for ids that have no row. rows_make: bit i of *made is set when row i is
 * new and the first of its id in this call; false without memory, after the rows in *made were
 * made. */
void rows_find(const struct rows *r, const uint8_t *ids, uint32_t n, void **row);
/* An id that is given twice in one call gets the same row at both places. */
bool rows_make(struct rows *r, const uint8_t *ids, uint32_t n, void **row, uint64_t *made);
/* Removes the rows for which keeps() returns false, and frees memory that they leave empty. The
 * others may move but stay in their order. Returns how many were removed. Looks at all rows, so it
 * is for removing many at a time. */
typedef bool rows_keeps_fn(void *ctx, uint64_t id, const void *row);
/* keeps() is called once for each row, in the order in which they were made, and must not use the
 * table. All addresses of rows are void afterwards. */
size_t rows_sift(struct rows *r, rows_keeps_fn *keeps, void *ctx);
/* Removes all rows but keeps the memory. Addresses that were returned before are void. */
void rows_clear(struct rows *r);
/* Number of rows. */
size_t rows_count(const struct rows *r);
/* The i-th row in the order in which they were made, and its id. i is less than rows_count; the
 * address is valid until rows_sift or rows_clear. */
void *rows_at(const struct rows *r, size_t i, uint64_t *id);
/* Bytes of arenas and index. */
size_t rows_bytes(const struct rows *r);
/* Compares two ids (u64), for qsort and bsearch in ascending order. */
int rows_by_id(const void *a, const void *b);

#endif
