/* SPDX-License-Identifier: ISC */
#ifndef COORD_COORD_H
#define COORD_COORD_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/json.h"
#include "msg/message.h"
#include "msg/setting.h"
#include "msg/state.h"
#include "msg/words.h"
#include "layout/limits.h"

struct conf;
struct lease_change;

/* The cluster's membership and decisions: who takes part, which server holds which partition,
 * in which phase the job is, and at which step a change takes effect. A pure state machine:
 * it has no clock, thread, lock or socket. Each call takes the current time, monotonic, in
 * nanoseconds; messages, log events and records leave through struct coord_io. The owner
 * (role/coordinator) serialises all calls with a lock of its own, and holds it while the
 * functions of struct coord_io run.
 *
 * Phases of a job (enum phase). A cluster without a job stays in "running".
 *
 *   state       event                                                       next state
 *   (none)      coord_new                                                   forming
 *   forming     all servers and enough workers have joined: the partitions  forming
 *               are placed and the members of the first step are fixed
 *   forming     every living server has acknowledged that view              running
 *   forming     nothing advanced for cfg.deadline                           failed
 *   running     no worker is active or joining, no change is pending, and   finishing
 *               at least one worker is done
 *   running     as above, but no worker is done                             failed
 *   running     a worker is lost and on_worker_loss is "fail", or is        failed
 *               "wait:T" and T has passed
 *   finishing   the evaluator has sent its "result"                         done
 *   finishing   no worker that is done is left to evaluate                  failed
 *   not over    a worker sends "fail", or a partition loses its last replica   failed
 *   not over    coord_stop                                                  stopped
 *   done        nothing changes the phase any more; the servers go on       done
 *               serving the model, and lost replicas are still replaced
 *
 * "Not over" means forming, running or finishing. failed and stopped are final.
 * coord_recover begins in the phase of the saved state; coord_end sets a flag beside the
 * phase that tells all processes to exit. The states of a worker, of a server and of a change
 * are drawn in coord_state.h. */
struct coord;

#define COORD_ZONE 64 /* size of a zone's name, with its NUL */

/* The reaction to the loss of a worker (on_worker_loss). */
enum coord_policy { COORD_SHRINK, COORD_WAIT, COORD_FAIL };

/* Can a job with this configuration resume from the checkpoint that this is the head of?
 * ERR_CONFIG: its data were shared in another way. */
enum err_code coord_resume_check(const struct state_head *m, bool deterministic, unsigned workers,
    struct err *e);

/* The check of a checkpoint, by its digests. It is open from coord_new on, if cfg.check_resume is
 * set, until each server has compared its share. Meanwhile no worker joins, and no partition is
 * placed. coord_resume_damage returns what a server has found, or NULL; the owner then either ends
 * the job, or calls coord_resume_instead with an older checkpoint. Of its cfg the members are used
 * that depend on the checkpoint: resume, resume_path, description and config. */
bool coord_resume_is_checked(const struct coord *c);
const char *coord_resume_damage(const struct coord *c);
struct coord_config;
void coord_resume_instead(struct coord *c, const struct coord_config *cfg, int64_t now);

struct large_description;

/* The configuration of a cluster, as far as it concerns the coordinator. Pointers are borrowed and
 * must outlive the coord. */
struct coord_config {
	const char *name, *cluster_id;
	const char *run_dir;               /* for advice; NULL: not known */
	unsigned servers, workers;         /* how many make the cluster whole */
	unsigned servers_max;              /* further servers may join up to this number; 0: none */
	unsigned replicas;                 /* wanted length of each partition's chain */
	unsigned workers_min, workers_max; /* bounds of `workers`; equal or 0: none */
	bool has_job, deterministic;
	bool lockstep; /* sync_ops.lockstep of the mode */
	enum coord_policy on_worker_loss;
	/* Nanoseconds. A server that is silent for server_lost is lost: 7.5 heartbeats
	 * (coordinator.c). */
	int64_t loss_wait, lease, server_lost, deadline, join_wait;
	uint64_t batch, epochs, steps; /* 0: no limit */
	/* Manifest of the checkpoint to resume from, and its directory; NULL: a fresh start. */
	const struct state_head *resume;
	const char *resume_path;
	bool resume_newest; /* the newest checkpoint was asked for, and not this one by name */
	/* It takes over from a coordinator for which its members look at several addresses, so that all
	 * of them find it at about the same time. */
	bool took_over;
	/* Only its manifest has been read so far: the servers compare it with its digests
	 * (coord_resume.c). */
	bool check_resume;
	/* The large description that the saved state or that checkpoint refers to; borrowed, or
	 * NULL */
	struct large_description *description;
	/* Effective configuration, published in the view; borrowed */
	json_t *config;
};

