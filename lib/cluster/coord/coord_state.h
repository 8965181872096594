/* SPDX-License-Identifier: ISC */
#ifndef COORD_COORD_STATE_H
#define COORD_COORD_STATE_H

/* The inside of struct coord, shared by coord*.c and by nothing else. Like coord.h: no threads,
 * and the owner's lock covers all of it.
 *
 * States of a worker, one for each rank (enum worker_state). A rank's incarnation is the
 * incarnation of the process which joined last; older ones are fenced.
 *
 *   state            event                                                   next state
 *   EMPTY            worker_join                                             JOINING
 *   JOINING          phase forming ends, of which it is a first member       ACTIVE
 *   JOINING          its JOIN or RESUME change is decided                    ACTIVE
 *   JOINING          it is lost before the partitions are placed: its        EMPTY
 *                    session ends at its next message, and it joins again
 *   JOINING, ACTIVE  it is lost, and the LEAVE change that follows is        LOST
 *                    decided (on_worker_loss "shrink")
 *   ACTIVE           it is lost (on_worker_loss "wait:T"): lost_at is set,   ACTIVE
 *                    its step stays open, and its next message clears
 *                    lost_at
 *   JOINING, ACTIVE  "leave", and the LEAVE change that follows is decided   LEFT
 *   JOINING          "leave" before the partitions are placed                EMPTY
 *   JOINING, ACTIVE  "done"; a LEAVE change that is not decided is void      DONE
 *   DONE             its lease expires, or its key is revoked                LEFT
 *   LOST, LEFT       worker_join                                             JOINING
 *   lost_at is set   worker_join of a replacement                            JOINING
 *   any              worker_join for this rank with the key that holds it    JOINING
 *
 * "Lost" means: silent for longer than its lease, it gave up, its key was revoked, or it kept
 * others waiting for too long (coord_stall.c). With on_worker_loss "fail" the job fails instead.
 *
 * States of a server:
 *
 *   state            event                                                   next state
 *   absent           server_join                                             live
 *   live             heartbeats stop, or its session stays broken            lost
 *   live             drained, scaled away, or it asks to leave               leaving
 *   leaving          it holds no partition any more                          released
 *   leaving          heartbeats stop, or its session stays broken            lost
 *   lost             server_join                                             live
 *   released         server_join of another process                          live
 *   released         server_join of the same process: the answer is sent again released
 *                    that it may leave
 *
 * Fields: live = live or leaving; ever = live, leaving or lost.
 *
 * Stages of a change (struct change, struct proposal; coord_change.c). One change at a time is
 * proposed; the others wait in the queue `changes`.
 *
 *   state            event                                                   next state
 *   (none)           a join while the job runs, a leave or loss,             requested
 *                    coord_request_settings or coord_table:
 *                    coord_change_request
 *   requested        the phase is running, no proposal is open, and it is    proposed
 *                    the first in the queue: step S is sent to all servers
 *   requested        the rank has a newer incarnation, or the request is     dropped
 *                    void: coord_change_propose_next skips it
 *   proposed         a server votes yes or no                                proposed
 *   proposed         a server joins: it is asked, too                        proposed
 *   proposed         a server is lost or released: all are asked again,      proposed
 *                    under a new number
 *   proposed         a server refuses a setting or table for lack of room    refused
 *   proposed         the last server has voted                               voted
 *   voted            all said yes (or the change is a RESUME, which needs    decided
 *                    only the servers' clocks)
 *   voted            a server said no: another step beyond all first free steps     proposed
 *                    is sent, under a new number
 *   decided          the view with step S is published; servers and          applied
 *                    workers change when they come to S
 *
 * For settings, coord_settings_check_applied notices when every worker reports that it has applied
 * them. */
#include "coord/checkpoint.h"
#include "coord/coord.h"
#include "coord/leases.h"
#include "coord/straggler.h"
#include "conf/conf.h"
#include "layout/step_data.h"
#include "layout/layout.h"
#include "metric/early_stop.h"
#include "msg/heartbeat.h"
#include "msg/large_description.h"
#include "msg/state.h"
#include "sync/sync.h"

/* Largest JSON text that is kept of a worker: the figures of a last message, an evaluation or a
 * result. In bytes. */
#define FIGURES_MAX (16u << 10)

/* Large descriptions that workers send at the same time, and how long one may rest before its place
 * is given away (ns). */
#define UPLOADS_MAX  4
#define UPLOAD_RESTS (5 * NSEC_PER_SEC)

/* Membership entries kept in the view. A worker needs those from its own step on, so the slowest
 * worker bounds what may be dropped (coord_settings_have_room). */
#define MEMBERS_KEPT 16u

