/* SPDX-License-Identifier: ISC */
#ifndef ALLREDUCE_RING_H
#define ALLREDUCE_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "auth/session.h"
#include "core/err.h"
#include "core/log.h"
#include "socket/net.h"
#include "wire/conn.h"
#include "wire/transport.h"

/* All-reduce among the workers of a job: every member has a vector, and gets the weighted mean
 * of all of them, with equal bits. Each member listens, and has one session of the data plane
 * to each other member, and one from it.
 *
 * The caller numbers rings by epochs, which only grow; the same epoch may be formed again
 * after a connection broke. When a member fails, or forms a new ring, every reduction under
 * way ends with an error at once; the caller then forms the ring again and repeats the step. A
 * repeated reduction starts from the vectors of the members that are left, unless one of the
 * new members has the result of that step already: then the others get that result, so that
 * all continue with the same parameters.
 *
 * States of a ring:
 *
 *   state    event                                                next state
 *   APART    ring_form: all members have met, results passed on   FORMED
 *   APART    ring_form fails                                      APART
 *   FORMED   ring_reduce                                          RUNNING, then FORMED
 *   RUNNING  a member fails or forms another ring; deadline;      APART; ring_reduce returns
 *            `attend`                                          the error
 *   FORMED   ring_form                                            APART, then as above
 *
 * One thread owns a ring, and there is no lock. ring_form and ring_reduce may block up to the
 * deadline; other calls do not block. */
struct ring;

#define RING_MEMBERS_MAX 256u

struct ring_member {
	uint32_t rank; /* the worker's position in the job; unique */
	uint64_t incarnation;
	uint8_t key[32];
	char tcp[NET_TEXT];   /* "host:port"; empty: none */
	char local[NET_TEXT]; /* path of its Unix socket; empty: none */
};

struct ring_config {
	const struct conn_identity *id; /* borrowed */
	uint32_t rank;
	uint64_t incarnation;
	const struct transport *transport; /* how to dial */
	enum suite local_suite, remote_suite;
	const char *listen; /* "host:port"; NULL: none */
	const char *local;  /* path of a Unix socket to listen at; NULL: none */
	int64_t deadline;   /* ns, for every wait without progress */
	struct log *log;
	/* Shall a wait be given up (a new epoch, a signal, the job's end)? *why: the error to
	 * return. May be NULL. */
	bool (*attend)(void *ctx, struct err *why);
	void *ctx;
	int attend_fd; /* becomes readable when `attend` may say yes; -1 */
	/* halving_bytes: vectors of up to this many bytes are reduced by halving and doubling,
	 * larger ones by a ring. slice: floats of a slice. 0: built-in values, which were
	 * measured. The same for all members. */
	size_t halving_bytes, slice; /* `slice` is a multiple of 16 */
};

/* Make a ring in state APART, and listen for members from now on. ERR_IO and others of
 * net_listen. */
enum err_code ring_new(const struct ring_config *cfg, struct ring **out, struct err *e);
/* End all sessions, stop listening and free everything. NULL is fine. */
void ring_free(struct ring *r);
/* Set another deadline, in ns. */
void ring_set_deadline(struct ring *r, int64_t deadline);
/* Set this worker's position in the job, if it was not known yet; before ring_form is called
 * first. */
void ring_set_rank(struct ring *r, uint32_t rank);
/* The "host:port" at which other members reach us; empty without `listen`. */
const char *ring_address(const struct ring *r);

/* Connect with the members, including ourselves, in ascending order of ranks; n from 1 to
 * RING_MEMBERS_MAX. All must call it with the same list. ERR_STALE: the epoch is below the
 * last one, or a member is in a newer one; ERR_UNREACH, ERR_TIMEOUT: a member is missing,
 * which the error names; ERR_PROTO: a member has another list; ERR_FENCED: we are not in the
 * list; else what `attend` says. After an error the ring is APART. */
enum err_code ring_form(struct ring *r, uint32_t epoch, const struct ring_member *members, size_t n,
    struct err *e);

/* State which step will be reduced next, and its length. If ring_form is called before that
 * reduction, it brings us the result when another member has it already. ERR_NOMEM. */
enum err_code ring_announce_step(struct ring *r, uint64_t step, size_t n, struct err *e);

/* Get the mean over the members of n floats (n >= 1), weighted by the examples that each
 * states (0: nothing to add, `in` may be NULL). All members pass the same step and n; steps
 * only grow, except that the last one may be repeated. `in` is not written to, and must stay
 * until the call returns. *mean belongs to the ring and stays until the call after the next;
 * *total is the sum of the examples (0: the mean is zeroes). Errors are those of ring_form;
 * ERR_PROTO: a member reduces something else; ERR_NOTREADY: the ring is not formed. */
enum err_code ring_reduce(struct ring *r, uint64_t step, const float *in, size_t n,
    uint32_t examples, const float **mean, uint64_t *total, struct err *e);

/* Between reductions, accept what has arrived. ERR_STALE: another member forms the ring again,
 * because a connection broke, and waits for us to do the same. Does not block. */
enum err_code ring_check(struct ring *r, struct err *e);

/* Counts since ring_new, including handshakes and repetitions. */
struct ring_stats {
	uint64_t reductions, sent_bytes, received_bytes;
};
/* Copies the counters. The owner's thread, as everything of a ring. */
void ring_stats(const struct ring *r, struct ring_stats *out);

#endif
