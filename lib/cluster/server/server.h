/* SPDX-License-Identifier: ISC */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include "conf/conf.h"
#include "core/err.h"
#include "core/log.h"
#include "session/identity.h"

/* The body of ps-serve: a data plane on TCP and a Unix socket, for a store (partitions),
 * a relay, the coordinator, or a coordinator with a store.
 *
 * Life: server_start; then the main program waits on server_fd until server_ended; server_stop.
 * One thread makes all calls, but for those that say "any thread". The threads and locks inside
 * are in server_state.h. */
struct server;

/* A store or a relay (server_role.h), and a coordinator (server_coordinator.h). */
struct server_role;
struct server_coordinator;

struct param_source;
struct server_config {
	struct identity *id; /* borrowed, for the server's life */
	/* The configuration of a coordinator; NULL otherwise: a store gets it with its first
	 * view. */
	const struct conf *conf;
	/* The coordinator in this process; NULL: there is none. */
	const struct server_coordinator *coordinator;
	/* The zone of this process; a relay serves the workers of its zone. NULL: none. */
	const char *zone;
	/* The process is this beside, or without, a coordinator; NULL: a coordinator alone. */
	const struct server_role *role;
	int index; /* the number that the store asks for; -1: any */
	/* TCP address of the data plane; NULL: by the configuration. */
	const char *listen;
	/* Patterns of interfaces to listen on, without `listen`; NULL: any. */
	const char *iface;
	const char *unix_path; /* Unix socket of the data plane; NULL: none */
	/* Host[:port] that others shall use; NULL: the bound address. */
	const char *advertise;
	/* Coordinator: "auto", "none", or the directory of a checkpoint to continue from. NULL:
	 * continue the job of an earlier coordinator of this run directory, if there is one. */
	const char *resume;
	/* Coordinator and store of a read-only cluster: the parameters that it answers pulls with. The
	 * store closes the source and sets the pointer to NULL when its tables are full; before, its
	 * owner does. NULL: not read-only, or resume is the checkpoint. */
	struct param_source **source;
	/* With "auto": a job whose coordinator was killed goes on from its state, not from a
	 * checkpoint, unless this process is a store, too. A job that is done stays done. */
	bool goes_on;
	/* Coordinator: another process of the same command follows this one. When it is asked to
	 * leave, it ends without stopping the job. */
	bool returns;
	/* Coordinator: no supervisor does it, so save the model and the result of the job in the
	 * run directory when the job is done. */
	bool saves_model;
	/* coordinator: begin a new job, whatever is in the run directory. */
	bool force_new;
	/* coordinator: stand by again when another one has taken over (standby.h) */
	bool standby;
	/* With standby: the addresses at which this process was before it began again, which the members
	 * know; NULL: none */
	const char *before_data, *before_http;
	/* coordinator: the URL of the store of its state; NULL: the run directory */
	const char *state_url;
	/* Listening sockets for TCP of the data plane and of the control plane, or sockets that are bound
	 * and do not listen yet, used instead of addresses. The server owns and closes them. 0: none. */
	int data_fd, http_fd;
	/* How long a store or a relay waits for its first session with the coordinator, in ns; 0:
	 * 60 s. */
	int64_t first_wait;
	unsigned threads; /* I/O threads; 0: one for each processor, at most 4 */
	struct log *log;
};

/* The number of descriptors that a server process may need for this many workers and servers. With
 * a lower hard limit server_start refuses. */
uint64_t descriptor_limit_count(bool coordinator, uint64_t workers, uint64_t servers);
/* Bind, start the threads, and (as a store or a relay) begin to join. After an error *out is
 * NULL. */
enum err_code server_start(const struct server_config *cfg, struct server **out, struct err *e);
/* Ask the server to leave. A coordinator writes a checkpoint of a running job, and stops the job;
 * when asked again it does not wait for the checkpoint. One that returns (cfg.returns) ends at
 * once, and the job goes on. True: there will be a checkpoint first. Any thread. */
bool server_leave(struct server *s, int sig);
/* When partitions of this server were last on their way to other servers (clock_now): now, while
 * they are and there is a session with the coordinator; 0: never, or it is itself the coordinator,
 * which ends the cluster when it leaves. Any thread until server_stop. */
int64_t server_moved_at(struct server *s);
/* Order a checkpoint of the job as soon as possible. False: this is not the coordinator. */
bool server_checkpoint(struct server *s);
/* Read authorized_keys again, and cut the sessions of removed keys. ERR_OK without a coordinator,
 * whose views bring the keys. Any thread. */
enum err_code server_reload(struct server *s, struct err *e);
/* Is there a reason to end? The job was stopped (why->code is ERR_OK), or the coordinator cannot
 * be reached or something failed (*why says what). */
bool server_ended(struct server *s, struct err *why);
/* Is the process to begin the server again, after server_stop, as if it had been started again? */
bool server_begins_again(struct server *s);
/* A descriptor that is readable when server_ended is true. */
int server_fd(const struct server *s);
/* End all threads and free the server. NULL is fine. */
void server_stop(struct server *s);

/* The partitions, for a follower that assigns values (shard/assign.c); NULL before the first view.
 * Valid until server_stop. Any thread. */
struct shard;
/* Takes no lock and no reference: the shard lives as long as the server. */
struct shard *server_shard(struct server *s);
/* Read replica: the values here are those that the source cluster had at `then` (clock_now). Any
 * thread. */
void server_as_of(struct server *s, int64_t then);
/* Read replica: are new values of the source kept back (serve_if)? Any thread. */
void server_hold(struct server *s, bool held);
/* The time that server_as_of has set last; 0: none. Any thread. */
int64_t server_values_as_of(struct server *s);

#endif
