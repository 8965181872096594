/* SPDX-License-Identifier: ISC */
#ifndef RELAY_UPLINK_STATE_H
#define RELAY_UPLINK_STATE_H

/* The inside of an uplink, shared by uplink.c and uplink_clocks.c. The uplink's thread owns the
 * members before `lock`, but for `wake` and `stop`; `lock` guards those after it. */
#include "client/client_of_relay.h"
#include "core/lock.h"
#include "relay/relay_shard.h"
#include "relay/uplink.h"

/* A partition with a sum to send. */
struct forwarded_part {
	uint16_t table;
	uint32_t part;
};

/* The values of a dense table that are wanted. */
struct wanted {
	uint64_t end; /* the wanted step, plus 1 */
	uint32_t epoch;
};

/* A request for rows. */
struct want {
	struct want *next;
	uint16_t table;
	uint32_t epoch;
	uint64_t step;
	uint32_t n;
	uint64_t ids[];
};

/* The last CLOCK of a worker, and its DONE. */
struct uplink_clock_state {
	uint64_t token;              /* uplink_clock returned it last; 0: there is none */
	struct rank_clock last_sent; /* runs: owned */
};

/* The clocks that one server, or the relay above, has been sent. */
struct heard {
	/* The token of each rank's clock that was sent, and that was acknowledged. */
	uint64_t *sent, *acked;
	size_t n; /* ranks in these arrays */
	/* Entries of CLOCKS in flight. */
	struct sent_clock {
		uint64_t seq;
		uint32_t rank;
		uint64_t token;
	} * open;
	size_t nopen, cap;
};

struct uplink {
	struct server *server;
	struct client *client;
	struct client_relay_hooks hooks;
	pthread_t thread;
	int wake; /* an eventfd that ends the client's wait (uplink_wake) */
	atomic_bool stop;
	/* resend_all: all sums must be sent again, because of a new session or layout epoch.
	 * advance, changed: at the end of this turn call shard_advance, or else io_threads_wake. */
	bool resend_all, advance, changed;
	/* The last step that was requested of each table in this layout epoch, plus 1. */
	uint64_t *asked;
	float **room;       /* by dense table: where its values are received */
	uint64_t *elements; /* by dense table: the number of floats in `room` */
	size_t nasked;
	uint64_t seq;        /* of the last CLOCKS */
	uint64_t alone;      /* the last value of relay_shard_alone_count */
	struct heard *heard; /* by link of the client */
	unsigned nheard;

	struct mutex lock;           /* guards all members that follow */
	struct forwarded_part *todo; /* partitions with sums to send */
	size_t ntodo, todo_cap;
	struct wanted *wanted; /* by table */
	size_t nwanted;
	struct want *wants;
	const struct view *view;         /* to be installed in the client, or NULL */
	unsigned self;                   /* the number of this relay in `view` */
	struct uplink_clock_state *rank; /* by rank */
	size_t nranks;
	/* The last token given out; all up to `acked` are acknowledged. */
	uint64_t token, acked;
};

/* End the wait of the uplink's thread, because there is something to do. Any thread. */
void uplink_wake(struct uplink *u);

/* ---- uplink_clocks.c. The uplink's thread ---- */

/* The link has a new session, or the layout epoch is new: send it all clocks again. */
void uplink_clocks_reset(struct uplink *u, unsigned link);
/* Send every link the clocks that it has not been sent. */
void uplink_clocks_send(struct uplink *u);
/* The link has answered the CLOCKS with this seq. */
void uplink_clocks_acknowledge(struct uplink *u, unsigned link, uint64_t seq);
/* Frees the lists by rank and by link, when the thread has ended. */
void uplink_clocks_free(struct uplink *u);

#endif
