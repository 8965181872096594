/* SPDX-License-Identifier: ISC */
#ifndef STORE_REPLICATE_STATE_H
#define STORE_REPLICATE_STATE_H

/* The inside of replication, shared by replicate.c and replicate_send.c. The replication thread
 * owns the links, except for the members that repl.lock guards. */
#include "core/backoff.h"
#include "core/lock.h"
#include "store/replicate.h"
#include "wire/dial.h"
#include "wire/emulated_link.h"

/* Records are added to a connection while fewer bytes than this wait to be written. */
#define LINK_QUEUE_MAX (4u << 20)

/* A partition that has something to send. */
struct todo {
	uint16_t table;
	uint32_t part;
};

struct link {
	struct repl *repl;
	unsigned index;
	char tcp[NET_TEXT], unix_path[NET_TEXT];
	uint8_t key[KEY_BYTES];
	bool live, wanted; /* alive, by the view; something has been forwarded to it */
	/* joins: the server joins, and gets replicas from this one. reported_complete: the
	 * coordinator knows that the server has all of them. */
	bool joins, reported_complete;
	uint64_t transfers_all,
	    transfers_done; /* partitions that it gets from us, and those that it has */
	struct conn *conn;
	struct loop_fd h;
	/* up: conn is live. refused: a record was refused, and none has been acknowledged since. */
	bool up, refused;
	/* Another number for each connection and layout epoch, see shard_send. */
	uint64_t session;
	struct backoff backoff;
	int64_t down_since, reported; /* clock_now(); 0: neither */
	/* replicate_report_again: the coordinator wants to know whether it is still down. */
	atomic_bool asked;
	struct batcher batcher;
	/* Guarded by repl.lock. */
	struct todo *todo;
	size_t ntodo, cap;
};

struct repl {
	struct server *server;
	struct loop *loop;
	pthread_t thread;
	struct mutex lock;                    /* link.todo, link.ntodo, link.cap, posted, news */
	struct link *link[COORD_SERVERS_MAX]; /* set once, before nlinks counts it */
	_Atomic unsigned nlinks;
	bool posted;                       /* send_forwarded has been posted and has not begun */
	struct news *news, **news_last;    /* views that the thread has not seen yet */
	struct settle_question *questions; /* settle.c */
	/* for all links; set before the first one is dialled */
	const struct transport *transport;
	struct emulated_link *net; /* NULL: the setting net has none for this server */
	uint64_t next_session;
	uint32_t epoch; /* of the records that are sent */
};

/* replicate_send.c */

/* Take the next partition from the link's list; false when it is empty. Takes repl.lock. */
bool replicate_link_next(struct link *l, struct todo *out);
/* Add a partition to the link's list. repl.lock is held. */
void replicate_link_add(struct link *l, struct todo t);
/* For shard_send: queue the pieces of one record. False: the connection has enough to write, or the
 * server is installing a layout of which the links do not know yet. */
bool replicate_link_put(void *link, const struct repl_record *c);

#endif
