#ifndef COORD_COORD_H
#define COORD_COORD_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* Who is there, who holds what, and what changes at which step: a state
 * machine without clock, thread or socket.  Every call takes the time; effects
 * go out through struct coord_io.  The owner serialises the calls. */
struct coord;

#define COORD_SERVERS_MAX 1024u
#define COORD_WORKERS_MAX 4096u
#define COORD_RELAYS_MAX 256u
#define COORD_RING_MAX 256     /* workers that sum among themselves: each has a session with each other */
#define COORD_ZONE 64                  /* of a zone's name, with its NUL */

enum coord_policy { COORD_SHRINK, COORD_WAIT, COORD_FAIL };

struct coord_config {
	const char *name, *cluster_id;
	unsigned servers, workers;      /* how many make the cluster whole */
	unsigned replicas;              /* copies of each partition */
	unsigned workers_min, workers_max;      /* bounds of `workers`; equal or 0: none */
	bool has_job, bsp, deterministic;
	enum coord_policy on_worker_loss;
	int64_t loss_wait, lease, server_lost, deadline;        /* nanoseconds */
	uint64_t batch, epochs, steps;  /* 0: no bound by this one */
	/* A checkpoint's manifest to go on from, and its directory; NULL: begin. */
	const json_t *resume;
	const char *resume_path;
	json_t *config;                 /* effective configuration, for the view; borrowed */
};

struct coord_io {
	void *ctx;
	/* A message to one server (borrowed; CTL on its session). */
	void (*to_server)(void *ctx, unsigned server, json_t *msg);
	/* The view has changed: send coord_view() to every session, soon. */
	void (*view_changed)(void *ctx);
	/* For the log and GET /v1/events. */
	void (*event)(void *ctx, const char *kind, const char *text);
};

enum coord_phase { COORD_FORMING, COORD_RUNNING, COORD_FINISHING, COORD_DONE, COORD_FAILED, COORD_STOPPED };

struct coord *coord_new(const struct coord_config *cfg, const struct coord_io *io, int64_t now);
void coord_free(struct coord *c);

/* What another coordinator must know to go on from here (P3: to be durable before
 * anything that it tells of is said).  It is a new reference. */
json_t *coord_save(const struct coord *c);
/* The partitions were dealt out, and the job is not over. */
bool coord_state_lives(const json_t *state);
/* Of a new coord: go on from such a state, in the next epoch.  Everybody who was
 * there has a lease to come back.  ERR_CONFIG, ERR_FORMAT, ERR_PROTO: it cannot be,
 * and c is good for nothing. */
enum err_code coord_recover(struct coord *c, const json_t *state, int64_t now, struct err *e);
/* Of a new coord: begin afresh, but with epochs and a generation after those. */
void coord_follow(struct coord *c, const json_t *state);
/* Grows when what coord_save tells has changed; the other with the leases of data,
 * which change nothing in the view. */
uint64_t coord_stamp(const struct coord *c);
uint64_t coord_leases(const struct coord *c);
/* Have the partitions been dealt out?  Before that there is nothing to go on with. */
bool coord_is_placed(const struct coord *c);

/* What a peer asks: op is "server_join", "worker_join", "relay_join", "ack", "vote",
 * "beat", "lease", "done", "result", "eval", "fail", "leave", "keys", "table", "facts".  `self` is what
 * the session is: its server number or slot, and its incarnation, set by a
 * join.  The answer is a new object, or NULL with e (and for one-way ops NULL
 * with e->code ERR_OK).  ERR_CLOSED: the session is to be ended, so that the peer
 * joins again. */
struct coord_self {
	enum { COORD_NOBODY, COORD_SERVER, COORD_WORKER, COORD_ADMIN, COORD_RELAY } kind;
	unsigned index;
	uint64_t incarnation;
	const char *name, *key;         /* from the key ring */
	char host[64];
	bool deaf;                      /* it does not hear us, and will try anew */
};
json_t *coord_handle(struct coord *c, struct coord_self *self, const json_t *msg, int64_t now, struct err *e);
/* Is this the living server of the number, or (COORD_ANY_SERVER) one of any? */
#define COORD_ANY_SERVER UINT_MAX
bool coord_is_server(const struct coord *c, unsigned index, const char *key, uint64_t incarnation);
/* The session of this peer has broken. */
void coord_gone(struct coord *c, const struct coord_self *self, int64_t now);
/* The server of this incarnation is in the coordinator's own process: it lives
 * as long as that, however late its heartbeats are. */
