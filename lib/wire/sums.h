#ifndef WIRE_SUMS_H
#define WIRE_SUMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Bodies of what relays and servers say to each other: sums of pushes, clocks of
 * several slots.  ps-protocol(7) has the layouts. */

/* PUSH_SUM: a head, who is in it, row ids, and the sum of examples times gradient. */
#define SUM_HEAD 8
#define SUM_WHO 16
#define SUM_MOST 4096u                  /* contributors */
struct sum_who {
	uint32_t slot, examples;        /* examples 0: its push was refused, and is not in the sum */
	uint64_t incarnation;
};
struct sum_body {
	uint32_t n, nrows;
	const uint8_t *who, *ids, *values;      /* ids: u64 little-endian, any alignment */
	size_t len;                     /* of the values in bytes; 0: all were refused */
};
static inline size_t sum_head_bytes(uint32_t n)
{
	return SUM_HEAD + (size_t)n * SUM_WHO;
}
/* at: SUM_HEAD bytes; then SUM_WHO for each, by ascending slots. */
void sum_put_head(uint8_t *at, uint32_t n, uint32_t nrows);
void sum_put_who(uint8_t *at, const struct sum_who *w);
struct sum_who sum_who(const struct sum_body *b, uint32_t i);
/* width: floats a row of a sparse table; 0: it is dense.  False for what is not a sum:
 * nobody in it, slots that do not ascend, lengths that do not fit.  How many values a
 * dense partition has is the receiver's to check. */
bool sum_parse(const uint8_t *p, size_t len, uint32_t width, struct sum_body *out);

/* SUMMED: what became of sums. */
struct msg_summed {
	uint16_t table;
	uint8_t status;                 /* merged, duplicate or split: enum push_status */
	uint8_t copies;                 /* that have it */
	uint32_t part;
	uint64_t seq, version;          /* seq: of the PUSH_SUM */
};
#define MSG_SUMMED_BYTES 24
void msg_put_summed(struct buf *b, const struct msg_summed *m);
bool msg_get_summed(const uint8_t *p, size_t len, size_t i, struct msg_summed *out);

/* CLOCKS: CLOCK and DONE of slots, one after the other. */
struct slot_clock {
	uint32_t slot, examples;
	uint64_t incarnation, step;
	bool clocks, done;              /* it has completed `step`; it is done */
	const uint8_t *runs;            /* as of CLOCK */
	size_t len;
};
size_t clocks_bytes(const struct slot_clock *c);
void clocks_put(struct buf *b, const struct slot_clock *c);
/* The entry at *at, which moves on; false at the end, and with *bad for what is none. */
bool clocks_next(const uint8_t *p, size_t len, size_t *at, struct slot_clock *out, bool *bad);

#endif