/* How effects leave the state machine. The functions run inside of coord_*() calls. They may read
 * the coord (coord_row), but must not change it and must not wait for other threads. */
struct coord_io {
	void *ctx;
	/* Send a message to one server, as a CTL record on its session. msg is borrowed. */
	void (*to_server)(void *ctx, unsigned server, json_t *msg);
	/* The view has changed: the owner sends coord_view() to every session soon. */
	void (*view_changed)(void *ctx);
	/* Report an event of event.def, for the log and GET /v1/events. */
	void (*event)(void *ctx, enum event_kind kind, const char *text);
	/* A lease of data has changed. number counts these changes from 1 and goes on over
	 * restarts. The leases can be restored from the last coord_save and all later changes. May
	 * be NULL. */
	void (*lease_changed)(void *ctx, uint64_t number, const struct lease_change *change);
};

/* Create a coord in the phase forming, and free it. coord_free(NULL) is fine. */
struct coord *coord_new(const struct coord_config *cfg, const struct coord_io *io, int64_t now);
void coord_free(struct coord *c);

/* Fill in the state from which another coordinator can go on (see coord_recover). It must be
 * durable before any message that depends on it is sent. The addresses of the process, "began" and
 * the log of leases are the owner's, and stay NULL. Texts and documents belong to the coord, and
 * change with it; *out is for state_release. */
void coord_save(const struct coord *c, struct state *out);
/* The description of the data, if it is so large that saved states and heads of checkpoints only
 * refer to it, borrowed. The owner keeps it beside them. NULL: it is part of them, or there is
 * none. */
struct large_description *coord_large_description(const struct coord *c);
/* Does the saved state have placed partitions and a job that is not over? */
bool coord_state_is_running(const struct state *state);
/* Does the saved state have placed partitions, and is its job running or done? Then the servers
 * still hold its model. */
bool coord_state_has_model(const struct state *state);
/* Is the saved state one of a cluster that was still waiting for its members? */
bool coord_state_is_forming(const struct state *state);
/* Load a saved state into a coord fresh from coord_new and go on in the next layout epoch. Every
 * member of the saved state has one lease to reconnect. On ERR_CONFIG, ERR_FORMAT or ERR_PROTO the
 * state cannot be used, and c must be freed. */
enum err_code coord_recover(struct coord *c, const struct state *state, int64_t now, struct err *e);
/* After coord_recover: repeat a change that lease_changed logged. Changes that the saved state
 * already contains are skipped. False: the change does not follow from the state. */
bool coord_replay_lease(struct coord *c, uint64_t number, const struct lease_change *change);
/* Make a fresh coord begin with a layout epoch and a generation above the numbers of a saved state
 * that is not recovered, so that processes of the old run are fenced. */
void coord_begin_after(struct coord *c, const struct state *state);
/* Two counters for the owner's persistence. coord_state_rev grows whenever coord_save would return
 * something else; coord_lease_changes counts the changes of data leases, which do not change the
 * view. */
uint64_t coord_state_rev(const struct coord *c);
uint64_t coord_lease_changes(const struct coord *c);
/* The checkpoints that exist need the events of this partition of the stream from the place
 * `oldest` on, and a job that resumes from the newest one reads on from `newest` (ckpt/kept.h).
 * Workers give up only the events before those. */
void coord_note_kept_place(struct coord *c, uint64_t partition, int64_t newest, int64_t oldest);
/* The number of partitions of the stream that the job trains on; 0: it trains on none. */
uint64_t coord_stream_partitions(const struct coord *c);
/* Have the partitions been placed? Before that there is nothing to recover. */
bool coord_is_placed(const struct coord *c);
/* Number of tables that have not been dropped. */
size_t coord_count_tables(const struct coord *c);

