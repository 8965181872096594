/* SPDX-License-Identifier: ISC */
#ifndef SERVER_SERVER_STATE_H
#define SERVER_SERVER_STATE_H

/* The inside of a server process: its state, and the functions that its modules call of each other.
 * The process is a store, a relay, a coordinator, or a coordinator with a store.
 *
 * Threads, and the members that each one owns:
 *
 *   main          server_start, server_stop, server_leave, server_reload and service.h. It owns
 *                 io_thread.turns_seen and server.turns_seen, and sets every member without another
 *                 owner before the threads that read it start.
 *   I/O threads   `nio_threads` of them, one struct io_thread each (io_thread.c). A thread owns its loop,
 *                 its sessions (struct server_session) with their connections, and all members of its
 *                 struct io_thread but `load`, `woken`, `turns` and `turns_seen`. The first one also
 *                 owns server.listener. Work for another I/O thread is posted to its loop.
 *   agent         The session with the coordinator (session/agent.h), in a store and in a relay.
 *                 It installs views and casts votes. It owns cfg.index and load. It is the
 *                 only writer of keys.relays and, unless the coordinator is in this process, of
 *                 keys.ring and keys.made.
 *   role          Threads of the role, which are described in role/store/store_state.h and
 *                 role/relay/uplink.h.
 *   coordinator   The ticker, the HTTP threads and others of struct coordinator (coordinator/coordinator.h).
 *   follower      In a read replica (replica/follower.h). It calls server_shard, server_as_of.
 *
 * All threads may use the _Atomic members. `shard` is NULL until the first view is installed; a
 * thread that finds it set also finds role_state set.
 *
 * Locks: the order is in core/lock.def, from coordinator.lock over keys.lock, a partition's lock
 * and the gate's to the modules' locks. A thread that holds keys.lock for reading finds the agent
 * alive while `stopping` is false. Locks of a role may be taken under a partition's lock.
 *
 * coordinator.lock is held while the I/O threads are woken (io_threads_wake), which may take the
 * gate's lock and checkpoint_writer.lock. No partition's or gate's lock is held while
 * coordinator.lock is taken. The I/O threads never wait for each other; session_keys_census waits
 * for them, with none of these held. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "auth/keyring.h"
#include "codec/row_ids_cache.h"
#include "coord/coord.h"
#include "server/view_text.h"
#include "core/clock.h"
#include "core/hist.h"
#include "core/lock.h"
#include "session/agent.h"
#include "shard/shard.h"
#include "shard/sum_body.h"
#include "socket/loop.h"
#include "server/server.h"
#include "wire/conn.h"
#include "wire/payload.h"

struct coordinator;
struct state_store;
struct tracer;
struct trace_steps;
struct relayed_ranks;

/* A state of the coordinator. state_rev, leases: what must be durable before an answer which
 * reports it is sent; 0: nothing. rev: the revision of its view. */
struct durable_point {
	uint64_t state_rev, leases, rev;
};

/* Bytes that one session may have in flight: staged pushes, or queued pulls. */
#define SESSION_CREDIT (16u << 20)
/* A session's pulls are answered while fewer bytes than this wait to be written to it. With many
 * sessions the limit of each is its part of SESSION_QUEUES, but at least SESSION_QUEUE_MIN. */
#define SESSION_QUEUE     (1u << 20)
#define SESSION_QUEUE_MIN (64u << 10)
#define SESSION_QUEUES    (UINT64_C(128) << 20)
/* Bytes of pulls that a session may have in flight without sparse tables: SESSION_ASKED, and in
 * addition this much for each table and for each partition, which may be asked for by version. */
#define SESSION_ASKED       (1u << 20)
#define SESSION_ASKED_TABLE 512u
#define SESSION_ASKED_PART  16u
/* Bytes that a session may make a server hold in all. */
#define SESSION_MEMORY (SESSION_CREDIT + 2 * SESSION_QUEUE)
/* Bytes that a session may make a server hold where row ids are sent as blocks, which are
 * cached. */
