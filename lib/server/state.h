#ifndef SERVER_STATE_H
#define SERVER_STATE_H

/* Inside of a server.
 *
 * A lane is an I/O thread: a loop and the peers whose connections it owns;
 * peers are touched by their lane's thread alone.  Anything for another lane
 * is posted to its loop.  The store's partitions and gate have locks of their
 * own (shard/shard.h), the host has one (host.c); neither is held while the
 * other is taken, and no lane waits for another. */
#include <pthread.h>
#include <stdatomic.h>

#include "auth/keyring.h"
#include "base/clock.h"
#include "base/hist.h"
#include "client/agent.h"
#include "codec/keycache.h"
#include "coord/coord.h"
#include "server/server.h"
#include "server/views.h"
#include "shard/shard.h"
#include "wire/conn.h"
#include "wire/loop.h"
#include "wire/msg.h"
#include "wire/sums.h"

struct host;
struct tracer;
struct trace_steps;
struct given;
struct uplink;

/* What a client may have in flight: pushes staged for it, and answers queued. */
#define PEER_CREDIT (16u << 20)
/* What a server may hand over as one copy of a partition. */
#define PEER_COPY_MAX (UINT64_C(4) << 30)
/* Answers are made while less than this is waiting to be written; of many sessions each
 * has its part of PEER_QUEUES. */
#define PEER_QUEUE (1u << 20)
#define PEER_QUEUE_MIN (64u << 10)
#define PEER_QUEUES (UINT64_C(128) << 20)
/* Questions in flight, where there are no sparse tables: and so much for each table, and for
 * each partition that is asked for with its version. */
#define PEER_ASKED (1u << 20)
#define PEER_ASKED_TABLE 512u
#define PEER_ASKED_PART 16u
/* What a session may make a server hold in all. */
#define PEER_MEMORY (PEER_CREDIT + 2 * PEER_QUEUE)
/* The same where row ids come in blocks. */
#define PEER_MEMORY_KEYS (PEER_MEMORY + KEYCACHE_BYTES + KEYS_MAX * 8)
/* What a session on which data goes counts for, against one of heartbeats. */
#define PEER_LOAD 256u
/* What a session shares with its client, where it does (wire/shm.h). */
#define PEER_SHARED (8u << 20)
/* A session's keys are used no longer than this; its peer then comes again. */
#define PEER_LIFETIME (3600 * NSEC_PER_SEC)
#define SLOT_NONE UINT32_MAX

struct pull {
	struct pull *next;
	struct record rec;
	uint8_t *body;
	uint64_t *since;                /* of rows: as of which version each is had; NULL: none is */
	size_t run;                     /* cursor: run, then partition within it */
	uint32_t part;
	bool wanted;                    /* a relay has been asked to fetch it */
	bool begun;                     /* its step might begin; held_at: since when it could not; 0: it could at once */
	int64_t held_at;
};

/* An answer that is due when shard_is_safe says yes: a receipt, to another server
 * that its copy is had, to a relay what became of its sum.  Through a relay that the
 * servers have a clock: when uplink_acked is as much as `version`. */
enum promised { PROMISE_RECEIPT, PROMISE_COPIED, PROMISE_SUMMED, PROMISE_CLOCKED };
struct promise {
	enum promised kind;
	uint16_t table;
	uint32_t part;
	uint64_t steps, version;
	uint8_t status;
	uint32_t staleness;
	uint64_t step, seq;             /* receipt: step; else seq */
};

struct peer {
	struct peer *prev, *next;
	struct lane *lane;
	struct conn *conn;
	struct loop_fd h;
	int64_t opened;
	uint64_t id;
	enum role role;
	char name[KEYRING_NAME_MAX + 1], keytext[48];
	uint8_t key[KEY_BYTES];
	int64_t expires;                /* its key, seconds since 1970; 0: never */
	uint64_t incarnation;
	uint32_t slot;
	bool doomed;                    /* close when what is queued has been written */
	int64_t doomed_at;
	bool retold;                    /* a CLOCK that is held, and tried again: what it claims was told before */
	bool moves_files;               /* its session goes to files_serve */
	unsigned load;                  /* on its lane: 1, or PEER_LOAD of a session that pushes or pulls */
	uint64_t nrecords;              /* that have come; one that is held counts each time */