/* Handle one request of a peer. message.def names those that the coordinator handles
 * and the sessions that may send them. `self` identifies the session: its server or worker
 * number and its incarnation; a join fills it in. Returns the answer, a new object, or NULL with
 * the error in e. For one-way requests it returns NULL and leaves e->code at ERR_OK. ERR_CLOSED:
 * the owner closes the session, so that the peer joins again. ERR_FENCED: the process has lost its
 * place, or knows a layout epoch that this coordinator does not: it must be started again. */
struct coord_self {
	enum { COORD_NOBODY, COORD_SERVER, COORD_WORKER, COORD_ADMIN, COORD_RELAY } kind;
	unsigned index;
	uint64_t incarnation;
	const char *name, *key; /* the peer's key, and its name in the key ring */
	bool reconnecting;      /* the peer gets no answers and will reconnect */
};
json_t *coord_handle(struct coord *c, struct coord_self *self, const struct message *m, int64_t now,
    struct err *e);
/* Is this server alive, with this key and incarnation? COORD_ANY_SERVER: under any number. */
#define COORD_ANY_SERVER UINT_MAX
bool coord_is_server(const struct coord *c, unsigned index, const char *key, uint64_t incarnation);
/* The peer's session has ended. A server or relay has a short time to reconnect; a worker has the
 * rest of its lease. */
void coord_session_gone(struct coord *c, const struct coord_self *self, int64_t now);
/* The process of the worker of this name on `host`; 0: it has none there. */
int64_t coord_worker_pid(const struct coord *c, const char *id, const char *host);
/* The supervisor has seen a process end that it had started as `id`; `how` says by what, and with
 * which words. gone: the rank's process has ended. returns: it may be started again. A worker that
 * is gone and does not return is lost at once; one that may return has the rest of its lease. */
void coord_process_ended(struct coord *c, const char *id, bool gone, enum err_cause cause,
    const char *how, bool returns, int64_t now);
/* The server of this incarnation runs in the coordinator's own process and lives as long as that
 * does, even if its heartbeats are late. The owner calls this regularly. */
void coord_own_server_alive(struct coord *c, uint64_t incarnation, int64_t now);
/* All input that arrived before "until" has been processed. A member's silence is measured up to
 * that time and not up to now, so that a busy coordinator does not expire members whose heartbeats
 * it has not read yet. Without a call, silence is measured up to now. */
void coord_input_processed_until(struct coord *c, int64_t until);
/* The coordinator's thread makes a turn; the first one follows coord_new. If the turn before is
 * long ago, the coordinator itself was stopped, and perhaps the whole cluster with it, as when a
 * machine is suspended. Nobody's silence counts that lies in this time, and no wait goes on in it.
 * The owner calls this before coord_tick. */
void coord_note_turn(struct coord *c, int64_t now);
/* Check leases and deadlines; to be called about every 50 ms. True: a member has exceeded its
 * limit, but unprocessed input may still prove it alive, so the owner should process its input
 * soon. */
bool coord_tick(struct coord *c, int64_t now);

/* End the job as stopped, by a user, or as failed; `why` is its reason. Ignored once the job is
 * over. */
void coord_stop(struct coord *c, const char *why, int64_t now);
/* Does what coord_stop does, after a held job's last checkpoint: status and result name its step
 * from now on. */
void coord_stop_saved(struct coord *c, uint64_t step, const char *why, int64_t now);
/* Tell all processes to exit: after a stop, or when the user removes a job that is over. */
void coord_end(struct coord *c);
bool coord_ended(const struct coord *c);
/* Has the coordinator recovered a moment ago, and has a server not made its new session yet? It
 * would not hear that the cluster ends. False after the time that servers have for this. */
bool coord_awaits_return(const struct coord *c, int64_t now);
void coord_fail(struct coord *c, enum err_cause cause, const char *why, int64_t now);

/* The user `who` has revoked a key (as in struct coord_self); NULL: `name` is the name of a token,
 * which no member uses. Members with that key are lost at once. The next view carries the
 * revocation, and sessions that servers close because of it are counted from now on. */
void coord_revoke(struct coord *c, const char *name, const char *key, const char *who, int64_t now);
/* Account for the sessions that the coordinator's own I/O threads have closed because of revoked
 * keys. Servers and relays report theirs with the message "keys". */