#define SESSION_MEMORY_ROW_IDS (SESSION_MEMORY + ROW_IDS_CACHE_BYTES + ROW_IDS_MAX * 8)
/* The load of a session that pushes or pulls. A session with heartbeats alone has load 1. */
#define SESSION_LOAD 256u
/* Bytes of the memory that a session shares with its client (socket/shm.h). */
#define SESSION_SHARED (8u << 20)
/* An idle session older than this is closed, so that its client connects again with new keys. */
#define SESSION_LIFETIME (3600 * NSEC_PER_SEC)
#define RANK_NONE        UINT32_MAX

/* A scan of a sparse partition for this session. */
struct scan_cursor {
	struct scan_cursor *next;
	uint16_t table;
	uint32_t part;
	struct scan_window window;
};

/* A PULL, PULL_ROWS or SCAN that has not been answered completely. */
struct pull {
	struct pull *next;
	struct record rec;
	uint8_t *body;
	/* PULL_ROWS: the version of each row that the client has; NULL: it has none. */
	uint64_t *since;
	size_t run;    /* the next run to answer, and.. */
	uint32_t part; /* ..the next partition within it */
	bool wanted;   /* the uplink of this relay has been asked to fetch it */
	/* Its step has been allowed to begin, and the wait has been counted. */
	bool begun;
	/* Once it has begun: the number of steps that it has waited for (shard_needed_step) */
	uint64_t needed;
	/* Time when the pull was first found too early (clock_now); 0: never. */
	int64_t waits_since;
};

/* A pending acknowledgement: an answer that is sent when shard_is_safe says yes.
 *
 *   PENDING_RECEIPT     RECEIPT, to a worker: what became of its push
 *   PENDING_REPLICATED  REPLICATED, to the previous server of the chain: this replica has its record
 *   PENDING_SUMMED      SUMMED, to a relay: what became of its sum
 *   PENDING_CLOCKED     CLOCKED, sent by a relay when uplink_acked reaches `token`: every server
 *                       above the relay has the clock
 *
 * The answer states the layout epoch and the generation in which the record was accepted. It is
 * dropped when another layout is installed: it says to its reader that the last replica of the
 * chain has the change, and a reader of the old layout takes another server for the last replica,
 * one that may be cut off and still answer pulls. A sender that hears of the new layout sends the
 * record again, and waits for the answer to that. */
enum pending_ack_kind { PENDING_RECEIPT, PENDING_REPLICATED, PENDING_SUMMED, PENDING_CLOCKED };
struct pending_ack {
	enum pending_ack_kind kind;
	uint16_t table;
	uint32_t part;
	/* The layout epoch and generation in which the record was accepted; session_add_pending
	 * fills them in. */
	uint32_t epoch, generation;
	struct receipt_condition due;
	uint64_t token; /* PENDING_CLOCKED */
	uint8_t status;
	uint32_t staleness;
	/* The record's; a receipt names the step, the other acknowledgements name seq. */
	uint64_t step, seq;
};

/* A record of a relay with a clock that is too early. */
struct early_clocks {
	struct early_clocks *next;
	struct record head;
	uint8_t payload[];
};

/* The key of a session, and whose it is. */
struct session_identity {
	enum role role;
	char name[KEYRING_NAME_MAX + 1], keytext[48];
	uint8_t key[KEY_BYTES];
	int64_t expires; /* when the key expires, seconds since 1970; 0: never */
	uint64_t incarnation;
	uint32_t rank; /* the rank of its worker, or RANK_NONE */
};