	/* data plane */
	struct pull *pulls, **pulls_last;
	size_t pull_bytes;
	struct promise *pending;
	size_t npending, pending_cap;
	struct buf receipts, copied, summed;    /* ready to go */
	uint8_t *rows;                  /* a push or copy that comes in several records */
	size_t rows_len;
	struct keycache *kept;          /* row ids (keys.h), NULL: none */
	uint64_t *ids;                  /* of the last record, when they are not kept */
	size_t ids_cap;                 /* how many there is room for */
	struct record rows_rec;
	int64_t held_since;             /* since when a push is held by its quota (quota.h); 0: none is */
	size_t batch_at;                /* where a held batch goes on */
	struct batcher batcher;
	bool waiting;                   /* counted in server.waiting */
	/* While a trace is taken: of the pushes of a step, peer_trace.c. */
	struct traced {
		uint64_t id, step;
		int64_t begin, end, busy;
		uint32_t pushes;
	} traced;
	uint64_t counted_in, counted_out;       /* bytes that server.bytes_* know of */

	/* control */
	bool attached;                  /* gets views */
	uint64_t view_had, view_floor;  /* revision: of the last; the first to be sent */
	struct coord_self self;
};

struct lane {
	struct server *server;
	struct loop *loop;
	pthread_t thread;
	struct peer *peers;
	struct views *views;            /* the last that came; NULL before */
	unsigned half_open;
	_Atomic unsigned load;          /* of its peers */
	struct zip *zip;                /* NULL before it is wanted */
	_Atomic bool woken;             /* a scan has been posted and has not begun */
	_Atomic uint64_t turns;         /* of its loop, about four a second */
	uint64_t turns_seen;            /* by server_turns */
	bool spins;
};

struct repl;
struct save;
struct ckpt_reader;

struct server {
	struct server_config cfg;
	struct lane *lane;
	unsigned nlanes;
	struct loop_fd listener[2];
	char address[NET_TEXT], advertised[NET_TEXT];
	const char *chosen;             /* why this address */
	int event;                      /* readable when ended */
	uint64_t turns_seen;            /* of the host's, by server_turns */
	struct host *host;              /* NULL without coordinator */
	struct agent *agent;            /* NULL without store */
	struct repl *repl;              /* to other copies; NULL without store */
	struct uplink *uplink;          /* of a relay; else NULL */
	unsigned relay;                 /* its number; the agent's thread only */
	struct tracer *tracer;
	struct trace_steps *steps;      /* peer_trace.c */
	struct save *save;              /* checkpoints; NULL without store */
	json_t *state;                  /* that another coordinator has left, or NULL */
	bool recover;                   /* it is to be gone on with */
	struct ckpt_reader *restore;    /* that the partitions began from, or NULL */
	_Atomic bool read_only;         /* pulls alone are answered */
	_Atomic int64_t as_of;          /* when another cluster had what is here; 0: there is none */
	_Atomic bool saving;            /* save wants to hear of changes */
	struct shard *_Atomic shard;    /* NULL until the join has been answered */
	uint64_t incarnation;
	/* live.c: what it goes by, the number of these settings, and the log level that it was told
	 * last; the agent's thread only. */
	struct { json_t *config; int64_t number; char level[16]; } live;
	bool first_found;               /* the file with first values, if there is one; the agent's thread only */
	int64_t began;                  /* Unix time in ns */
	bool finishing;                 /* the last view said so; the agent's thread only */
	json_t *unvoted;                /* a proposal from before there was a shard, or NULL; the agent's thread only */
	uint64_t proposal;              /* voted on and not yet decided; the agent's thread only */
	_Atomic bool host_stopping, stopping, leaving;
	_Atomic uint64_t saves;         /* the checkpoint that is asked for; 0: none */
	_Atomic uint32_t epoch, generation;
	_Atomic uint64_t fed_all, fed_done;     /* partitions given to servers that join */
	_Atomic uint32_t members;       /* membership entries known, for PULLED */
	_Atomic uint64_t next_peer;

	pthread_rwlock_t keys_lock;     /* ring, keys_made */
	struct keyring *ring;
	_Atomic bool keys_known;        /* a store's come with its first view */
	uint64_t keys_made;             /* another number for each ring of the coordinator's: greater ones are later */
	struct given *given;            /* the relays (given.h), under keys_lock; NULL: none */

