#ifndef RING_RING_H
#define RING_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "auth/session.h"
#include "base/err.h"
#include "base/log.h"
#include "wire/conn.h"
#include "wire/net.h"

/* All-reduce among the workers of a job: every member has a vector, and gets the
 * weighted mean of all of them, with equal bits.  Sessions are those of the data
 * plane, one from each member to each other; each member listens.
 *
 * A ring holds for one epoch, a number that whoever knows the members hands out and
 * that only grows (the same one may be formed again when a line broke).  When a
 * member fails, or ring_form is called elsewhere, every reduction under way ends with
 * an error, within a moment; the caller forms the ring again and repeats the step.
 * A reduction is then made again from the members' own vectors, with those who are
 * left, unless one of them had its result: then the others are given that, so that
 * all go on with the same.
 *
 * One thread owns a ring; every call may block up to the deadline. */
struct ring;

#define RING_MEMBERS_MAX 256u

struct ring_member {
	uint32_t slot;                  /* no two alike */
	uint64_t incarnation;
	uint8_t key[32];
	char tcp[NET_TEXT];             /* "host:port"; empty: none */
	char local[NET_TEXT];           /* path of a Unix socket; empty: none */
};

struct ring_config {
	const struct conn_identity *id; /* borrowed */
	uint32_t slot;
	uint64_t incarnation;
	const char *transport;          /* how to dial: auto (a Unix socket that is there, else TCP), unix, tcp */
	enum suite local_suite, remote_suite;
	const char *listen;             /* "host:port"; NULL: none */
	const char *local;              /* path of a Unix socket to listen at; NULL: none */
	int64_t deadline;               /* ns, for whatever is waited for */
	struct log *log;
	/* Shall a wait be given up (a new epoch, a signal, the job's end)?  May be NULL. */
	bool (*cancelled)(void *ctx, struct err *why);
	void *ctx;
	int cancel_fd;                  /* becomes readable when `cancelled` may say yes; -1 */
	/* 0: as measured.  Bytes up to which halving and doubling is used, and beyond which a
	 * ring is; floats of a slice.  The same for all members. */
	size_t halving_bytes, slice;     /* slice: a multiple of 16 */
};

/* Listens from now on. */
enum err_code ring_new(const struct ring_config *cfg, struct ring **out, struct err *e);
void ring_free(struct ring *r);
/* Another deadline, in ns. */
void ring_set_deadline(struct ring *r, int64_t deadline);
/* The slot, where it was not known: before the ring is formed first. */
void ring_take_slot(struct ring *r, uint32_t slot);
/* Where others reach us by TCP; empty without `listen`. */
const char *ring_address(const struct ring *r);

/* Meet the members, of whom we are one, in ascending order of slots; n from 1 to
 * RING_MEMBERS_MAX.  All must have the same list.  ERR_STALE: the epoch is below the
 * last one, or a member is at a newer one already; ERR_UNREACH, ERR_TIMEOUT: with the
 * member that is not there; what `cancelled` says.  After any error the ring has no
 * sessions, until it is formed again. */
enum err_code ring_form(struct ring *r, uint32_t epoch, const struct ring_member *members, size_t n, struct err *e);

/* What is to be reduced next: then a ring that is formed before gives us the result, when
 * another member has it already.  ERR_NOMEM. */
enum err_code ring_intend(struct ring *r, uint64_t step, size_t n, struct err *e);

/* The mean over the members of n floats (n from 1), weighted by the examples that each
 * states (0: nothing to add, `in` may be NULL).  All pass the same step and n; steps
 * only grow, but for the repetition of the last one.  `in` is not written to, and must
 * stay until the call returns.  *mean belongs to the ring and stays until the call
 * after the next; *total is the sum of the examples (0: the mean is zeroes).
 * Errors as ring_form's; ERR_PROTO for a member that reduces something else. */
enum err_code ring_reduce(struct ring *r, uint64_t step, const float *in, size_t n, uint32_t examples,
    const float **mean, uint64_t *total, struct err *e);

/* Between reductions: ERR_STALE, when another member forms the ring anew, as its line
 * broke, and waits for us to do the same.  Does not block. */
enum err_code ring_look(struct ring *r, struct err *e);

/* Since ring_new, handshakes and repetitions included. */
struct ring_stats {
	uint64_t reductions, sent_bytes, received_bytes;
};
void ring_stats(const struct ring *r, struct ring_stats *out);

#endif