void coord_keys_checked(struct coord *c, const struct message_keys_checked *m);
/* The servers and relays that have ended the sessions of a revoked key, and those that have not. */
struct coord_keys_check {
	int64_t cut;      /* sessions closed */
	unsigned checked; /* members that have confirmed it */
	/* Arrays of the caller. They get the names of living members that have not confirmed it,
	 * and of those that were lost after the revocation and had not. */
	json_t *missing, *lost;
};
/* Have all servers, relays and the coordinator checked their sessions against key list number
 * `made` or a later one since `name` was revoked? */
bool coord_keys_are_checked(const struct coord *c, uint64_t made, const char *name,
    struct coord_keys_check *out);
/* Find the living member that uses this key: id gets its name, as "worker-2", *age the time since
 * it was last heard, in ns. False: no living member has it. */
bool coord_key_held(const struct coord *c, const char *key, int64_t now, char id[static 32],
    int64_t *age);
/* Publish a new revision of the view, because something that the owner adds to it (the keys) has
 * changed. */
void coord_publish_view(struct coord *c);
uint64_t coord_rev(const struct coord *c);
/* A number that differs between any two layouts: generation and layout epoch. */
uint64_t coord_layout_number(const struct coord *c);

/* With job.stop, the model of each evaluation that is better than all before is saved. Its
 * evaluator waits meanwhile, so that in bsp no step closes:
 *
 *   none     --an evaluation is the best one-->               awaited
 *   awaited  --coord_best_taken: the snapshot was taken-->    wanted
 *   awaited,
 *   wanted   --coord_best_end: committed, or given up-->      none; the job is not over before
 *
 * coord_best_begin: the owner makes checkpoints; else there is nothing to wait for.
 * coord_best_wanted: step of that evaluation, 0: none. coord_best_awaited: as coord_best_wanted,
 * but 0 when its evaluator no longer waits. coord_best_end: step is the step of the checkpoint, 0:
 * there is none. coord_best_saved: step of the checkpoint to keep, 0: none. */
void coord_best_begin(struct coord *c);
uint64_t coord_best_wanted(const struct coord *c);
uint64_t coord_best_awaited(const struct coord *c);
void coord_best_taken(struct coord *c);
void coord_best_end(struct coord *c, uint64_t step);
uint64_t coord_best_saved(const struct coord *c);
enum phase coord_phase(const struct coord *c);
const char *coord_phase_name(enum phase p);

/* Change the wanted number of servers and workers (-1: keep it); empty one server; even out the
 * load. ERR_USAGE, ERR_NOTFOUND; ERR_NOTREADY unless the phase is running. */
enum err_code coord_scale(struct coord *c, int64_t servers, int64_t workers, int64_t now,
    struct err *e);
/* Would coord_scale accept this? The errors are the same. */
enum err_code coord_may_scale(const struct coord *c, int64_t servers, int64_t workers,
    struct err *e);
/* Let a server give up its partitions. force: also if that leaves a single replica of partitions
 * which should have several. */
enum err_code coord_drain(struct coord *c, unsigned server, bool force, int64_t now, struct err *e);
enum err_code coord_rebalance(struct coord *c, int64_t now, struct err *e);
/* Fill in the members of cfg that live settings change: batch, lockstep, on_worker_loss and
 * loss_wait. */
void coord_config_follow(struct coord_config *cfg, const struct conf *conf);
/* Request a change of settings, from step s->step on at the earliest. The servers vote on the step
 * at which it takes effect; keys that depend on no step take effect at once. coord_find_answer
 * tells the outcome by the ticket. coord_status shows "settings" when the change is decided and
 * "settings_step" once every worker uses it. ERR_NOTREADY: wrong phase. ERR_EXISTS: another change
 * is being decided. Errors of conf_at. */
enum err_code coord_request_settings(struct coord *c, const struct setting *s, int64_t now,
    uint64_t *ticket, struct err *e);
/* Change settings before the partitions are placed: they take effect at step 0, without a vote. */
void coord_apply_settings_before_start(struct coord *c, const struct setting *s);
enum coord_answer { COORD_PENDING, COORD_AGREED, COORD_REFUSED };
/* The outcome of the request with this ticket. AGREED: *step is the step from which it holds, 0 for
 * a change at once, and *number the number of the settings then. REFUSED: *e says why. */
enum coord_answer coord_find_answer(const struct coord *c, uint64_t ticket, uint64_t *step,
    int64_t *number, struct err *e);
