#ifndef RING_PLAN_H
#define RING_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Who sends which floats to whom, and when: the whole of an all-reduce as two lists
 * for each member, made from (members, rank, floats) alone, so that both ends of a
 * line agree without a word.  Pure.
 *
 * Ring (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms", 2009): the
 * vector is cut into buckets of one slice for each member.  A slice goes round once,
 * each member adding its own, and round again as it is.  Bucket b's k-th hop has its
 * turn at b + k * RING_AHEAD: a slice is passed on while the processor's cache has it,
 * and the next ones are on their way meanwhile.
 *
 * Halving and doubling (Thakur, Rabenseifner and Gropp, "Optimization of collective
 * communication operations in MPICH", 2005): log2(members) exchanges of halves with
 * partners further and further off, then back; members beyond a power of two hand
 * theirs to one within it first, and are given the result.  Fewer hops, for what is
 * small.
 *
 * In both, each element is summed in one place, in one order, and then copied: equal
 * bits everywhere, and at each repetition. */
enum ring_way { RING_ROUND, RING_HALVING };

enum ring_op_flag {
	RING_OP_COPY = 1,       /* a result; else a partial sum */
	RING_OP_FRESH = 2,      /* send: of our own alone; receive: our own is not in it yet */
	RING_OP_LAST = 4,       /* receive: with this one the sum is complete */
};

struct ring_op {
	size_t begin;           /* in floats */
	uint32_t count, peer;
	uint32_t flags;
	uint32_t need;          /* send: so many receives must be done; both: number + 1 of the bucket's receive before, 0: none */
};

struct ring_plan {
	struct ring_op *send, *recv;
	size_t nsend, nrecv;
};

#define RING_AHEAD 2u

/* members >= 2, floats >= 1; slice in floats: a bucket is one for each.  Receives of a member
 * are done in their order. */
void ring_plan_make(struct ring_plan *p, enum ring_way way, uint32_t members, uint32_t rank, size_t floats, size_t slice);
void ring_plan_release(struct ring_plan *p);

#endif
