/* SPDX-License-Identifier: ISC */
#ifndef CLIENT_REQUEST_H
#define CLIENT_REQUEST_H

#include "client/client.h"
#include "wire/record.h"
#include "wire/payload.h"

/* A request is one piece of a client's work that a server or relay has not answered yet: a push, a
 * pull, a scan, a CLOCK or a DONE. A client repeats its requests whenever a session breaks or the
 * layout changes, always under the same identity, so that servers count each push once.
 *
 * Each link lists its requests in the order of sending (link.open). The order matters: a server
 * that gets a push of step N+1 before the CLOCK of step N holds the push, and reads nothing more
 * from the session.
 *
 * States (enum request_state):
 *
 *   state   event                                                   next state
 *   ------  ------------------------------------------------------  --------------------------------
 *   NEW     request_submit, and the route's link is UP: send()      SENT
 *   NEW     request_submit, and the link is not UP                  QUEUED
 *   NEW     request_submit, but no server holds the partition       NEW, and ERR_NOTREADY
 *   QUEUED  the link is UP: request_send_all                        SENT
 *   SENT    the session breaks: request_lose_all                    QUEUED
 *   SENT    the server no longer keeps a list of row ids            SENT, again and with all ids
 *           (NO_ROW_IDS)
 *   SENT    an answer that is not the last one: answered()          SENT
 *   SENT    the last answer                                         freed
 *   SENT    receipt SPLIT: the relay cannot aggregate the push      as NEW, past the relay (past_relay)
 *   QUEUED, SENT, STRAY
 *           the layout or the route changes: request_reroute_all    as NEW, on the link that takes it
 *                                                                   now; a pull of several partitions
 *                                                                   is cut by the new layout. CLOCK
 *                                                                   and DONE are freed and made again
 *   as NEW  no server holds the partition                           STRAY until the next layout
 *   any     client_free; a pull whose wait has failed               freed
 *
 * The owner of the client owns its requests; there is no lock. The memory of a freed request stays
 * with the client for the next one. */
/* NEW: not sent yet; QUEUED: waits on its link; SENT: its answer is awaited; STRAY: no link takes
 * it, until the next layout. */
enum request_state { REQUEST_NEW, REQUEST_QUEUED, REQUEST_SENT, REQUEST_STRAY };

/* Kinds of requests by what their answers name: a receipt names the table, partition and step of
 * the push, an answer to a pull repeats its seq, and a link has at most one CLOCK and one DONE. */
enum request_class { REQUEST_PUSH, REQUEST_PULL, REQUEST_CLOCK, REQUEST_DONE, REQUEST_CLASSES };

struct request;

/* An answer to a request, as it was received. */
struct answer {
	const struct record *head;
	const uint8_t *payload;                /* pulls and scans: head->len bytes */
	const struct payload_receipt *receipt; /* pushes: one entry of a RECEIPT; else NULL */
};

/* The functions of one kind of request. request.c calls them; none of them blocks. */
struct request_ops {
	enum request_class class;
	/* The server of the partition that takes it, by the present layout: the chain's head or its
	 * tail. NULL: CLOCK and DONE, which belong to a link. */
	uint16_t (*server)(const struct table *t, uint32_t part);
	/* Encode it and queue it on r->link, which is UP. Called again for each new session and
	 * layout, so it must not change what the request means. */
	void (*send)(struct request *r);
	/* Take one answer. ERR_PROTO: it does not fit the request; the session ends then. The
	 * caller counts the answer and frees the request after the last one. NULL: it says nothing
	 * more. */
	enum err_code (*answered)(struct request *r, const struct answer *a, struct err *e);
	/* Another server is going to answer, maybe from another version: forget what holds only for
	 * the earlier one only. NULL: nothing. */
	void (*forget_server)(struct request *r);
	/* Free what the request owns. NULL: nothing. */
	void (*release)(struct request *r);
};

/* ---- the kinds ---- */

/* Elements of a dense partition, or rows of a sparse one. Identity: rank, incarnation, table,
 * partition and step. Servers answer a push by a receipt each time it is sent, and the client
 * ignores receipts of pushes that it does not have any more. */
struct push_request {
	uint32_t examples;
	uint64_t pulled;       /* the version of the partition that the gradient belongs to */
	int64_t sent_at;       /* when it was first submitted, clock_now() */
	const float *g;        /* dense without a codec: borrowed from the caller */
	uint8_t *body;         /* sparse or encoded; owned, unless .. */
	struct bodies *bodies; /* .. it is a part of these; else NULL */
	size_t len;            /* of `body`, in bytes */
	uint16_t codec;
	bool has_touching; /* `body` ends with how many examples touch each row */
	bool was_rerouted; /* it was on another link before */
	/* the mean of a reduced table, sent by every worker: not announced */
	bool mean;
};