bool coord_is_deciding(const struct coord *c);
bool coord_settings_have_room(const struct coord *c);
/* A change of the tables while the cluster runs, decided like a change of settings. shape: for an
 * add the whole table, for a grow its name and new number of rows, for a drop its name. */
enum coord_table_op { COORD_TABLE_ADD, COORD_TABLE_GROW, COORD_TABLE_DROP };
struct coord_table {
	enum coord_table_op op;
	const struct table *shape;
	const char *who;
};
enum err_code coord_table(struct coord *c, const struct coord_table *t, int64_t now,
    uint64_t *ticket, struct err *e);
/* The configuration after the last decided change (borrowed), and all changes that are kept: an
 * array of objects with step, number, set, what and who. */
json_t *coord_present_config(const struct coord *c);
/* The decoded form of it, which is valid until the next change is decided. */
const struct conf *coord_present_conf(const struct coord *c);
json_t *coord_settings(const struct coord *c);
/* By key: step (null: held at once) and user of older changes */
json_t *coord_settings_past(const struct coord *c);
int64_t coord_settings_made(const struct coord *c);
/* Are all workers at the same step (sync_ops.lockstep of the mode in force)? */
bool coord_is_lockstep(const struct coord *c);
uint64_t coord_batch(const struct coord *c); /* examples of one worker's step */
bool coord_has_relays(const struct coord *c);
/* Does the job's model have all tables of the list "w,b"? "none" is the empty list. False: unknown
 * gets the name of one that it does not have. */
bool coord_has_tables(const struct coord *c, const char *list, char unknown[static 64]);
/* The model's tables, one after the other: *at is 0 for the first one. NULL: there are no more. */
const struct table *coord_model_table(const struct coord *c, size_t *at);
/* Could the update rules of this configuration act on the tables as they are placed? ERR_CONFIG:
 * no. */
enum err_code coord_fits_rules(const struct coord *c, const struct conf *conf, struct err *e);
/* Store the owner's list of changes that are to be requested at later steps, so that it survives a
 * restart. coord keeps the list and does not interpret it. */
void coord_store_planned(struct coord *c, const json_t *list);
json_t *coord_planned(const struct coord *c); /* borrowed; NULL: none */

/* Pause or resume the job: workers rest before their next step. coord_status shows "paused", and in
 * "resting" how many rest. */
enum err_code coord_pause(struct coord *c, bool pause, const char *who, int64_t now, struct err *e);
/* Hold the job for its last checkpoint: its workers rest as in a pause, until the owner releases
 * the hold or coord_pause resumes the job. A hold is not part of the saved state, so a coordinator
 * that is started again continues the job, unless a user had paused it. The errors are as in
 * coord_pause. */
enum err_code coord_hold(struct coord *c, const char *who, int64_t now, struct err *e);
bool coord_is_held(const struct coord *c);
/* Without a hold it does nothing. A job that a user has paused stays paused. */
void coord_release_hold(struct coord *c);
/* Do the workers rest before their next step, because of a pause or a hold? */
bool coord_is_paused(const struct coord *c);
/* Is the job done, or paused with all its workers at rest? Then *step is the step of which a
 * checkpoint can be taken until they go on: in bsp the open step, otherwise the step of the fastest
 * worker. */
bool coord_is_at_rest(const struct coord *c, uint64_t *step);

/* A checkpoint, driven by the owner: it begins a snapshot, polls its state after each message,
 * has it written to a directory, and ends it.
 *
 *   state            event                                                next state
 *   NONE             coord_snap_begin                                     ASKED
 *   ASKED            every server asked has taken its snapshot            TAKEN
 *   ASKED            a server has passed the step already                 LATE
 *   TAKEN            coord_snap_rename, but the mode is another one       LATE
 *   TAKEN            coord_snap_write                                     WRITING
 *   WRITING          every server asked has written its part              SAVED
 *   any but NONE     a server reports a failure                           FAILED
 *   any but NONE     the layout or the settings change                    BROKEN
 *   any              coord_snap_end                                       NONE
 *
 * coord_snap_begin returns false when there is nothing to save: no partitions, or no job that
 * runs. */