void coord_here(struct coord *c, uint64_t incarnation, int64_t now);
/* Of what came before then everything has been handled: who is silent is silent up to then.
 * Never called: up to now. */
void coord_heard(struct coord *c, int64_t until);
/* Leases and deadlines; call it every 50 ms or so.  true: somebody would be lost, if nothing
 * has come of it that is not handled yet. */
bool coord_tick(struct coord *c, int64_t now);

void coord_stop(struct coord *c, const char *why, int64_t now);
/* All processes shall end: after a stop, or when a job that is over is put away. */
void coord_end(struct coord *c);
bool coord_ended(const struct coord *c);
void coord_fail(struct coord *c, const char *why, int64_t now);

/* A key (as in struct coord_self) was revoked, by whom: who has it is lost at once.  The view
 * that tells of it is the next one.  Sessions that were cut of it are counted from now on. */
void coord_revoke(struct coord *c, const char *name, const char *key, const char *who, int64_t now);
/* What this process's own lanes have cut, by which keys; others say so by "keys". */
void coord_keys_checked(struct coord *c, const json_t *msg);
/* Have all that are here looked at their sessions by the keys of that number, or later ones?  `missing` gets the
 * names of those that have not, of *checked that have; *cut: how many sessions of that
 * name. */
bool coord_keys_settled(const struct coord *c, uint64_t made, const char *name, int64_t *cut, unsigned *checked,
    json_t *missing);
/* Who has this key: "worker-2", and how long ago it was heard of; false: nobody that lives. */
bool coord_key_held(const struct coord *c, const char *key, int64_t now, char id[static 32], int64_t *age);
/* Who has this key counts again.  ERR_NOTFOUND: it is not in quarantine. */
enum err_code coord_release_key(struct coord *c, const char *name, const char *key, int64_t now, struct err *e);
/* Why it is; NULL: it is not. */
const char *coord_key_barred(const struct coord *c, const char *key);
/* Something that goes out with the view (the keys) has changed. */
void coord_touch(struct coord *c);
uint64_t coord_rev(const struct coord *c);
/* Another number for each layout. */
uint64_t coord_era(const struct coord *c);

enum coord_phase coord_phase(const struct coord *c);
const char *coord_phase_name(enum coord_phase p);

/* How many there shall be (-1: as now); empty one server; even out.  ERR_USAGE,
 * ERR_NOTFOUND, ERR_NOTREADY. */
enum err_code coord_scale(struct coord *c, int64_t servers, int64_t workers, int64_t now, struct err *e);
/* Would it be done?  Errors of coord_scale. */
enum err_code coord_may_scale(const struct coord *c, int64_t servers, int64_t workers, struct err *e);
enum err_code coord_drain(struct coord *c, unsigned server, int64_t now, struct err *e);
enum err_code coord_rebalance(struct coord *c, int64_t now, struct err *e);
/* Another configuration (all borrowed), by `set`, the keys that differ; and what follows from
 * it.  what, who: for the event. */
struct coord_setting {
	const json_t *config, *set;
	const char *what, *who;
	bool at_once;                   /* it is for no step: no vote is wanted */
	uint64_t at;                    /* not before this step */
	uint64_t batch;                 /* as those of coord_config */
	bool bsp;
	enum coord_policy on_worker_loss;
	int64_t loss_wait;
};
/* Have the servers agree from which step on it holds; coord_set_answer tells, by the ticket.
 * coord_status says "settings" when it is decided and "settings_step" when every worker goes by
 * it.  ERR_NOTREADY; ERR_EXISTS while another one is being decided. */
enum err_code coord_set(struct coord *c, const struct coord_setting *s, int64_t now, uint64_t *ticket, struct err *e);
/* Before the partitions are dealt out: from step 0 on, and nobody has to agree. */
void coord_begin_with(struct coord *c, const struct coord_setting *s);
enum coord_answer { COORD_PENDING, COORD_AGREED, COORD_REFUSED };
enum coord_answer coord_set_answer(const struct coord *c, uint64_t ticket, uint64_t *step, struct err *e);
bool coord_is_setting(const struct coord *c);
bool coord_may_set(const struct coord *c);
/* Tables that come, grow and go in the same way: shape is of an add the whole, of a grow the name
 * and the rows, of a drop the name. */