/* Partitions of a dense table, or rows of one partition of a sparse table. */
struct pull_request {
	float *dst; /* dense: the table from element `begin` on; rows: all rows of the call */
	uint64_t begin;
	/* dense: the table as of the versions in `since`, one for each partition; NULL: send
	 * everything */
	const float *base;
	/* the versions that `base` has, by partition, or that are cached, by row; NULL: none */
	uint64_t *since;
	/* answer each partition as soon as its own step is complete */
	bool early;
	/* dense: answer without values. With early: when the partition is updated; else: when all
	 * ranks have reached the step. */
	bool no_values;
	/* dense: the values must come in the answer, because they changed while they were copied
	 * from published memory */
	bool whole;
	/* dense: which vector of the optimizer state; 0: the parameters */
	uint64_t vector;
	struct client_row_list *list; /* rows: owns ids and pos; else NULL */
	const uint64_t *ids;
	const uint32_t *pos; /* row i goes to row pos[i] of dst */
};

/* The rows of a sparse partition that a scan asks for: all of them, or only those that were updated
 * at step `since` or later; ids_only: their ids without their values. With both it asks for the ids
 * that were removed at step `since` or later and have no row now. */
struct scan_filter {
	bool changed_only, ids_only;
	uint64_t since;
};

/* The body of an answer to a scan, and three fields of its record header. */
struct scan_answer {
	struct buf body;
	/* knows: the server has answered the question for removed ids. */
	bool last, knows;
	uint64_t step, removed;
};

/* A scan of one sparse partition. */
struct scan_request {
	struct scan_filter filter;
	/* send rows with higher ids; `begin` marks the first request */
	uint64_t after;
	bool begin;
	uint32_t most;              /* rows of the answer; 0: as many as a record has */
	struct scan_answer *answer; /* where to put the answer; borrowed */
};

struct request {
	const struct request_ops *ops;
	struct client *client;
	struct link *link; /* NULL: NEW or STRAY */
	struct request *prev, *next;
	enum request_state state;
	unsigned tries;            /* how often it was sent */
	const struct table *table; /* NULL: CLOCK and DONE */
	uint32_t part, count;      /* partitions; 1 but for dense pulls */
	uint32_t n;                /* elements of a dense push; rows of other requests */
	uint32_t answers_left;     /* answers that have not arrived yet */
	bool past_relay;           /* goes past the relay, which could not aggregate it */
	uint64_t step, seq;        /* seq: pulls and DONE; else 0 */
	union {
		struct push_request push;
		struct pull_request pull;
		struct scan_request scan;
	};
};

/* Requests in the order of sending. */
struct request_list {
	struct request *first, *last;
	size_t n;
};

/* A request in state NEW for one partition, all further fields zero. Pulls get a seq. */
struct request *request_new(struct client *c, const struct request_ops *ops, const struct table *t,
    uint32_t part, uint64_t step);
/* The route: the link that takes this request by the present layout and relay. NULL and
 * ERR_NOTREADY: no server holds the partition. */
struct link *request_route(const struct request *r, struct err *e);
/* Put a NEW request on the link that takes it (request_route), and send it if that is UP.
 * ERR_NOTREADY: no server holds the partition, and the request is the caller's still. */
enum err_code request_submit(struct request *r, struct err *e);
/* Put a NEW request on this link after `after` (NULL: first), and send it if the link is UP. */
void request_put(struct request *r, struct link *l, struct request *after);
/* Send it, maybe again, on its link, which is UP. */
void request_send(struct request *r);
/* Free a request, in any state. */
void request_free(struct request *r);

/* Find what an answer belongs to; NULL: no such request is open. Answers come mostly in the order
 * of the requests, so the search goes on from the last one found. */
struct request *request_of_receipt(struct link *l, uint16_t table, uint32_t part, uint64_t step);
/* seq: the number that request_new gave to the pull or scan. */
struct request *request_of_answer(struct link *l, uint64_t seq);
/* Hand an answer to its request, and free the request if it was the last one. */
enum err_code request_answer(struct request *r, const struct answer *a, struct err *e);

/* The link is UP: send all of its requests. The session has ended: they are no longer sent. */
void request_send_all(struct link *l);
/* Moves them from SENT to QUEUED in the same order; request_send_all repeats them in the next
 * session. */
void request_lose_all(struct link *l);
/* The layout or the route has changed: move each request to the link that takes it now, and send it
 * again, in the order that servers need: pushes up to the last CLOCK, that CLOCK, the rest. */
void request_reroute_all(struct client *c);
/* Take one request off its link, and put it on the one that takes it now. */
void request_reroute(struct request *r);
/* Free all requests of this class. */
void request_free_class(struct client *c, enum request_class class);
/* A call that was to fill dst has failed: free the pulls that it has submitted, because the caller
 * may free dst. dst NULL: there is nothing to do. */
void request_free_pulls_to(struct client *c, const float *dst);
/* Returns the next request of the client after r, of any link, in no particular order. r NULL: the
 * first request. Returns NULL when there are no more. */
struct request *request_next(const struct client *c, const struct request *r);

#endif