/* The data plane of a session. */
struct session_data {
	struct pull *pulls, **pulls_last; /* queued, in the order of their arrival */
	size_t pull_bytes;                /* memory that they take */
	struct scan_cursor *scans;        /* that have begun, and have more pieces */
	struct pending_ack *pending;      /* acknowledgements that are not safe to send yet */
	size_t npending, pending_cap;
	struct early_clocks *early_clocks; /* in the order of their arrival */
	size_t early_records, early_bytes; /* how many, and the bytes of their payloads */
	/* Entries of acknowledgements that are about to be sent, all of records that were accepted
	 * in the same layout epoch and generation. */
	struct buf receipts, replicated, summed;
	uint32_t ready_epoch, ready_generation;
	/* The pieces received so far of a push, or of a record of replication, that is sent in
	 * several records. */
	uint8_t *rows;
	size_t rows_len, rows_cap;
	/* lists of row ids that the other end may name (session_row_ids.h); NULL: none yet */
	struct row_ids_cache *row_ids_cache;
	uint64_t *ids;          /* the row ids of the last record, unless they are cached */
	size_t ids_cap;         /* how many ids there is room for */
	struct record rows_rec; /* the head of the first piece in `rows` */
	/* Since when its quota delays a push (quota.h); 0: it delays none. */
	int64_t delayed_since;
	size_t batch_at; /* offset at which a held BATCH goes on */
	struct batcher batcher;
	/* While a trace is taken: the pushes of one step, summed up for one row
	 * (session_trace.c). */
	struct traced {
		uint64_t id, step;
		int64_t begin, end, busy;
		uint32_t pushes;
	} traced;
};

/* The control messages of a session. */
struct session_control {
	/* Answers to CTL that wait for coordinator_may_announce, and messages queued after the
	 * first of them */
	struct pending_answer *answers, **answers_last;
	struct buf text;         /* the pieces of a message that have arrived */
	struct parsing *parsing; /* a long message (session_parse.h); NULL: none */
	unsigned nanswers;
	bool attached; /* it is sent the coordinator's views */
	/* Revision of the last view sent, and of the first to be sent. */
	uint64_t view_had, view_floor;
	struct coord_self self; /* what the coordinator knows about it */
};

/* A session, and before that a connection in its handshake. Its I/O thread owns it. The keys of a
 * connection are in struct session (net/auth/session.h).
 *
 * States (enum session_state), which say why no further record of the client is handled:
 *
 *   state               event                                            next state
 *   ------------------- -----------------------------------------------  ------------------
 *   SESSION_READING        a record that can be handled, or that the        SESSION_READING
 *                       conn holds until another thread or session
 *                       has done something
 *   SESSION_READING        a record, while the client does not read its     SESSION_WRITE_BLOCKED
 *                       answers (reads_answers)
 *   SESSION_READING        a push, CLOCK, DONE or sum, while too many of    SESSION_RECEIPTS_FULL
 *                       its acknowledgements are pending
 *                       (session_is_full)
 *   SESSION_READING        a CLOCK that is too early, or CLOCKS when too    SESSION_CLOCK_HELD
 *                       many early ones are kept; the announcements
 *                       are taken
 *   SESSION_READING        the first record is for files                    SESSION_MOVES_FILES
 *   SESSION_WRITE_BLOCKED, the held record is tried again, and the          as SESSION_READING
 *   SESSION_RECEIPTS_FULL, reason for holding it is over
 *   SESSION_CLOCK_HELD
 *   SESSION_RECEIPTS_FULL, the held record is tried again while the         SESSION_WRITE_BLOCKED
 *   SESSION_CLOCK_HELD     client does not read its answers
 *   SESSION_MOVES_FILES    on_event: a thread for files takes the           freed
 *                       connection
 *   any                 session_refuse                                   SESSION_CLOSING
 *   SESSION_CLOSING        its queue is written, or HELLO_DEADLINE is over  freed
 *   any                 the connection breaks, or session_close          freed
 *
 * The reason belongs to one record: the conn delivers no other record while it holds one. */
enum session_state {
	SESSION_READING,
	SESSION_WRITE_BLOCKED,
	SESSION_RECEIPTS_FULL,
	SESSION_CLOCK_HELD,
	SESSION_MOVES_FILES,
	SESSION_CLOSING,
};

struct server_session {
	struct server_session *prev, *next;
	struct io_thread *io_thread;
	struct conn *conn;
	struct loop_fd h;
	int64_t opened;      /* clock_now() of the accept */
	uint8_t address[16]; /* of the other end's host, by net_peer_address */
	uint64_t id;
	enum session_state state;
	int64_t closing_since; /* CLOSING: clock_now() of that decision */
	/* It is counted in server.nwaiting, and io_threads_wake looks at it: its held record, an
	 * early clock, a pull or an acknowledgement, in any state, waits for another thread or
	 * session. */
	bool counted_waiting;
	/* On its I/O thread: 1, or SESSION_LOAD once it has pushed or pulled. */
	unsigned load;
	/* Records received; a held one counts each time it is tried. */
	uint64_t nrecords;
	/* Bytes that server.count.bytes_in and bytes_out include. */
	uint64_t counted_in, counted_out;
	struct session_identity who;
	struct session_data data;
	struct session_control control;
};

