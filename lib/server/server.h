#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include "base/err.h"
#include "base/log.h"
#include "client/identity.h"
#include "conf/conf.h"

/* The body of ps-serve: a data plane on TCP and a Unix socket, with behind it
 * a store (partitions), the coordinator, or both. */
struct server;

struct server_config {
	struct identity *id;            /* borrowed, for the server's life */
	const struct conf *conf;        /* of a coordinator; a store learns it at its join */
	bool coordinator, store;
	const char *zone;               /* where it is; of a relay: whose workers it serves.  NULL: not said */
	bool relay;                     /* neither: it sums the pushes of workers near it */
	int index;                      /* of the store; -1: any */
	const char *listen;             /* TCP of the data plane; NULL: by the configuration */
	const char *iface;              /* patterns of interfaces to listen on, unless `listen` says where; NULL: any */
	const char *unix_path;          /* Unix socket of the data plane; NULL: none */
	const char *advertise;          /* host[:port] that others shall use; NULL: what is bound */
	/* Of a coordinator: auto, none, or a checkpoint's directory; NULL: what another
	 * one was at here, or none. */
	const char *resume;
	bool force_new;                 /* of a coordinator: whatever was here before */
	/* Sockets that listen already, for TCP of the data plane and of the control plane, instead
	 * of addresses; the server's own from then on.  0: none. */
	int data_fd, http_fd;
	unsigned threads;               /* that own connections; 0: by the processor, at most 4 */
	struct log *log;
};

/* Bind, start the threads, and (as a store) begin to join. */
enum err_code server_start(const struct server_config *cfg, struct server **out, struct err *e);
/* Ask it to leave: a coordinator writes a checkpoint of a running job, and stops
 * it; asked again it does not wait for that.  True: there will be a checkpoint first.
 * From any thread. */
bool server_leave(struct server *s);
/* A checkpoint of the job, as soon as may be.  False: this is not the coordinator. */
bool server_checkpoint(struct server *s);
/* Read authorized_keys again; sessions of removed keys are cut. */
enum err_code server_reload(struct server *s, struct err *e);
/* Is there a reason to end?  The job was stopped, or the coordinator cannot be
 * had (why is filled).  Readable descriptor: server_fd. */
bool server_ended(struct server *s, struct err *why);
int server_fd(const struct server *s);
void server_stop(struct server *s);

/* Have all event loops turned since this was said to be so last?  A second is long enough
 * for all that are well.  One thread. */
bool server_turns(struct server *s);
/* How it stands, in a line; true when it is there for others: a coordinator that listens, a
 * store or a relay that has joined. */
bool server_says(struct server *s, char *out, size_t size);

/* What was bound: "127.0.0.1:4242". */
const char *server_address(const struct server *s);

/* What it holds, for who puts values there (assign.c); NULL before it has joined.  Until server_stop. */
struct shard;
struct shard *server_shard(struct server *s);
/* All that another cluster has is here as it was there then (clock_now). */
void server_as_of(struct server *s, int64_t then);

#endif