enum coord_snap {
	SNAP_NONE,
	SNAP_ASKED,
	SNAP_TAKEN,
	SNAP_WRITING,
	SNAP_SAVED,
	SNAP_LATE,
	SNAP_BROKEN,
	SNAP_FAILED
};
bool coord_snap_begin(struct coord *c, uint64_t step, int64_t now);
/* Marks of the next snapshot: `mark` is a number that no other snapshot has; `base` is the mark of
 * the one that a delta checkpoint builds on, if the servers still have it; 0: none. */
void coord_snap_marks(struct coord *c, uint64_t mark, uint64_t base);
enum coord_snap coord_snap_state(const struct coord *c);
void coord_snap_write(struct coord *c, const char *dir, int64_t now);
void coord_snap_end(struct coord *c);
uint64_t coord_snap_id(const struct coord *c);
uint64_t coord_snap_step(const struct coord *c);
/* The step of the fastest rank in a snapshot that was taken. In ssp and asp the owner names the
 * checkpoint by it, because the coordinator may have requested an old step: after a restart it
 * knows only the steps of its saved state, or a step that is not reached yet, because the mode has
 * changed since. coord_snap_rename names the snapshot by this step; by a later one, if a worker had
 * reported that before the order, or if the checkpoint before has it; and by the nearest step of
 * the snapshot's mode, if the step belongs to another mode. So checkpoints in the order of their
 * names are in the order in which they were taken. A snapshot with the values of its step in all
 * partitions (coord_snap_is_by_step) keeps its name. False: workers have gone on to a bsp after
 * that mode, and the snapshot has become LATE. */
uint64_t coord_snap_newest_clock(const struct coord *c);
bool coord_snap_rename(struct coord *c, uint64_t step);
/* The least step by which the snapshot may be named. */
uint64_t coord_snap_first_step(const struct coord *c);
/* Does the snapshot have the values of its step in all partitions? In bsp it must; in ssp and asp,
 * and at the step at which the mode changes, each partition has a step of its own. */
bool coord_snap_is_by_step(const struct coord *c);
/* Would a snapshot of this step have them? */
bool coord_snap_would_be_by_step(const struct coord *c, uint64_t step);
/* The servers' newest step, when the snapshot is LATE. */
uint64_t coord_snap_first_free(const struct coord *c);
const struct err *coord_snap_failure(const struct coord *c); /* of a FAILED one: the reason */
const json_t *coord_snap_descriptions(const struct coord *c);
/* The part of the manifest that does not come from the servers; new reference. */
json_t *coord_snap_head(const struct coord *c);
/* Step of the fastest worker, implausible reports left out (core/steps.h) */
uint64_t coord_newest_step(const struct coord *c);

/* A worker's report of its work since it began: the examples, and the seconds that it spent
 * alone (reading data, computing, encoding), on pushes and pulls, and waiting for others. */
struct coord_worker_times {
	bool active;
	double examples, alone, wire, wait;
};
/* False: there is no such rank. */
bool coord_worker_times(const struct coord *c, unsigned rank, struct coord_worker_times *out);

/* Documents; all are new references. Processes need the view to work; the others answer requests of
 * people (ps-http(7)). */
json_t *coord_view(const struct coord *c);
json_t *coord_status(const struct coord *c, int64_t now);
/* The status, and the processes' figures added up: one line of metrics.jsonl. */
json_t *coord_row(const struct coord *c, int64_t now);
json_t *coord_servers(const struct coord *c, int64_t now);
json_t *coord_workers(const struct coord *c, int64_t now);
json_t *coord_relays(const struct coord *c, int64_t now);
json_t *coord_tables(const struct coord *c);
json_t *coord_layout(const struct coord *c);
json_t *coord_tasks(const struct coord *c);
json_t *coord_result(const struct coord *c, int64_t now);
/* Why the job does not advance: an array of objects with id (the member that waits), for (the one
 * that it waits for), step (null: none), since_seconds, because and remedy. */
json_t *coord_why(const struct coord *c, int64_t now);

/* Have every worker measure its links to the servers by a short transfer each, beside its work
 * (session/probe.h). Returns the number of the measurement; requests that come soon after one
 * another share it. */
int64_t coord_probe(struct coord *c, int64_t now);
/* The results so far: an object with number, age_seconds and workers, each with id, done and
 * servers: id, address, stage, error, rtt_seconds, up_bytes_per_second, down_bytes_per_second. */
json_t *coord_probes(const struct coord *c, int64_t now);

#endif