/* An I/O thread. */
struct io_thread {
	struct server *server;
	struct loop *loop;
	pthread_t thread;
	struct server_session *sessions; /* the youngest first */
	struct view_text *views;         /* the last view; NULL before the first */
	unsigned half_open;              /* connections in their handshake */
	/* The sum of the load of its sessions, with connections that are posted to it. */
	_Atomic unsigned load;
	struct zip *zip;        /* NULL before the first use */
	struct buffers buffers; /* of all its sessions */
	/* A look at all waiting sessions has been posted and has not begun. */
	_Atomic bool woken;
	_Atomic uint64_t turns; /* ticks of its loop, about four a second */
	/* `turns` when service_turn last found that all had moved. */
	uint64_t turns_seen;
	bool spins; /* it polls for a while before it sleeps (loop_spin) */
};

/* The keys that may open a session. */
struct server_keys {
	struct rwlock lock; /* ring, made, relays */
	struct keyring *ring;
	_Atomic bool known; /* false in a store or relay until its first view */
	uint64_t made;      /* the version of `ring`: the coordinator numbers rings upwards */
	/* The relays of the view (relayed_ranks.h); NULL: none. */
	struct relayed_ranks *relays;
};

/* The last measured load of the partitions (partition_load.h). Only the agent's thread uses it. */
struct server_load {
	json_t *push_rates; /* NULL: not measured yet */
	int64_t at;         /* when it was measured (clock_now), and the step then */
	uint64_t step;
	bool warned_full; /* "mem_limit is reached" was logged */
};

/* Epochs of the installed layout. The layout itself is not kept: each partition has its place in
 * the chain (part.chain), under its lock. */
struct server_epochs {
	_Atomic uint32_t installed, generation;
	/* The layout epoch that is installed or being installed: it changes before the shard does,
	 * and `installed` changes after it. */
	_Atomic uint32_t installing;
	/* Partitions to transfer to joining servers, and those that have been. */
	_Atomic uint64_t transfers_all, transfers_done;
	_Atomic uint32_t members;   /* membership entries known, for PULLED */
	_Atomic bool members_known; /* a view has named the holders of the ranks */
};

/* Limits of the configuration and of sessions. */
struct server_limits {
	_Atomic uint64_t mem_limit; /* bytes, by the configuration; 0: none */
	_Atomic bool sparse;        /* there are, or were, sparse tables */
	_Atomic uint64_t answer;    /* bytes of the longest answer to a pull */
	_Atomic uint64_t parts;     /* partitions that this process has, or is about to have */
	_Atomic uint64_t asked;     /* bytes of pulls that a session may have in flight */
	_Atomic bool takes_row_ids; /* the configuration allows row ids in blocks */
	_Atomic bool shares;        /* the configuration allows sessions over shared memory */
	/* Bytes, as logged (P6 in ps-consistency(7)); 0: not known yet. */
	_Atomic uint64_t memory_bound;
	/* For each worker in a second; 0: no quota. */
	_Atomic uint64_t quota_bytes, quota_pushes;
	struct quotas *quotas; /* quota.c */
	uint64_t files_most;   /* descriptors that this process may open (descriptor_limit.h) */
	_Atomic int remote_suite, local_suite; /* enum suite */
};

/* Figures for heartbeats. */
struct server_counters {
	_Atomic uint32_t sessions, auth_failures, half_open;
	_Atomic uint64_t bytes_in, bytes_out;
	/* Nanoseconds for which quotas delayed the pushes of each rank. */
	_Atomic uint64_t quota_delay[COORD_WORKERS_MAX];
	struct hist barrier;        /* how long pulls waited until their step might begin, ns */
	_Atomic int64_t views_cost; /* ns that sending the present view has taken */
};