/* A server, by its number. `seen` and all other times are in ns, on the caller's clock. */
struct coord_member_server {
	bool live, ever;
	uint64_t incarnation, acked; /* acked: the view revision that it has applied */
	/* Number of the key list that it has checked its sessions against */
	uint64_t keys_made;
	uint64_t loss; /* number of its last loss (coord_own_keys.losses); 0: never lost */
	/* seen: last heard. gone_at: when its session broke; 0: it is up. back_by: when it must
	 * have a new one */
	int64_t seen, gone_at, back_by;
	/* It gets no new replicas before `no_replicas_until`, because another server could not
	 * reach it. no_replicas_for: length of that time, which doubles with each report
	 * (coord_place.c). */
	int64_t no_replicas_until, no_replicas_for;
	bool leaving, released; /* see the states of a server above */
	bool requested;         /* a scaling wants it, and it has not joined yet */
	bool own;               /* runs in the coordinator's own process */
	bool awaited;           /* it is from the saved state, and has made no session since */
	/* It has compared its share of the checkpoint with the digests, as one of this number of
	 * servers; 0: it has not (coord_resume.c) */
	unsigned checked_of;
	/* An event has reported that it is silent and still waited for */
	bool silence_reported;
	int64_t pid;
	char name[64], key[64], host[64], tcp[160], unix_path[160], zone[COORD_ZONE];
	json_t *stats, *about;
	struct heartbeat_server figures; /* `stats` decoded */
};

/* A relay, by its number. Relays have only two states, live and lost. */
struct coord_member_relay {
	bool live;
	uint64_t incarnation, keys_made, loss; /* loss: as in coord_member_server */
	int64_t seen, gone_at, back_by, pid;   /* as in coord_member_server */
	int upstream;               /* the relay that it sends its sums to; -1: the servers */
	uint64_t unreachable_relay; /* incarnation of a relay that it could not reach */
	char key[64], host[64], tcp[160], unix_path[160], zone[COORD_ZONE];
	json_t *stats, *about;
};

/* A worker's place in the ring of a job whose workers sum dense tables (via allreduce). */
struct ring_seat {
	uint64_t incarnation; /* 0: not in the ring */
	char tcp[160], unix_path[160];
	/* Addresses of the rank's newest process, which may not be in the ring yet */
	char next_tcp[160], next_unix[160];
};

/* A worker, by its rank. state and lost_at are drawn above. */
struct coord_member_worker {
	enum worker_state state;
	bool evaluates; /* it has read the evaluation data */
	/* leave_requested: a scaling removes it. requested: wanted by a scaling, not joined yet */
	bool leave_requested, requested;
	bool gave_up; /* it gave up; later heartbeats are ignored */
	/* Its process is started again when it has ended (ps-work --returns), unless it has failed. */
	bool returns;
	/* How its process ended, by the supervisor, which may start it again; NULL: unknown. */
	char *ended;
	uint32_t layout_epoch; /* newest layout epoch that it has confirmed */
	/* `from` is the step at which the checkpoint left this rank. */
	bool resumes;
	/* from: first step of this incarnation. until: first step without it, when LOST or LEFT. */
	uint64_t incarnation, from, until;
	/* gone_at: when its session broke; 0: it is up, or nothing is known about it */
	int64_t seen, lost_at, gone_at;
	int64_t pid;
	char name[64], key[64], host[64], zone[COORD_ZONE];
	char key_name[64]; /* its key's name in authorized_keys */
	/* Seconds for which servers have delayed its pushes, because of its quota. */
	double quota_seconds;
	int64_t quota_since, quota_at; /* the present run of delays: its begin and its last one */
	uint64_t blocked_at_step;      /* its step at the last check (coord_stall.c) */
	int64_t blocked_ns;            /* how long others have waited for it at that step, in ns */
	/* The number of refused pushes in the last event about them, and when it was sent. */
	uint64_t refused;
	int64_t refused_at;
	int relay;                  /* the relay that it pushes through; -1: none */
	uint64_t unreachable_relay; /* incarnation of a relay that it could not reach */
	struct ring_seat ring;
	json_t *stats;                   /* figures of its last heartbeat, or of its last message */
	struct heartbeat_worker figures; /* `stats` decoded */
	struct straggler_window window;  /* how long its steps took lately */
	/* About the process and its host, from its last heartbeat */
	json_t *about;
	/* results of its last link measurement (coord_link_probe.c) */
	struct heartbeat_probe probe;
	/* Why the last process meant for this rank could not join; or NULL */
	char *cannot_run_reason;
	enum err_cause cannot_run_cause;
	/* Host of a process that is about to join this rank; or NULL */
	char *joining_host;
	uint64_t joining_incarnation; /* incarnation of that process */
};

/* The ranks that take part from a step on, until the step of the next entry. `at` is the position
 * in the training data at that step. */
struct members {
	uint64_t step; /* the ranks that take part from this step on */
	struct data_position at;
	uint64_t batch; /* examples of each rank at a step */
	unsigned *rank, n;
};

/* A requested change. rank and incarnation identify the worker; SET and TABLE have
 * their contents in coord.settings.requested and coord.tables.request. */
struct change {
	struct change *next;
	enum change_kind kind;
	unsigned rank;
	uint64_t incarnation;
	enum worker_state after; /* state after a LEAVE: LOST or LEFT */
};

/* The one proposed change. `id` grows with each round of votes, so that late votes of an earlier
 * round do not count. rounds: rounds that ended without agreement. */
