/* SPDX-License-Identifier: ISC */
#ifndef SHARD_SUM_BODY_H
#define SHARD_SUM_BODY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/buf.h"

/* Encoding of the messages between relays and servers: sums of pushes (PUSH_SUM), their answers
 * (SUMMED), and the clocks of several ranks (CLOCKS). ps-protocol(7) has the layouts. Pure
 * functions: no state, no locks. Parsed structs point into the message. */

/* PUSH_SUM: a head, the list of contributors, row ids, and the sum of examples times gradient. */
#define SUM_HEAD_BYTES        8
#define SUM_CONTRIBUTOR_BYTES 16
#define SUM_CONTRIBUTORS_MAX  4096u /* greatest number of contributors */
/* A contributor of a sum. */
struct sum_contributor {
	uint32_t rank, examples; /* examples 0: its push was refused and is not in the sum */
	uint64_t incarnation;
};
/* A parsed PUSH_SUM. */
struct sum_body {
	uint32_t n, nrows;
	const uint8_t *who, *ids, *values; /* ids: u64 little-endian, any alignment */
	const uint8_t *touching;           /* of each row, as in struct push; NULL: not known */
	size_t len;                        /* bytes of the values; 0: all pushes were refused */
};
/* Bytes before the row ids. */
static inline size_t sum_body_head_bytes(uint32_t n)
{
	return SUM_HEAD_BYTES + (size_t)n * SUM_CONTRIBUTOR_BYTES;
}
/* Writes the SUM_HEAD_BYTES bytes at `at`; then SUM_CONTRIBUTOR_BYTES bytes for each contributor,
 * in ascending order of ranks. */
void sum_body_put_head(uint8_t *at, uint32_t n, uint32_t nrows);
/* Writes SUM_CONTRIBUTOR_BYTES bytes at `at`, in little-endian order. */
void sum_put_contributor(uint8_t *at, const struct sum_contributor *w);
/* Reads contributor i. */
struct sum_contributor sum_contributor(const struct sum_body *b, uint32_t i);
/* The examples of all contributors. */
uint64_t sum_body_examples(const struct sum_body *b);
/* Parses a PUSH_SUM. width: floats of a row of a sparse table; 0: the table is dense. False when it
 * is malformed: no contributors, ranks that do not ascend, lengths that do not fit. The caller
 * checks how many values a dense partition has. */
bool sum_body_parse(const uint8_t *p, size_t len, uint32_t width, struct sum_body *out);

/* SUMMED: a server's answer to a sum. */
struct payload_summed {
	uint16_t table;
	uint8_t status;   /* merged, duplicate or split: enum push_status */
	uint8_t replicas; /* replicas that have it */
	uint32_t part;
	uint64_t seq, version; /* seq: of the PUSH_SUM */
};
#define PAYLOAD_SUMMED_BYTES 24
/* sum_body_put_summed appends an answer to the buffer; sum_body_get_summed reads the i-th of a
 * message, false when there is none. */
void sum_body_put_summed(struct buf *b, const struct payload_summed *m);
/* Bytes after the last whole entry are ignored. */
bool sum_body_get_summed(const uint8_t *p, size_t len, size_t i, struct payload_summed *out);

/* CLOCKS: CLOCK and DONE of several ranks, one entry after the other. */
struct rank_clock {
	uint32_t rank, examples;
	uint64_t incarnation, step;
	bool clocks, done;   /* it has completed `step`; it has sent DONE */
	const uint8_t *runs; /* the announced partitions, as in CLOCK */
	size_t len;
};
/* Bytes of an entry; appending it to a buffer. */
size_t sum_body_clocks_bytes(const struct rank_clock *c);
/* Pads the runs with zeroes to a multiple of 8 bytes. */
void sum_body_clocks_put(struct buf *b, const struct rank_clock *c);
/* Reads the entry at offset *at and moves *at after it. False at the end, and with *bad set when
 * the entry is malformed. */
bool sum_body_clocks_next(const uint8_t *p, size_t len, size_t *at, struct rank_clock *out,
    bool *bad);

#endif
