/* SPDX-License-Identifier: ISC */
#ifndef ALLREDUCE_PLAN_H
#define ALLREDUCE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The schedule of an all-reduce: which floats each member sends to whom, and in which order,
 * as two lists for each member. It is made from (members, position, floats) alone, so that both
 * ends of a connection agree without a message. Pure: no socket, clock or thread.
 *
 * Ring (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms", 2009): the vector is
 * cut into buckets of one slice for each member. A slice goes round once, and each member adds
 * its own values; then the sum goes round and is copied. Hop k of bucket b has its turn at
 * time b + k * RING_AHEAD: a slice is passed on while it is in the processor's cache, and the
 * next ones are on their way meanwhile.
 *
 * Halving and doubling (Thakur, Rabenseifner and Gropp, "Optimization of collective
 * communication operations in MPICH", 2005): log2(members) exchanges of halves with partners
 * at growing distance, then back. Members beyond a power of two first send their vector to one
 * within it, and get the result at the end. It has fewer hops, which is better for small
 * vectors.
 *
 * In both, each element is summed at one member, in one order, and then copied: all members
 * get equal bits, also when the reduction is repeated. */
enum ring_method { RING_METHOD_RING, RING_METHOD_HALVING };

enum ring_op_flag {
	RING_OP_COPY = 1,  /* the slice is a result; else a partial sum */
	RING_OP_FRESH = 2, /* send: our own values only; receive: our own are not added yet */
	RING_OP_LAST = 4,  /* receive: this slice completes the sum */
};

/* One slice to be sent to, or received from, one peer. */
struct ring_op {
	size_t begin; /* first element */
	uint32_t count, peer;
	uint32_t flags;
	/* the receive of this bucket that must come before, as its number in the list plus 1;
	 * 0: none. A send waits until that many receives are done. */
	uint32_t need;
};

struct ring_plan {
	struct ring_op *send, *recv;
	size_t nsend, nrecv;
};

#define RING_AHEAD 2u

/* Make the plan of one member. members >= 2, floats >= 1; slice: in floats, a bucket has one
 * for each member. A member's receives are done in the order of the list. */
void ring_plan_make(struct ring_plan *p, enum ring_method way, uint32_t members, uint32_t position,
    size_t floats, size_t slice);
/* Free the lists. */
void ring_plan_release(struct ring_plan *p);

#endif