enum coord_table_op { COORD_TABLE_ADD, COORD_TABLE_GROW, COORD_TABLE_DROP };
struct coord_table {
	enum coord_table_op op;
	const struct table *shape;
	const char *who;
};
enum err_code coord_table(struct coord *c, const struct coord_table *t, int64_t now, uint64_t *ticket, struct err *e);
/* The last that was decided (borrowed); and all: an array of step, number, set, what, who. */
json_t *coord_config_now(const struct coord *c);
json_t *coord_settings(const struct coord *c);
json_t *coord_settings_past(const struct coord *c);     /* of keys that those do not have: step (null: at once), who */
int64_t coord_settings_made(const struct coord *c);
bool coord_is_bsp(const struct coord *c);
uint64_t coord_batch(const struct coord *c);            /* examples of a worker's step */
bool coord_has_relays(const struct coord *c);
/* Has the job's model all tables of a list "w,b" ("none": no table)?  Else one that is not, in unknown. */
bool coord_has_tables(const struct coord *c, const char *list, char unknown[static 64]);
bool coord_has_sparse(const struct coord *c);           /* some table is */
/* What is to be set when the job comes to some step: kept for the owner, over restarts too. */
void coord_plan(struct coord *c, const json_t *list);
json_t *coord_planned(const struct coord *c);           /* borrowed; NULL: nothing was */

/* Workers rest before their next step until they may go on; of the status "paused", and
 * "resting": how many of them do. */
enum err_code coord_pause(struct coord *c, bool pause, const char *who, int64_t now, struct err *e);
/* Is it paused, and do all rest?  Then *step is what a checkpoint can be of until they go on: in bsp the step that
 * is open, else the one that the fastest has come to. */
bool coord_rests(const struct coord *c, uint64_t *step);

/* Checkpoints: begin one of a step (false: there is nothing to save); look after
 * each message how far it is; have it written to a directory; end it. */
enum coord_snap { SNAP_NONE, SNAP_ASKED, SNAP_TAKEN, SNAP_WRITING, SNAP_SAVED, SNAP_LATE, SNAP_BROKEN, SNAP_FAILED };
bool coord_snap_begin(struct coord *c, uint64_t step);
/* Of the next ones: a number that no other has, and that of the one to which changes will do, where servers know
 * it still; 0: none. */
void coord_snap_marks(struct coord *c, uint64_t mark, uint64_t base);
enum coord_snap coord_snap_state(const struct coord *c);
void coord_snap_write(struct coord *c, const char *dir);
void coord_snap_end(struct coord *c);
uint64_t coord_snap_id(const struct coord *c);
uint64_t coord_snap_step(const struct coord *c);
uint64_t coord_snap_frontier(const struct coord *c);    /* of a late one: how far servers are */
const char *coord_snap_message(const struct coord *c);  /* of a failed one: why */
const json_t *coord_snap_descriptions(const struct coord *c);
json_t *coord_snap_head(const struct coord *c);         /* new reference */
uint64_t coord_frontier(const struct coord *c);             /* of the fastest worker */

/* Documents, new references.  The view is what processes need to work; the
 * others are what people ask for (ps-http(7)). */
json_t *coord_view(const struct coord *c);
json_t *coord_status(const struct coord *c, int64_t now);
/* The status and, added up over all processes, what they have done: a line of metrics.jsonl. */
json_t *coord_row(const struct coord *c, int64_t now);
json_t *coord_servers(const struct coord *c, int64_t now);
json_t *coord_workers(const struct coord *c, int64_t now);
json_t *coord_relays(const struct coord *c, int64_t now);
json_t *coord_tables(const struct coord *c);
json_t *coord_layout(const struct coord *c);
json_t *coord_tasks(const struct coord *c);
json_t *coord_result(const struct coord *c, int64_t now);
/* Who waits, for whom, since when, why, and what is to be done about it: objects with id (who),
 * for, step (null: none), since_seconds, because, remedy. */
json_t *coord_why(const struct coord *c, int64_t now);

/* Have every worker try its lines to servers, beside its work: a short transfer each (client/probe.h).
 * The trial's number; one that has just begun goes for all who ask. */
int64_t coord_probe(struct coord *c, int64_t now);
/* What they have found so far: an object with number, age_seconds and workers, each with id, done and
 * servers: id, address, stage, error, rtt_seconds, up_bytes_per_second, down_bytes_per_second. */
json_t *coord_probes(const struct coord *c, int64_t now);

#endif