	pthread_mutex_t end_lock;       /* ended, end_why */
	bool ended;
	struct err end_why;

	_Atomic uint64_t mem_limit;     /* of the configuration; 0: none */
	_Atomic bool sparse;            /* there are, or were, sparse tables */
	_Atomic uint64_t asked;         /* bytes of questions that a session may have in flight */
	_Atomic bool takes_keys;        /* row ids in blocks, by the configuration */
	_Atomic uint64_t memory_bound;  /* P6, as it was said at the start; 0: not yet */
	_Atomic bool shares;            /* sessions by shared memory, by the configuration */
	_Atomic bool lanes_run;         /* all of them: what is posted to them is done */
	_Atomic uint64_t quota_bytes, quota_pushes;     /* a second and worker; 0: any number */
	struct quotas *quotas;          /* quota.c */
	_Atomic uint64_t held[COORD_WORKERS_MAX];       /* ns that pushes of each slot were held */
	int64_t spin;                   /* ns that lanes look before they sleep; set before they are told */
	bool said_full;                 /* the agent's thread only, as are these */
	json_t *heat;                   /* of the partitions (heat.h), as of then */
	int64_t heat_at;
	uint64_t heat_step;
	_Atomic uint32_t waiting;       /* peers that something must wake */
	_Atomic uint32_t sessions, auth_failures, half_open;
	_Atomic uint64_t bytes_in, bytes_out;
	struct hist barrier;            /* how long questions were held until their step might begin, ns */
	_Atomic int64_t views_cost;     /* ns that sending the present views has taken */
	struct log_limit strangers, crowd;
	_Atomic int remote_suite, local_suite;  /* enum suite */
};

/* lane.c */
/* Loops and listeners; then, when all that they call is there, the threads. */
enum err_code lanes_prepare(struct server *s, struct err *e);
enum err_code lanes_start(struct server *s, struct err *e);
void lanes_stop(struct server *s);
void lanes_accept(struct server *s, unsigned which);
/* Look at every waiting peer again. */
void lanes_wake(void *server);
/* From now on lanes look for so long (ns) before they sleep; any thread, once. */
void lanes_spin(struct server *s, int64_t span_ns);
/* Show the view to every attached peer. */
void lanes_show(struct server *s, struct views *v);
/* Until when (clock_now) all lanes have read what had come; lanes_nudge has them look. */
int64_t lanes_heard(const struct server *s);
void lanes_nudge(struct server *s);
/* Send text as CTL to one server. */
void lanes_tell(struct server *s, const char *text, unsigned server);
void server_end(struct server *s, const struct err *why);
/* server_reload; *made: keys_made of what it has read. */
enum err_code server_reload_keys(struct server *s, uint64_t *made, struct err *e);
/* Start s->agent, which joins as a store or a relay: who this is, where it listens and its
 * figures are filled into cfg, the rest is the caller's. */
struct agent_config;
enum err_code server_join(struct server *s, struct agent_config *cfg, struct err *e);
/* The suites of the data plane, by the configuration's word. */
enum err_code server_choose_suites(struct server *s, const char *name, struct err *e);

/* peer.c */
void peer_open(struct lane *l, int fd);
void peer_close(struct peer *p);
/* The same, but that its connection goes on, and is the caller's. */
struct conn *peer_take_out(struct peer *p);
/* peer_admit.c: conn_handler.admit and .live, ctx the peer */
enum err_code peer_admit(void *ctx, const uint8_t key[32], const struct hs_client_info *info,
    struct hs_server_info *reply, struct err *e);