/* Why the process ends. */
struct server_end {
	int event;         /* an eventfd that is readable when `ended` is set */
	struct mutex lock; /* ended, again, why */
	bool ended, again;
	struct err why;
};

/* The thread that parses long control messages (session_parse.c), and its queue. */
struct server_parser {
	struct mutex lock; /* all of this */
	pthread_cond_t woken;
	struct parsing *first, **last;
	pthread_t thread;
	bool runs, stop;
};

struct server {
	struct server_config cfg;
	struct io_thread *io_thread;
	unsigned nio_threads;
	struct loop_fd listener[2]; /* TCP and the Unix socket */
	/* The file of that Unix socket; 0: none was made. Another coordinator may replace it. */
	dev_t socket_dev;
	ino_t socket_ino;
	char address[NET_TEXT], advertised[NET_TEXT];
	const char *address_reason; /* why it listens on this address, for the log */
	uint64_t incarnation;
	int64_t began; /* Unix time in ns */
	/* The turns of the coordinator when service_turn last found that all had moved. */
	uint64_t turns_seen;
	struct coordinator *coordinator; /* NULL without coordinator */
	struct agent *agent;             /* NULL without store or relay */
	/* The role's own state (struct store, struct relay): role->start makes it, role->release
	 * frees it. NULL without a role. */
	void *role_state;
	struct tracer *tracer;
	struct trace_steps *steps; /* open steps of a trace (session_trace.c) */
	/* The store of the coordinator's state (state/state_store.h); NULL: the state is not
	 * kept */
	struct state_store *state_store;
	/* The state of an earlier coordinator, and its document, which has the texts; or NULL */
	struct state *state;
	json_t *state_document;
	/* the large description that it refers to; NULL: none */
	struct large_description *description;
	bool recover;                /* the job of `state` is to be continued */
	struct shard *_Atomic shard; /* NULL until the first view is installed */
	/* Memory for parameters that clients of this host map; NULL: the system has none. */
	struct published *published;

	struct server_keys keys;
	struct server_load load;
	int64_t
	    spin; /* ns that I/O threads poll before they sleep; set before io_threads_spin posts */
	struct server_epochs epochs;
	struct server_limits limits;
	struct server_counters count;

	_Atomic bool read_only; /* only pulls are answered */
	/* Read replica: when its source had these values (clock_now); 0: none. */
	_Atomic int64_t as_of;
	atomic_bool held;
	_Atomic bool role_waits; /* io_threads_wake calls role->wake, too */
	_Atomic bool coordinator_stopping, stopping, leaving;
	_Atomic bool aside; /* no session is admitted (io_threads_set_aside) */
	/* Do partitions move from here to other servers, by the newest view? And when the last one
	 * has moved (clock_now); 0: none has. */
	_Atomic bool moving;
	_Atomic int64_t moved_at;
	_Atomic bool io_threads_run; /* all I/O threads have started: posted work is done */
	_Atomic uint64_t next_session;
	_Atomic uint32_t nwaiting; /* sessions that io_threads_wake must look at */
	struct log_limit strangers, crowd;
	struct server_parser parser;
	struct server_end end;
};

/* ---- io_thread.c ---- */

/* Make the loops and bind the listeners; io_threads_start then starts the threads, when everything
 * that they may call has been set up. */
enum err_code io_threads_prepare(struct server *s, struct err *e);
/* Starts the threads. ERR_IO: some of them may run nevertheless, so io_threads_stop must follow.
 * Posted work is done only after this has succeeded (io_threads_run). */
enum err_code io_threads_start(struct server *s, struct err *e);
/* End and join the threads, and close all sessions. Also after a failed io_threads_prepare. */
void io_threads_stop(struct server *s);
/* Something has changed that a session may wait for (a clock, an acknowledgement, the layout):
 * have every waiting session and the checkpoint thread look again. Any thread, without locks of
 * the shard. */
void io_threads_wake(void *server);
/* From now on the I/O threads poll for span_ns before they sleep. Any thread, once. 0: they do
 * not poll. */