struct proposal {
	bool open;
	uint64_t id, step;
	struct change *change;
	unsigned asked, yes, answers;
	uint64_t first_free,
	    clock;         /* greatest first free step and least clock of the votes so far */
	uint64_t complete; /* the servers have all pushes of the rank's steps before this one */
	uint32_t epoch; /* the layout epoch in which it was asked: `complete` holds for this one */
	unsigned rounds;
	bool *answered; /* by server */
};

/* A rank whose process was lost or replaced, and whose ranges of the data cannot be leased yet
 * (coord_settle.c). The new process takes part from the step `from` on, or nobody does. */
struct settling {
	struct settling *next;
	unsigned rank;
	uint64_t from;
	uint64_t id; /* of the question that the servers are asked */
	/* The vote on the change said that all pushes of earlier steps have been taken; 0: it is
	 * not certain any more. */
	uint64_t complete;
	unsigned asked, answers;
	bool *answered;     /* by server */
	struct taken taken; /* the answers so far */
};

/* Settings kept in the view. No worker is so slow that it needs older ones. */
#define SETTINGS_KEPT 32u
#define OUTCOMES_KEPT 16u

/* The present snapshot; coord.h draws its states. asked: the servers that take part; answered:
 * those that have carried out the last order, which the others get again in each new session. */
struct snap {
	enum coord_snap state;
	uint64_t id, step, first_free;
	uint64_t mark, base; /* see coord_snap_marks */
	bool by_step;        /* see coord_snap_is_by_step */
	/* Not by_step: the steps of ssp and asp around the one that was asked for begin at `from`,
	 * and the steps of the next bsp at `until`. */
	uint64_t from, until;
	uint64_t saved_step; /* of the last snapshot that was saved; 0: none yet */
	/* Number of the settings at its begin; a change breaks the snapshot */
	int64_t settings;
	uint32_t layout_epoch;
	unsigned nasked, answers;
	bool asked[COORD_SERVERS_MAX], answered[COORD_SERVERS_MAX];
	json_t *order;      /* the last one, or NULL */
	int64_t ordered_at; /* when it was given */
	json_t *clocks, *descriptions;
	/* The data leases: at its begin, and once all servers have taken their partitions, with the
	 * batches that are in these; or NULL */
	struct state_leases *leases;
	struct taken *taken; /* by rank: the pushes in the snapshot */
	struct err failure;
};

/* The checkpoint that is under way (checkpoint.h, coord_checkpoint.c). */
struct coord_checkpoint {
	struct checkpoint_order order;
	uint64_t every; /* order.steps->every when it was ordered */
	unsigned tries; /* attempts so far */
	bool named;     /* the snapshot that was taken has the name of its checkpoint */
	/* The greatest step that a server, which was late, has named as its first possible one; and
	 * was the job done when the present snapshot was requested? Until then, a server may name a
	 * step that the job never reaches. */
	uint64_t first_free;
	bool of_done_job;
	int64_t done_limit; /* the job is done: when the wait for the step ends; 0: it is not */
	struct err why;     /* the error if it is dropped now */
};

/* The settings in force and requested (coord_set.c). */
struct coord_settings {
	json_t *base;          /* the configuration before kept[0] */
	struct conf base_conf; /* decoded */
	int64_t base_number;
	struct setting kept[SETTINGS_KEPT]; /* the decided changes */
	/* The configuration at the step of each of them (conf_at). The last one is the present
	 * one. */
	struct conf conf[SETTINGS_KEPT];
	unsigned nkept;
	json_t *present;           /* the present configuration */
	struct setting *requested; /* the change that is being decided; or NULL */
	/* The number of requests so far, and the last one that is decided. */
	uint64_t tickets, decided_ticket;
	/* Outcomes of the last requests, by ticket: `why` if it was refused, otherwise the step
	 * decided on and the number of the settings then. */
	struct outcome {
		uint64_t ticket, step;
		int64_t number;
		char why[300];
	} outcome[OUTCOMES_KEPT];
	/* By key: step (null: at once) and user of settings no longer kept */
	json_t *past;
	json_t *planned;
	int64_t newest; /* number of the newest settings */
	/* Step by which all workers use the newest settings; -1: not yet */
	int64_t applied_step;
	/* on_worker_loss is no longer "wait", and lost workers may be pending */
	bool unwaited;
};

/* The pause of the job: workers rest before their next step while a user has paused the job (on),
 * or while it is held for its last checkpoint (held). A hold is not saved: it ends with the
 * coordinator. */
struct coord_pause {
	bool on, held;
	/* Number of the pause; heartbeats of resting workers repeat it */
	int64_t number;
	int64_t at;
	char by[64];
	char holder[64];
};

/* The oldest place of a partition of a stream that existing checkpoints need, as in answer_kept. */
struct coord_kept_place {
	int64_t newest, oldest;
};

/* A large description that workers send in pieces (coord_description.c): its text so far, or all of
 * it. */
struct coord_upload {
	struct description_pieces pieces;
	struct large_description *whole;
	int64_t at; /* when its last piece came */
};