void peer_live(void *ctx, const struct hs_server_info *unused);
/* Is this key known, and in this role? */
bool server_knows(struct server *s, const uint8_t key[KEY_BYTES], enum role role, int64_t *expires);
/* Between two messages: nothing asked, nothing promised, nothing queued. */
bool peer_is_idle(const struct peer *p);
/* Say goodbye and close, without taking the peer for lost. */
void peer_retire(struct peer *p);
void peer_settle(struct peer *p);       /* flush, and watch what must be watched */
void peer_wake(struct peer *p);
/* The same, and go on: the sender may do better. */
void peer_object(struct peer *p, const struct record *r, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Refuse, and close when it is written. */
void peer_nack(struct peer *p, const struct record *r, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* peer_trace.c */
struct trace_steps *trace_steps_new(void);
void trace_steps_free(struct trace_steps *s);

/* peer_push.c, peer_copy.c, peer_pull.c */
void peer_promise(struct peer *p, const struct promise *x);
/* Pieces of one push or copy: *body is the whole when it is there.  CONN_TAKEN
 * with *body NULL: more is to come. */
enum conn_verdict peer_gather(struct peer *p, const struct record *r, const uint8_t *payload, const uint8_t **body);
void peer_gathered(struct peer *p);
/* A push of the present epoch, to `take` when it is whole; again when that held it. */
enum conn_verdict peer_staged(struct peer *p, const struct record *r, const uint8_t *payload,
    enum conn_verdict (*take)(struct peer *p, const struct record *r, const uint8_t *body, size_t len));
enum conn_verdict peer_copy(struct peer *p, const struct record *r, const uint8_t *payload);
/* peer_probe.c */
enum conn_verdict peer_probe(struct peer *p, const struct record *r);
enum conn_verdict peer_push(struct peer *p, const struct record *r, const uint8_t *payload);
enum conn_verdict peer_push_rows(struct peer *p, const struct record *r, const uint8_t *payload);
enum conn_verdict peer_clock(struct peer *p, const struct record *r, const uint8_t *payload);
enum conn_verdict peer_done(struct peer *p, const struct record *r);
/* Made under another layout or before a roll-back: refused.  The sender hears of the
 * new one, and sends again what has no answer. */
bool peer_stale(struct peer *p, const struct record *r);
void peer_receipts(struct peer *p);
void peer_clocked(struct peer *p, uint64_t step, uint64_t seq);
/* What a slot's CLOCK says is to come.  True: something is waited for no longer; then
 * shard_settle. */
bool peer_claims(struct peer *p, const struct slot_clock *c);
/* peer_sum.c: from relays */
enum conn_verdict peer_push_sum(struct peer *p, const struct record *r, const uint8_t *payload);
enum conn_verdict peer_clocks(struct peer *p, const struct record *r, const uint8_t *payload);
enum conn_verdict peer_pull(struct peer *p, const struct record *r, const uint8_t *payload);
/* True when it stopped because enough is queued. */
bool peer_answer_pulls(struct peer *p);
void pull_free(struct pull *q);

/* host.c: the coordinator in this process */
enum err_code host_start(struct server *s, struct err *e);
void host_stop(struct host *h);
void host_free(struct host *h);
json_t *host_handle(struct host *h, struct coord_self *self, const json_t *msg, struct err *e);
void host_gone(struct host *h, const struct coord_self *self);
/* The revision of the coordinator's view; of the one that went out last. */
uint64_t host_rev(struct host *h);
uint64_t host_rev_sent(struct host *h);
bool host_leave(struct host *h);
bool host_checkpoint(struct host *h);
/* Was it told to end, or has the job? */
bool host_ended(struct host *h);
void host_touch(struct host *h);
/* This process's lanes have looked at their sessions (lane_keys.h). */
void host_keys_checked(struct host *h, const json_t *msg);

/* What a session may make this server hold: as mem_limit reckons, whatever tables may come. */
uint64_t server_session_memory(struct server *s);
/* With the tables that there are, and so many sessions; parts: partitions. */
uint64_t server_session_bound(struct server *s, uint64_t sessions, uint64_t parts);
/* What may wait to be written to each of so many sessions when an answer is made. */
size_t peer_queue(uint64_t sessions);
/* What of the layout and of the configuration that goes by. */
void server_know_tables(struct server *s, const struct layout *l);
void server_know_sessions(struct server *s, const struct conf *conf);
/* relay.c: this process as a relay */
enum err_code relay_start(struct server *s, struct err *e);
void relay_stop(struct server *s);
/* store.c: its figures, for heartbeats; ctx is the server */
json_t *store_stats(void *server);
/* lane_keys.c: of a view, the keys of all who may have a session. */
void store_take_keys(struct server *s, const json_t *view);
/* store.c: this process as one of the cluster's stores */
enum err_code store_start(struct server *s, struct err *e);
void store_stop(struct server *s);

#endif
