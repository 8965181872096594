#ifndef RING_RING_STATE_H
#define RING_RING_STATE_H

/* Inside of a ring: shared by ring.c (life), ring_wait.c (the wheel), ring_meet.c
 * (sessions) and ring_run.c (records of a reduction). */
#include <poll.h>

#include "base/clock.h"
#include "ring/plan.h"
#include "ring/ring.h"

#define RING_NOBODY UINT32_MAX

/* A session that somebody dialled to us: of which member, its key says; that it is of
 * our epoch, its first record. */
struct inlet {
	struct ring *ring;
	struct conn *conn;
	uint32_t rank;                  /* RING_NOBODY until the key was looked up */
	int64_t opened;
	bool met;                       /* it is link[rank].in */
	struct inlet *next;             /* of those not met yet */
};

/* What a member says of itself when the ring is formed. */
struct greeting {
	uint64_t have;                  /* one more than the step whose result it has; 0: none */
	uint64_t wants;                 /* one more than the step that it was reducing; 0: none */
};

struct link {
	struct ring *ring;
	uint32_t rank;
	struct ring_member who;
	struct conn *out;               /* dialled by us; NULL: to be dialled at next_try */
	bool live;
	int64_t next_try, retry;
	struct inlet *in;
	struct greeting said;
	struct err fault;               /* the last one, for the log */
	char addr[NET_TEXT + 8];
};

/* The reduction that is under way. */
struct reduction {
	const float *in;
	float *out;
	size_t n, next_send, next_recv;
	uint32_t examples;
	uint64_t step, total;
	uint64_t *joined;               /* examples in what each receive left, plan.nrecv of them */
	const struct ring_plan *plan;
};

struct ring {
	struct ring_config cfg;
	struct err fault;               /* found inside of a conn's call */
	int listener[2];                /* TCP, Unix; -1 */
	char bound[NET_TEXT];
	bool formed;
	bool near;                      /* a power of two of members of one host */
	uint32_t epoch, n, rank;
	uint64_t digest;                /* of the members */
	struct link *link;              /* n; [rank] is nobody's */
	struct inlet *guests;
	unsigned nguests;
	bool running;
	struct reduction now;
	/* The plan of the last reduction serves the next one like it. */
	struct ring_plan plan;
	size_t plan_n;
	uint64_t *joined;
	/* Results: of step have - 1 in result[at]; the other one is written to. */
	float *result[2];
	size_t cap[2], n_of[2];
	uint64_t total_of[2];
	unsigned at;
	struct greeting said;
	struct pollfd *poll;
	struct link **poll_link;
	size_t npoll, most_poll;
	struct ring_stats stats;
};

#define RING_LOOK (10 * NSEC_PER_MSEC)
#define RING_SAY_FIRST (2 * NSEC_PER_SEC)
#define RING_SAY_AGAIN (10 * NSEC_PER_SEC)

/* ring_meet.c */
/* End the session that we dialled, or that was dialled to us; either may be none. */
void ring_hang_up(struct link *l);
void ring_shut(struct link *l);
/* No sessions from now on. */
void ring_part(struct ring *r);
/* Members of a list take their places; nobody is met yet. */
void ring_seat(struct ring *r, const struct ring_member *members, size_t n);
/* One look at doors and sessions that are being made, without waiting. */
enum err_code ring_meet(struct ring *r, struct err *e);
bool ring_all_met(const struct ring *r);
/* The member in words: "worker-2 (127.0.0.1:4242)". */
const char *ring_who(const struct link *l, char out[static NET_TEXT + 32]);

/* ring_run.c */
/* Where the payload of a record from an inlet shall lie, and the record itself: as
 * conn_handler has it. */
uint8_t *ring_place(void *inlet, const struct record *rec);
enum conn_verdict ring_take(struct inlet *i, const struct record *rec, const uint8_t *payload);
/* Send what may be sent. */
enum err_code ring_pump(struct ring *r, struct err *e);
/* All of the reduction is received, and written. */
bool ring_run_done(const struct ring *r);
/* Is the member still needed by the reduction: must it send, or take? */
bool ring_needs_from(const struct ring *r, const struct link *l);
bool ring_needs_to(const struct ring *r, const struct link *l);

/* ring_wait.c */
/* Until every member is met. */
enum err_code ring_meet_all(struct ring *r, struct err *e);
/* The reduction r->now, by its plan, to the end. */
enum err_code ring_run(struct ring *r, struct err *e);

#endif