void io_threads_spin(struct server *s, int64_t span_ns);
/* Send the view to every attached session. Takes a reference for each I/O thread. */
void io_threads_show_view(struct server *s, struct view_text *v);
/* All I/O threads have handled the input that had arrived by this time (clock_now). The time
 * does not advance while a thread sleeps; io_threads_nudge wakes them all. Any thread. */
int64_t io_threads_handled_until(const struct server *s);
/* Wakes every loop without giving it work, so that its time of io_threads_handled_until moves
 * on. */
void io_threads_nudge(struct server *s);
/* Send text as CTL to one server, or with IO_THREADS_ALL to every server and relay. Any thread. */
#define IO_THREADS_ALL UINT_MAX
/* Copies the text for each I/O thread and posts it. A session whose join is not answered yet gets
 * the text after the answer; sessions that join later do not get it. server: the number of a server
 * in the layout. */
void io_threads_send_ctl(struct server *s, const char *text, unsigned server);

/* Close all sessions and admit no other: another coordinator may have taken over, and the members are to
 * look for it. Any thread. */
void io_threads_set_aside(struct server *s);

/* ---- server.c ---- */

/* A file that a starting process needs could not be made (e). Shall it try again? A coordinator
 * that was started again does, until its deadline is over or a signal ends it, and so does a store
 * whose disk is full: the cluster continues without it meanwhile, and the disk may have room again.
 * True: this call has waited a little and has cleared e. *since: 0 before the first call for a
 * file. */
bool server_wait_for_room(const struct server *s, int64_t *since, struct err *e);

/* Make server_fd readable, so that the process ends: with this error, or NULL for no error. Only
 * the first call counts. Any thread. */
void server_end(struct server *s, const struct err *why);
/* Ends the server in the same way, and the main program begins it again, as a process that was started
 * again: a coordinator then finds its place from what is in the state store. */
void server_end_again(struct server *s, const struct err *why);
/* Ends a coordinator that another one has overtaken. One that stands by begins again, and waits. */
void server_end_overtaken(struct server *s, const struct err *why);
/* Has this process been asked to end, or has its coordinator ended? Without locks held; for a thread
 * of the role, which stops waiting then. */
bool server_is_ending(const struct server *s);
/* Remove the keys of this name from the ring, whatever authorized_keys says, and cut their
 * sessions. *made: as for server_reload_keys. */
void server_forget_key(struct server *s, const char *name, uint64_t *made);
/* Does what server_reload does; *made is the version (keys.made) of the ring that was read. */
enum err_code server_reload_keys(struct server *s, uint64_t *made, struct err *e);
/* Start s->agent, which joins the cluster as a store or a relay. This fills identity, addresses
 * and statistics into cfg; the caller has set the pace and the other callbacks. */
struct agent_config;
/* Errors are as in agent_start. cfg->join is made and dropped here. */
enum err_code server_join(struct server *s, struct agent_config *cfg, struct err *e);
/* How long a store or a relay waits for its first session with the coordinator, in ns. */
int64_t server_first_wait(const struct server *s);
/* listen_address_choose, which waits for as long while the coordinator's name cannot be resolved:
 * in some networks it has none before its process runs. The main thread, before signals are
 * read. */
struct choice;
enum err_code server_choose_address(const struct server *s, const struct choice *c,
    char out[static NET_TEXT], const char **why, struct err *e);
/* The memory in which the shard shall keep its dense parameters, so that clients of this host need
 * no copies; NULL: in memory of its own. Call it after server_know_sessions. */
struct published *server_published(const struct server *s);
/* Choose the cipher suites of the data plane by the name in the configuration. ERR_CONFIG. */
enum err_code server_choose_suites(struct server *s, const char *name, struct err *e);

/* ---- session.c. The session's I/O thread ---- */

/* Take an accepted socket over, and begin the handshake. */
void session_open(struct io_thread *l, int fd);
/* Close the connection and free the session. */
void session_close(struct server_session *p);
/* Free the session, and return its connection, which the caller now owns. */
struct conn *session_release_conn(struct server_session *p);
/* Is nothing held, pending or queued? Then the session can be closed without loss. Only the
 * session's I/O thread may ask. */