/* The training data, and which worker has which range of it. */
struct coord_data {
	json_t *facts; /* from the first worker, or a reference to `large`; or NULL */
	struct large_description *large;
	struct coord_upload upload[UPLOADS_MAX];
	bool given;        /* the job began with them, and its workers read their data by them */
	bool resumed;      /* a checkpoint had them; its first worker may extend them */
	uint64_t examples; /* as the workers report: examples, or blocks of them */
	/* blocks that are leased at once; 0: examples are leased in ranges */
	uint64_t blocks_per_lease;
	bool stream; /* examples are partitions of a stream */
	/* a line for people: what is trained on which data; "": no worker has reported it */
	char job[512];
	/* The data is leased from step leased_from on; once leased, it stays so. */
	bool leased;
	uint64_t leased_from;
	struct leases *leases;
	struct coord_kept_place *kept; /* nkept entries, by partition of the stream */
	uint64_t nkept;
	uint64_t lease_changes; /* number of the last change of a lease; goes on over restarts */
};

/* Signs of which it is: the servers are silent, or the coordinator is cut off. */
struct coord_hearing {
	bool cut_off;  /* an event has reported that no server is heard */
	bool doubts;   /* the result of coord_tick */
	bool returned; /* a server of the saved state is back */
	int64_t until; /* see coord_input_processed_until; 0: it was never called */
	/* Up to this time (clock_now) no silent server is taken for lost. */
	int64_t cut_off_until;
};

/* Changes of the members, decided one at a time by a vote of the servers (coord_change.c). */
struct coord_votes {
	struct change *changes, **changes_last;
	struct proposal proposal;
	uint64_t next, decided;    /* numbers of proposals */
	struct settling *settling; /* see coord_settle.c; NULL: nothing is being settled */
};

/* A message "eval" or "result", decoded. */
struct coord_report {
	json_t *json; /* the message, which has the texts and documents; NULL: there is none */
	int64_t step;
	const json_t *eval; /* or NULL */
	const char *digest;
};

/* The last reports of the worker that evaluates the model. */
struct coord_evaluation {
	int rank; /* of the evaluator; -1: none yet */
	struct coord_report result, last;
};

/* The evaluations so far (coord_learning.c), by the held-out rows if the job has some. A
 * coordinator that is started again begins with the next one. */
struct coord_learning {
	bool taken; /* there was one */
	int64_t step;
	enum metric metric;
	double best, last;  /* values of `metric` */
	int64_t best_step;  /* -1: none has the metric */
	double loss, train; /* of the last evaluation, and of the training examples at that time */
	double least, least_train; /* of the one with the least loss */
	int64_t least_step;        /* -1: none */
	unsigned above;            /* evaluations after it */
};

/* The workers that sum dense tables among themselves (coord_ring.c). */
struct coord_ring {
	bool used;     /* the job has via allreduce */
	uint32_t gone; /* number of workers that have left the ring so far */
};

/* Early stopping, by job.stop. */
struct coord_stopping {
	struct early_stop state;
	json_t *eval;    /* the best evaluation, or NULL */
	bool saver;      /* the owner makes checkpoints (coord_best_begin) */
	uint64_t wanted; /* step of the best evaluation, whose checkpoint is to be made; 0: none */
	/* The snapshot for it has exactly the evaluated parameters: no step closes without the
	 * evaluator. */
	bool exact;
	bool evaluator_waits; /* its evaluator waits until the snapshot has been taken */
	uint64_t saved;       /* step of the checkpoint of the best evaluation; 0: none yet */
	char ended[160];      /* why the job ends early; "": it does not */
	uint64_t
	    saved_step; /* the job was stopped with a checkpoint of this step; 0: without one */
};

/* Which workers train which step: the entries of coord_change.c, and where the job began. */
struct coord_membership {
	struct members *entry;
	unsigned n, base;
	uint64_t first_step; /* the step that the job begins with */
	struct data_position first_at;
};

/* Evening out the load of the servers. */
struct coord_balance {
	bool wanted; /* when no replica is under way */
	/* Weights of the partitions while the load is evened out; or NULL */
	uint64_t **weight;
	size_t nweight; /* tables */
};

/* The keys of the coordinator's own process. */
struct coord_own_keys {
	uint64_t made; /* as keys_made in coord_member_server */
	json_t *cut;   /* number of sessions closed, by revoked name */
	/* Servers and relays that were lost so far, and how many had been when a name was
	 * revoked */
	uint64_t losses;
	json_t *losses_before;
};

/* The last measurement of all links. */
struct coord_probe {
	int64_t number, at;
};

/* Tables that are created and dropped while the cluster runs. */
struct coord_tables {
	struct table_request *request; /* being decided; or NULL */
	uint64_t changed;              /* view revision of the last change */
};

/* The check of the checkpoint that the job resumes from (coord_resume.c draws its states). */
struct coord_checking {
	bool open;
	char *damage; /* what a server has found; NULL: nothing */
};

/* A sentence for people, and what a program knows of it. */
struct coord_reason {
	char text[600];
	enum err_cause cause;
};

/* All by clock_now; 0: not yet. */
struct coord_times {
	int64_t started, running, ended; /* of the job */
	int64_t formed;                  /* while forming: the last progress */
	int64_t turned;                  /* the last turn of the owner's thread, or coord_new */
	int64_t stalls;                  /* when coord_stall.c checked last */
	int64_t deserted;                /* when no worker was left of a job that waits for one */
};

