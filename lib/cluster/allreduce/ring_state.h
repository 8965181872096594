/* SPDX-License-Identifier: ISC */
#ifndef ALLREDUCE_RING_STATE_H
#define ALLREDUCE_RING_STATE_H

/* The inside of a ring, shared by ring.c (forming, reducing), ring_meet.c (sessions), ring_run.c
 * (records of a reduction) and ring_wait.c (poll loops). One thread owns everything.
 *
 * Each pair of members has two sessions, one in each direction: we send slices on link.out, which
 * we dialled, and receive them on link.in, which the member dialled.
 *
 * States of link.out:
 *
 *   state      event                                          next state
 *   NONE       it is due again: dial_ring_member              DIALLED
 *   DIALLED    handshake completed: sends RING_HELLO          DIALLED
 *   DIALLED    RING_HELLO of our epoch comes back             LIVE (link.live)
 *   DIALLED    NACK, an error, or silence                     NONE, with back-off; NACK STALE
 *                                                             fails ring_form
 *   LIVE       the connection ends                            NONE; an error if the reduction
 *                                                             still has to send on it
 *
 * States of a session that was dialled to us (struct inlet):
 *
 *   state      event                                          next state
 *   GUEST      handshake: the key is looked up                GUEST, with a position, or refused
 *   GUEST      RING_HELLO of our epoch and member list        MET: it becomes link.in
 *   GUEST      RING_HELLO of an older epoch or another list   closed, with NACK; another list
 *                                                            is also r->fault
 *   GUEST      RING_HELLO of a newer epoch, or while FORMED   closed; r->fault is ERR_STALE
 *   GUEST      GUEST_DEADLINE passes, or too many guests      closed
 *   MET        the connection ends                            closed; an error if the reduction
 *                                                             still has to receive on it */
#include <poll.h>

#include "allreduce/plan.h"
#include "allreduce/ring.h"
#include "core/backoff.h"
#include "core/clock.h"
#include "wire/dial.h"

#define RING_NOBODY UINT32_MAX

/* A session that was dialled to us. Its key says which member it is from, and its first record
 * that it is for our epoch. */
struct inlet {
	struct ring *ring;
	struct conn *conn;
	uint32_t position; /* RING_NOBODY until the key was looked up */
	int64_t opened;
	bool met;           /* it is link[position].in */
	struct inlet *next; /* list of guests, which have not met us yet */
};

/* A member's state when the ring is formed, as RING_HELLO carries it. */
struct greeting {
	uint64_t have;  /* the step whose result it has, plus 1; 0: none */
	uint64_t wants; /* the step that it was reducing, plus 1; 0: none */
};

/* The two sessions with one other member. */
struct link {
	struct ring *ring;
	uint32_t position;
	struct ring_member who;
	struct conn *out; /* dialled by us; NULL: dial when it is due */
	bool live;
	struct backoff backoff;
	struct inlet *in;
	struct greeting greeting;
	struct err fault;        /* the last one, for the log */
	char addr[NET_TEXT + 8]; /* for the log */
};

/* The reduction that is under way. */
struct reduction {
	const float *in;
	float *out;
	size_t n, next_send, next_recv;
	uint32_t examples;
	uint64_t step, total;
	/* by receive: the examples in the sum after it; plan.nrecv of them */
	uint64_t *joined;
	const struct ring_plan *plan;
};

struct ring {
	struct ring_config cfg;
	struct err fault; /* an error found by a conn's callback */
	int listener[2];  /* TCP, Unix; -1 */
	char bound[NET_TEXT];
	bool formed;
	bool near; /* the members are a power of two, all on one host */
	uint32_t epoch, n, position;
	uint64_t digest;   /* a hash of the member list */
	struct link *link; /* n of them; link[position] is unused */
	struct inlet *guests;
	unsigned nguests;
	bool running;
	struct reduction now;
	/* The plan of the last reduction, which serves the next one of plan_n floats. */
	struct ring_plan plan;
	size_t plan_n;
	uint64_t *joined;
	/* Two results: result[at] is the mean of step greeting.have - 1; the other one is being
	 * written. */
	float *result[2];
	size_t cap[2], n_of[2];
	uint64_t total_of[2];
	unsigned at;
	struct greeting greeting;
	struct pollfd *poll;
	struct link **poll_link;
	size_t npoll, most_poll;
	struct ring_stats stats;
};

#define RING_LOOK      (10 * NSEC_PER_MSEC)
#define RING_SAY_FIRST (2 * NSEC_PER_SEC)
#define RING_SAY_AGAIN (10 * NSEC_PER_SEC)

/* ring_meet.c */
/* ring_close_out: end the session that we dialled. ring_close_in: end the one that was dialled to
 * us. Either may be missing. */
void ring_close_out(struct link *l);
/* Frees the inlet with its session. The member dials again if it still needs one. */
void ring_close_in(struct link *l);
/* End all sessions: the ring is APART. */
void ring_end_sessions(struct ring *r);
/* Set up links for the members, without sessions. */
void ring_meet_seat(struct ring *r, const struct ring_member *members, size_t n);
/* Accept, dial and serve the sessions that are being made, once and without waiting. The error
 * is r->fault. */
enum err_code ring_serve_meeting(struct ring *r, struct err *e);
/* Have all members met, in both directions? */
bool ring_all_met(const struct ring *r);
/* The member in words: "worker-2 (127.0.0.1:4242)". */
const char *ring_member_text(const struct link *l, char out[static NET_TEXT + 32]);

/* ring_run.c */
/* ring_place and ring_take_record: `place` and `record` of conn_handler, for an inlet. */
uint8_t *ring_place(void *inlet, const struct record *rec);
/* Handles one record of an inlet, of the handshake of members or of a reduction. */
enum conn_verdict ring_take_record(struct inlet *i, const struct record *rec,
    const uint8_t *payload);
/* Send all slices whose receives are done, until a connection has something queued. */
enum err_code ring_send_ready_slices(struct ring *r, struct err *e);
/* Is everything of the reduction received, sent and written? */
bool ring_is_reduction_done(const struct ring *r);
/* Does the reduction still have to receive from this member, or to send to it? */
bool ring_needs_from(const struct ring *r, const struct link *l);
/* True also while a slice for this member waits in its connection's queue. */
bool ring_needs_to(const struct ring *r, const struct link *l);

/* ring_wait.c */
/* Wait until every member is met. */
enum err_code ring_wait_for_members(struct ring *r, struct err *e);
/* Run the reduction r->now by its plan, to the end. */
enum err_code ring_run_reduction(struct ring *r, struct err *e);

#endif