bool session_is_idle(const struct server_session *p);
/* Send BYE and close, so that the client does not count the server as lost. */
void session_retire(struct server_session *p);
/* Answer and write what can be answered and written, and choose the events to wait for. May close
 * the session and free p. */
void session_advance(struct server_session *p);
/* Send a message of the coordinator, copied, to a session that has joined, after the answer to its
 * join. A session that has not joined does not get it. May free p. */
void session_send_ctl(struct server_session *p, const char *text);
/* Try the held record again, then session_advance. May free p. */
void session_retry(struct server_session *p);
/* Answer record r by NACK and go on: the sender may send something better. */
void session_send_nack(struct server_session *p, const struct record *r, enum err_code code,
    const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* Answer record r by NACK, and close the session when that has been written. */
void session_refuse(struct server_session *p, const struct record *r, enum err_code code,
    const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* The partitions that the session's records are for. Not NULL in the handlers of these records:
 * handle_shard_record refuses records before the first view. */
static inline struct shard *session_shard(const struct server_session *p)
{
	return atomic_load(&p->io_thread->server->shard);
}

/* ---- session_admit.c: conn_handler.admit and .live; ctx is the session ---- */

/* Check the key, the rank's holder and the memory; fill `reply`. ERR_AUTH, ERR_NOTREADY,
 * ERR_FENCED, ERR_FORBIDDEN, ERR_LIMIT. Called before the client has proved that it has the
 * session's keys, so it changes nothing but the session. */
enum err_code session_admit(void *ctx, const uint8_t key[32], const struct hs_client_info *info,
    struct hs_server_info *reply, struct err *e);
/* Moves the session from the connections in their handshake to the counted sessions. */
void session_live(void *ctx, const struct hs_server_info *unused);
/* Is this key in the ring, with this role? *expires (may be NULL): when it expires. Any
 * thread. */
bool session_admit_knows_key(struct server *s, const uint8_t key[KEY_BYTES], enum role role,
    int64_t *expires);

/* ---- session_trace.c ---- */

/* Makes the server's table of open steps; one for the process, shared by its I/O threads. */
struct trace_steps *session_trace_steps_new(void);
/* Frees it when no I/O thread runs any more. */
void session_trace_steps_free(struct trace_steps *s);

/* ---- records of the data plane. The session's I/O thread; CONN_HOLD: retried when woken ---- */

/* session_push.c: acknowledge record r as x says, once it is safe. */
void session_add_pending(struct server_session *p, const struct record *r,
    const struct pending_ack *x);
/* Has this session as many acknowledgements pending as it may? Then its next push has to wait, and
 * the session is SESSION_RECEIPTS_FULL. Sends the acknowledgements that are due before it
 * counts. */
bool session_is_full(struct server_session *p);
/* Has this session of a server more records of replication pending than session_records_limit? They
 * never wait, so this is an error of the sender. */
bool session_has_too_many_records(struct server_session *p);
/* Collect the pieces of one push or record of replication. *body is the whole payload when all
 * pieces are there; CONN_TAKEN with *body NULL: more pieces are to come. session_drop_pieces drops
 * them. */
enum conn_verdict session_collect_pieces(struct server_session *p, const struct record *r,
    const uint8_t *payload, const uint8_t **body);
/* Frees the staged bytes, too, so that an idle session holds none. */
void session_drop_pieces(struct server_session *p);
/* Refuse a push of another layout epoch; else collect its pieces and hand the whole to `take`. When
 * `take` holds it, the last piece comes again. */
enum conn_verdict session_take_staged(struct server_session *p, const struct record *r,
    const uint8_t *payload,
    enum conn_verdict (
        *take)(struct server_session *p, const struct record *r, const uint8_t *body, size_t len));
/* session_repl.c: REPL_SUM, REPL_PUSH, REPL_STEP and REPL_STATE, from the previous replica */
enum conn_verdict session_repl(struct server_session *p, const struct record *r,
    const uint8_t *payload);
/* session_push.c: PUSH, PUSH_ROWS, CLOCK and DONE, from workers. session_push takes a PUSH, or one
 * piece of a PUSH_ROWS; that push is applied when its last piece has arrived. */
enum conn_verdict session_push(struct server_session *p, const struct record *r,
    const uint8_t *payload);
/* Takes the announcements first and then the clock. CONN_HOLD: the clock is too early, and its
 * announcements stay taken; or a relay has too many acknowledgements pending. */
enum conn_verdict session_clock(struct server_session *p, const struct record *r,
    const uint8_t *payload);
/* Takes the DONE of the session's worker. CONN_DROP: the session has no rank, or not any more. */
enum conn_verdict session_done(struct server_session *p, const struct record *r);
/* Was r made under another layout or before a roll-back? Then this answers by NACK. The sender
 * hears of the new layout, and sends again everything that has no answer. */
bool session_refuse_stale(struct server_session *p, const struct record *r);
/* Send the acknowledgements that are safe by now, and drop those that must never be sent. */
void session_send_acknowledgements(struct server_session *p);
/* Answer a CLOCK by CLOCKED; of: its layout epoch, generation, step and seq. */
void session_send_clocked(struct server_session *p, const struct pending_ack *of);
/* Let the shard expect what the worker's CLOCK announces. True: the shard has withdrawn something
 * that it expected; then the caller calls shard_advance. */
bool session_expect_announced(struct server_session *p, const struct rank_clock *c);
/* session_sum.c: PUSH_SUM and CLOCKS, from relays */
enum conn_verdict session_push_sum(struct server_session *p, const struct record *r,
    const uint8_t *payload);
/* Takes all clocks of a record from a relay. A record with a clock that is too early is kept. */
enum conn_verdict session_sum_clocks(struct server_session *p, const struct record *r,
    const uint8_t *payload);
/* Tries the early clocks of the session again, and answers the records that have none left. */
void session_retry_clocks(struct server_session *p);
/* session_pull.c: PULL, PULL_ROWS and SCAN */
enum conn_verdict session_pull(struct server_session *p, const struct record *r,
    const uint8_t *payload);
/* Answer queued pulls. True: it stopped because enough bytes are queued, or enough pulls were
 * answered for one turn of the thread; there may be more to answer at once. */
bool session_answer_pulls(struct server_session *p);
/* Frees a pull that is in no queue, with its ids and versions. */
void session_pull_free(struct pull *q);
/* Ends the scans of a session. */
void session_drop_scans(struct server_session *p);

/* ---- bounds of memory ---- */

/* server_bounds.c: sessions that these many workers and servers, and one tool, may have here. */
uint64_t server_count_sessions(bool coordinator, uint64_t workers, uint64_t servers);
/* Bytes to reserve in mem_limit for one session, whatever tables are added later. */
uint64_t server_session_memory(struct server *s);
/* Bytes that one of this many sessions can make the server hold with the present tables and this
 * number of partitions. */
uint64_t server_session_bound(struct server *s, uint64_t sessions, uint64_t parts);
/* session_pull.c: no record of a session is taken while this many bytes wait to be written to it.
 * Answers to pulls alone never reach this bound, so pushes are still received while they are
 * sent. */
size_t session_backlog_limit(struct server *s, uint64_t sessions);
/* session_push.c: acknowledgements that a session of a worker or a relay may have pending, and a
 * session of a server, with this number of partitions. */
size_t session_pending_limit(uint64_t parts);
/* Returns the number of REPLICATED that may be pending; a sender that exceeds it breaks the
 * protocol, and the session is closed. */
size_t session_records_limit(uint64_t parts);
/* server_bounds.c: derive the bounds from a layout, and from the configuration. The agent's
 * thread. */
void server_know_tables(struct server *s, const struct layout *l);
/* Takes from the configuration whether row ids may come in blocks and whether sessions may share
 * memory, and has the I/O threads poll if it says so. */
void server_know_sessions(struct server *s, const struct conf *conf);

/* ---- statistics ---- */

/* server_stats.c: statistics for a heartbeat (agent_config.stats); ctx is the server. The agent's
 * thread. NULL before the first view. */
json_t *server_stats(void *server);

#endif