struct coord {
	struct coord_config cfg;
	const struct conf *conf; /* cfg.config decoded; in `settings` */
	struct coord_io io;
	enum phase phase;
	struct coord_reason end;       /* why the job has failed or was stopped */
	struct coord_reason last_lost; /* the worker lost last, and why */
	struct coord_reason
	    cannot_run;    /* a worker without a fixed rank that could not join, and why */
	char waiting[600]; /* the members that are missing; "": none */
	uint64_t rev, state_rev;
	struct coord_times times;
	bool placed, ended;
	/* A partition has no replica left; only a checkpoint has its values */
	bool data_lost;

	struct layout layout;
	struct coord_member_server *server; /* COORD_SERVERS_MAX entries */
	/* Zone numbers of the servers: layout.zone points here */
	uint16_t zone[COORD_SERVERS_MAX];
	struct coord_member_worker *worker;   /* COORD_WORKERS_MAX entries */
	struct coord_member_relay *relay;     /* COORD_RELAYS_MAX entries */
	unsigned nservers, nworkers, nrelays; /* entries in use */
	struct coord_ring ring;
	struct coord_tables tables;

	struct coord_probe probe;
	struct coord_own_keys keys;
	struct coord_membership membership;
	struct coord_checking checking;
	struct coord_balance balance;
	struct coord_settings settings;
	struct coord_pause pause;
	struct coord_data data;
	struct coord_hearing hearing;
	struct coord_votes votes;
	struct coord_evaluation evaluation;
	struct coord_stopping stopping;
	struct coord_learning learning;
	struct snap snap;
	struct coord_checkpoint checkpoint;
};

/* A message, and the session that has sent it: a join fills *self in. */
struct coord_request {
	struct coord_self *self;
	const struct message *m;
	int64_t now;
	struct err *e;
};
/* Handles a message, coord_on_NAME, which coord_handle has found to be allowed for this session.
 * Returns the answer, a new object; or NULL, with r->e set if the message is refused. */
typedef json_t *coord_message_fn(struct coord *c, const struct coord_request *r);
#define TO_JOIN(name)   coord_message_fn coord_on_##name;
#define TO_ANY(name)    coord_message_fn coord_on_##name;
#define TO_NEW(name)    coord_message_fn coord_on_##name;
#define TO_MEMBER(name) coord_message_fn coord_on_##name;
#include "msg/message.def"

/* coord.c: the phases, and the leases of members */
/* Publish a new revision of the view, and mark the saved state as changed. */
void coord_changed(struct coord *c);
/* Report an event. */
void coord_event(struct coord *c, enum event_kind kind, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Enter a phase: note the time, record an event, and publish the view. */
void coord_enter(struct coord *c, enum phase phase, int64_t now);
/* Do everything that the present state allows: form, propose the next change, finish joins and
 * repair chains, end the job. Called after each message and at each tick. */
void coord_progress(struct coord *c, int64_t now);
unsigned coord_live_servers(const struct coord *c);
/* The state's name in documents, as "active". */
const char *coord_worker_state_name(enum worker_state s);
/* Has a member, last heard at `seen`, been silent for longer than `limit` (ns)? Silence counts up
 * to coord_input_processed_until. If it may only seem so, because input is still unprocessed, the
 * result is false and coord_tick returns true. */
bool coord_overdue(struct coord *c, int64_t seen, int64_t limit, int64_t now);
/* The session of a server or relay broke: set when, and when it must have a new one. */
void coord_set_gone(int64_t *gone_at, int64_t *back_by, int64_t now);
/* Treat a worker as lost, by on_worker_loss: start a LEAVE change, wait for it, or fail. Does nothing
 * for one that is leaving and awaits the vote. */
void coord_worker_lost(struct coord *c, unsigned rank, enum err_cause cause, const char *how,
    int64_t now);

/* coord_place.c: which server holds which partition, while the cluster runs */
/* Place the partitions that have no run yet, in the coord's layout or in a given one. */
void coord_place_tables(struct coord *c);
void coord_place_tables_in(const struct coord *c, struct layout *l);
/* Take a server as lost: drop it from all chains, repair them, and restart an open vote. If a
 * partition has lost its last replica, the job fails. The layout epoch grows. */
void coord_place_server_lost(struct coord *c, unsigned i, const char *how, int64_t now);
/* Start replicas for chains that are too short, and balance. True: the layout has changed. */
bool coord_place_repair(struct coord *c, int64_t now);
/* Forget the weights; the next balancing weighs the partitions again. */
void coord_place_drop_weights(struct coord *c);
/* Let joining servers that have their replicas become tails, once all active workers have confirmed
 * the layout epoch. */
void coord_place_finish_joins(struct coord *c, int64_t now);
/* Renumber the zones for the layout, after a server has joined. */
void coord_place_number_zones(struct coord *c);

/* coord_scale.c */
/* Let servers leave that hold nothing any more; true: there were some */
bool coord_scale_release_servers(struct coord *c);
/* The members that a scaling waits for, and the servers that have handed over everything: arrays of
 * names, as "worker-2". New references. */
json_t *coord_scale_called(const struct coord *c);
unsigned coord_scale_wanted_servers(const struct coord *c); /* without those that were drained */
json_t *coord_scale_released(const struct coord *c);
/* Handle "leave" of a server, which may be repeated: it hands over its partitions first, if another
 * server can take them. */
void coord_scale_server_leaves(struct coord *c, unsigned server, int64_t now);
/* Tell a server that it may leave: when it is released, and again in each later session. */
void coord_scale_permit_leave(struct coord *c, unsigned server);
/* Is a member leaving, does a worker join that does not take part yet, or is the load still to be
 * evened out? */
bool coord_scale_in_progress(const struct coord *c);

/* coord_change.c: one change at a time, decided by a vote of the servers (see the table above) */
/* Request a change: append it to the queue. `after` is used by LEAVE only. The result is
 * borrowed. */
struct change *coord_change_request(struct coord *c, enum change_kind kind, unsigned rank,
    enum worker_state after);
/* Propose the first change of the queue that is still wanted, if no proposal is open. */
void coord_change_propose_next(struct coord *c);
/* Repeat an open question to a server that has a new session and has not voted. */
void coord_change_ask_again(struct coord *c, unsigned server);
/* Keep an open vote complete: a server has joined; a server that was asked is lost. */
void coord_change_server_joined(struct coord *c, unsigned server);
void coord_change_server_gone(struct coord *c);
/* coord_snap.c: the orders of a checkpoint */
/* Repeat the last order to a server that has a new session, unless it has carried it out. */
void coord_snap_order_again(struct coord *c, unsigned server);
void coord_snap_release(struct coord *c);
/* coord_settle.c: the ranges of a rank whose process was lost or replaced */
/* Ask the servers which pushes of the rank count, and then take its ranges back. Its new process
 * takes part from the step `from` on. All pushes of the steps before `complete` have been taken,
 * unless a server is lost meanwhile. */
void coord_settle_begin(struct coord *c, unsigned rank, uint64_t from, uint64_t complete);
/* Have the rank's ranges not been taken back yet? Then it is leased no others. coord_settle_from
 * returns the step `from`, or 0 if they have. */
bool coord_settle_is_open(const struct coord *c, unsigned rank);
uint64_t coord_settle_from(const struct coord *c, unsigned rank);
/* Repeat open questions to a server that has a new session; ask all servers again, because a new
 * layout epoch has other chains, or because a server has joined, left or been lost. */
void coord_settle_ask_again(struct coord *c, unsigned server);
void coord_settle_chains_changed(struct coord *c);
void coord_settle_servers_changed(struct coord *c);
/* Forget the rank, or all ranks. */
void coord_settle_drop(struct coord *c, unsigned rank);
void coord_settle_release(struct coord *c);

/* Fix the members of the first step: all workers that are JOINING. */
void coord_members_begin(struct coord *c);
/* Before the first step: let one more rank take part from it on. */
void coord_members_add_first(struct coord *c, unsigned rank);
/* Does the rank take part from the newest membership entry on? There is one. */
bool coord_members_have(const struct coord *c, unsigned rank);
/* Begin a new membership entry at `step` with the same ranks and the present batch size. */
void coord_members_restart(struct coord *c, uint64_t step);
/* Free the membership entries; write them to the view and the saved state; read them. False: they
 * cannot be a coordinator's. */
void coord_members_release(struct coord *c);
json_t *coord_members_to_json(const struct coord *c);
void coord_members_save(const struct coord *c, struct state *out);
bool coord_members_load(struct coord *c, const struct state *state);

/* coord_resume.c: begin where a checkpoint was taken */
/* Take tables, generation and first step from the checkpoint's manifest; then each rank's first
 * step. */
void coord_resume_begin(struct coord *c);
/* Ends the check once all servers have answered. Does nothing if none is open. */
void coord_resume_end_check(struct coord *c);
/* Names the servers that have not answered: "server-1 to verify step-000000000020". */
void coord_resume_describe_check(const struct coord *c, char *out, size_t size);
/* Give a table of the model that the job begins with what a worker says about it: its policy and
 * first values, and, if it is dense, more rows. A table of another shape is not changed. */
void coord_resume_fit_table(struct coord *c, const struct table *shape);
/* Have the data another number of examples (or blocks) than when the checkpoint was taken? Then its
 * position in them is one of other data. */
bool coord_resume_has_other_data(const struct coord *c);
/* Begins the epoch again where they have, and reports it. */
void coord_resume_fit_data(struct coord *c);
void coord_resume_members(struct coord *c);
/* The checkpoint's data leases; NULL: its data was not leased, or there is no checkpoint. */
const struct state_leases *coord_resume_saved_leases(const struct coord *c);

/* coord_learning.c: takes an evaluation; adds what is known to a status or a result. */
void coord_learning_take(struct coord *c, int64_t step, const json_t *eval);
void coord_learning_report(const struct coord *c, json_t *to);
/* The loss of the first batches. NAN: not known, or the job began with parameters that were trained
 * before. */
double coord_learning_first_loss(const struct coord *c);

/* coord_refusals.c */
/* Hooks: a server's figures have arrived; a worker has joined. */
void coord_watch_heartbeat(struct coord *c, const struct heartbeat_server *f, int64_t now);
void coord_watch_joined(struct coord *c, unsigned rank);
/* The last message of the worker has arrived: report its refused pushes now. */
void coord_watch_ended(struct coord *c, unsigned rank, int64_t now);
/* The refused pushes of the job, those from outside included. */
uint64_t coord_watch_refused(const struct coord *c);
/* Have servers delayed its pushes lately, because of its quota? */
bool coord_watch_is_delayed(const struct coord_member_worker *w, int64_t now);

/* coord_stall.c */
/* Treat workers that keep others waiting for too long as lost; called at every tick. */
void coord_stall_check(struct coord *c, int64_t now);

/* coord_job.c: data, completion, result */
/* The job's step: its slowest worker's step */
uint64_t coord_step(const struct coord *c);
/* The step for people: the step of the checkpoint with which the job was stopped, else
 * coord_step */
uint64_t coord_shown_step(const struct coord *c);
/* The step that a worker is at: the one it has reported, but at least the one it began at. */
uint64_t coord_worker_step(const struct coord_member_worker *w);
/* Was its process lost before the job had members? Its rank is free then, and the process must join
 * again if it lives. */
static inline bool coord_worker_is_dismissed(const struct coord_member_worker *w)
{
	return w->state == WORKER_EMPTY && w->lost_at && !w->gave_up;
}
/* Add a member's last figures to a row for people, and the difference of its clock from ours
 * (seconds ahead). seen_seconds: age of those figures. */
void coord_row_add_figures(json_t *row, const json_t *stats, const json_t *about,
    double seen_seconds);
#define COORD_MEMORY_NOTE 160
/* Had a member nearly no memory left when it was heard last? Then out is the end of a sentence
 * about its loss, else "" (coord_memory.c). about: of its last heartbeat, or NULL. */
bool coord_memory_was_short(const json_t *about, char out[static COORD_MEMORY_NOTE]);
/* Is `what` the worker's activity ("wait", "compute", ...), according to its last heartbeat? */
bool coord_worker_does(const struct coord_member_worker *w, const char *what);
/* A worker at `step` waits for workers that are below the returned step; 0: for none. */
uint64_t coord_needed_step(const struct coord *c, uint64_t step);
/* The time that the steps of this incarnation took the worker, by its figures
 * (coord_why_slow.c). */
struct straggler_costs coord_worker_costs(const struct coord_member_worker *w);
/* Explain to worker `asker` which worker keeps it waiting before `step`; "" when none does. */
void coord_why_text(const struct coord *c, unsigned asker, uint64_t step, int64_t now, char *out,
    size_t n);
/* Handle "done": the worker has finished its work. */
void coord_job_worker_done(struct coord *c, unsigned rank);
/* Keep a report of the evaluator, instead of an older one; NULL: none. False: it is not a message
 * "eval" or "result". Release it. */
bool coord_report_keep(struct coord_report *r, const json_t *msg);
void coord_report_release(struct coord_report *r);
/* Sets the number of epochs once the number of examples is known (conf_epochs). */
void coord_job_choose_epochs(struct coord *c);
/* Start leasing the data, if this job does. saved: the state of the leases to go on from, or
 * NULL. */
void coord_job_begin_leases(struct coord *c, const struct state_leases *saved);
/* Early stopping (coord_early_stop.c): take an evaluation of a step into account, which may be an
 * evaluation of the final model; save and load the state; add it to a status or result. */
void coord_early_stop_take(struct coord *c, int64_t step, const json_t *eval, bool final);
struct state_stop *coord_early_stop_save(const struct coord *c);
/* Has the model that is saved for an earlier evaluation exactly the evaluated parameters? */
bool coord_early_stop_is_exact(const struct coord *c);
void coord_early_stop_load(struct coord *c, const struct state_stop *saved);
/* Forget all evaluations, as in a new coord. */
void coord_early_stop_reset(struct coord *c);
void coord_early_stop_report(const struct coord *c, json_t *to);
/* Is the job's model the model of an evaluation before the final one, whose checkpoint has it? */
bool coord_early_stop_is_earlier(const struct coord *c);
/* Is the checkpoint of the best evaluation being written? Then the result would not know it yet. */
bool coord_early_stop_is_writing(const struct coord *c);

/* End the running phase when no worker is left at work; choose an evaluator when finishing. */
void coord_job_check_end(struct coord *c, int64_t now);
/* The worker that has ended and is started again (ps-work --returns); -1: none. */
int coord_job_returning(const struct coord *c);

/* coord_set.c */
/* Begin with the settings of the configuration; free all settings. */
void coord_settings_begin(struct coord *c);
void coord_settings_release(struct coord *c);
/* The job is over: refuse requests that are still undecided. */
void coord_settings_refuse_pending(struct coord *c);
/* New figures have arrived: check whether all workers use the newest settings now. */
void coord_settings_check_applied(struct coord *c);
/* The settings that are being decided: the earliest step allowed; the changed keys; a server has
 * refused them; they are decided for `step`. */
uint64_t coord_setting_earliest_step(const struct coord *c);
const json_t *coord_setting_proposed(const struct coord *c);
void coord_setting_refused(struct coord *c, unsigned server, const char *why);
void coord_setting_decided(struct coord *c, uint64_t step);
/* The configuration in force at a step: a new reference to the document, and decoded. */
json_t *coord_config_at(const struct coord *c, uint64_t step);
const struct conf *coord_conf_at(const struct coord *c, uint64_t step);
/* The synchronization mode in force at a step. Unlike coord_conf_at, a mode decided for a later
 * step does not change the answer. */
struct sync_mode coord_mode_at(const struct coord *c, uint64_t step);
/* The steps around this one, a step of ssp or asp, at which no step is closed: from *from to before
 * *until (SYNC_NEVER: no end is decided). */
void coord_find_unclosed_steps(const struct coord *c, uint64_t step, uint64_t *from,
    uint64_t *until);
/* Write the settings to the view; write them to the saved state; read them from it (false: they
 * cannot be a coordinator's). */
void coord_settings_to_view(const struct coord *c, json_t *view);
void coord_settings_save(const struct coord *c, struct state *out);
bool coord_settings_load(struct coord *c, const struct state *state);

/* Record the outcome of the last ticket: refused, or decided for a step. */
void coord_ticket_refused(struct coord *c, const char *why);
void coord_ticket_decided(struct coord *c, uint64_t step);

/* coord_table.c: the same stages, for a table change */
/* The proposed change as the servers need it to judge the room (JSON null: no server needs room); a
 * server has refused it; it is decided for `step`. */
/* The step before which the requested change must not take effect. */
uint64_t coord_table_earliest_step(const struct coord *c);
json_t *coord_table_proposed(const struct coord *c);
void coord_table_refused(struct coord *c, unsigned server, const char *why);
void coord_table_decided(struct coord *c, uint64_t step);
/* Write a pending table change to the saved state; read it. */
void coord_tables_save(const struct coord *c, struct state *out);
void coord_tables_load(struct coord *c, const struct state *state);

/* coord_relay.c */
/* Choose a relay for a worker that joins; raises the layout epoch when it gets one. */
void coord_relay_choose(struct coord *c, unsigned rank);
/* Keep a document that a message brought, instead of an older one. False: it brought none. */
bool coord_keep(json_t **place, const json_t *doc);
/* Handle a relay's heartbeat. False: self is not a living relay. */
bool coord_relay_heartbeat(struct coord *c, const struct coord_self *self,
    const struct message_beat *beat, int64_t now);
/* Note that a relay's session has ended; coord_relays_check takes it as lost if it does not
 * reconnect. */
void coord_relay_gone(struct coord *c, const struct coord_self *self, int64_t now);
/* Take relays as lost whose session stays broken or whose heartbeats stop. */
void coord_relays_check(struct coord *c, int64_t now);
/* Take a relay as lost, and assign its workers to others. */
void coord_relay_lost(struct coord *c, unsigned relay, const char *how);
/* Write the relays to the view and the saved state; read them (false: they cannot be a
 * coordinator's). Members read count as heard at `seen`. */
json_t *coord_relays_to_json(const struct coord *c);
void coord_relays_save(const struct coord *c, struct state *out);
bool coord_relays_load(struct coord *c, const struct state *state, int64_t seen);

/* A process that was about to join has closed its session before it did. */
void coord_coming_gone(struct coord *c, uint64_t incarnation);

/* coord_link_probe.c */
/* Move the results of a link measurement from a worker's new figures into w->probe. */
void coord_probe_heard(struct coord_member_worker *w);
/* Add the number of the current measurement, if any, to the view. */
void coord_probe_to_view(const struct coord *c, json_t *view);

/* coord_ring.c */
/* Update the ring's members after any change of the workers. */
void coord_ring_update(struct coord *c);
/* The ring as the view shows it; note a joining worker's addresses; write a seat to the saved
 * state, and read it. */
json_t *coord_ring_to_view(const struct coord *c);
void coord_ring_join(struct coord_member_worker *w, const json_t *addresses);
struct state_ring *coord_ring_save(const struct ring_seat *r);
void coord_ring_load(struct ring_seat *r, const struct state_ring *s);

/* coord_join.c */
/* Makes the table whole if its update rule needs it. ERR_CONFIG: the job's aggregation or update
 * rule cannot handle this table. */
enum err_code coord_table_fits_job(const struct coord *c, struct table *shape, struct err *e);
/* ERR_CONFIG: a table is divided into partitions, and its update rule in this configuration acts on
 * whole tables. */
enum err_code coord_rules_fit_tables(const struct layout *l, const struct conf *conf,
    struct err *e);

/* coord_description.c */
/* Replaces the facts by a copy of this document, which may be NULL. False: it refers to a large
 * description that is not here; then there are none. */
bool coord_description_set(struct coord *c, const json_t *facts);
/* Keeps the facts of the data, unless there are some: all workers read the same data. Those that a
 * model or a checkpoint came with are replaced, because a worker's extend them. */
void coord_description_store(struct coord *c, const json_t *facts);
/* False: coord_description_store would need a large description that is not here. */
bool coord_description_is_here(struct coord *c, const json_t *facts);
void coord_description_free(struct coord *c);

#endif
