/* SPDX-License-Identifier: ISC */
#ifndef SHARD_SHARD_H
#define SHARD_SHARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "aggregate/aggregate.h"
#include "core/err.h"
#include "layout/layout.h"
#include "layout/param_source.h"
#include "layout/taken.h"
#include "optim/optim.h"
#include "optim/schedule.h"
#include "shard/sum_body.h"
#include "sync/push_status.h"
#include "sync/sync.h"

/* A shard is what one server holds: partitions of tables, each with its own lock, and the gate
 * (clocks and members), which decides when a push is taken and a pull is answered. A relay has a
 * shard, too: it sums pushes instead of making updates. All calls may come from any thread, unless
 * a comment says "one caller at a time".
 *
 * Replication: the head of a partition's chain takes the pushes. What it makes of them (in bsp the
 * sum of a step, else each push) goes as a record (struct repl_record) to the next replica, in
 * order, and stays with the sender until the next has acknowledged that it and all replicas after
 * it have it. Then the change is safe. Receipts are sent for safe changes only, and the tail of the
 * chain, which answers pulls, shows only safe changes. The states of a partition are in
 * shard/part.h.
 *
 * Locks: part.lock, one for each partition and never two at once, and then gate.lock, one for each
 * shard (shard/part.h, shard/gate.h; core/lock.def has the whole order). What callers must know of
 * them:
 *
 *    part.lock is held while cfg.forward, the put() of shard_send and the fn of shard_part_load are
 *        called: they may take locks of their own, but must not call this shard.
 *    gate.lock is held while the fn of shard_refusals and of shard_snap_clocks is called: the
 *        same rule.
 *    No lock is held while cfg.wake, cfg.alive and cfg.read_again are called: cfg.wake may call
 *        this shard.
 *    Sweeps over all partitions (shard_each) hold one part.lock at a time. A thread that closes
 *        steps or changes the mode keeps others out by the flags gate.closing and gate.changing_mode
 *        instead of a lock, because it needs partition locks and gate.lock comes after them.
 *    Read without a lock: the tables' pointers, the budget, all counters, part.chain.safe_*,
 *        part.tenure and part.gone. They are atomic, or are set once.
 *    Read under the lock of any partition, or under gate.lock: the list of settings epochs. */
struct shard;
struct ckpt_reader;
struct read_retry;
struct spill;

/* Greatest number of tables. */
#define SHARD_TABLES 65536
/* Records of a partition that may wait for the next replica's acknowledgement. Updates wait when it
 * is reached. */
#define SHARD_SENT_MAX 16u
#define SHARD_OUTSIDE  UINT32_MAX /* the rank of a peer outside the job */
/* A relay's "next replica": the servers that it sends sums to. */
#define SHARD_UPSTREAM (NO_SERVER - 1)

/* How a shard is made. Borrowed pointers must outlive the shard, unless stated otherwise. */
struct shard_ops;
struct shard_config {
	unsigned self; /* this server's number in the layout */
	/* The number of the settings epoch that the job begins with, and its mode; the update rule
	 * is below. */
	uint32_t settings;
	struct sync_mode mode;
	/* Equal runs give equal bits: gradients are summed in the order of ranks, and a pull gets
	 * exactly the version of its step. */
	bool deterministic;
	/* Its dense tables are reduced by the workers (apply.h). */
	bool reduced;
	/* Aggregator of dense tables in bsp; with one there are no sparse tables. */
	struct aggregate aggregate; /* how the gradients of a step become one */
	unsigned ranks;             /* greatest number of ranks: memory for them is booked */
	/* The server counts no steps: for row policies each update is one step. */
	bool jobless;
	bool deltas; /* pulls of dense tables may ask for the changes since a version */
	/* pulls of rows may ask for those that have changed since a version */
	bool row_versions;
	const struct optim_rule *rule;
	struct optim_hyper hyper; /* lr before the schedule */
	struct schedule schedule;
	struct table_rules tables; /* tables that have another rule or other constants */
	const char *first;         /* see shard_set_init_file */
	/* Checkpoint that the tables in it begin with, at its step. NULL: they begin with their
	 * initial values. Borrowed until shard_restore_done. */
	const struct ckpt_reader *restore;
	/* Parameters that the tables in it begin with, instead of `restore`: it has lend_dense and
	 * each_row. NULL: none. Borrowed until shard_restore_done. */
	struct param_source *source;
	/* No update is ever made: of `restore`, read only the parameters. */
	bool read_only;
	/* Bytes that the partitions may take; 0: no limit. All that a dense partition may ever need
	 * is booked when it comes. Sparse rows come later, and pushes that would make too many are
	 * refused. */
	uint64_t mem_limit;
	/* The rows on this server's disk (shard/spill.h), which shard_free closes. NULL: no table has
	 * any. */
	struct spill *spill;
	/* Memory for the values of dense partitions, which other processes may read. NULL: the
	 * shard allocates memory of its own, as it does when no place is left. */
	struct published *published;
	/* The use of pushes and the source of values (shard_ops.h); NULL: shard_store_ops. */
	const struct shard_ops *ops;
	void *ops_data; /* for `ops` */
	/* Something changed that a caller who was answered SHARD_WAIT may wait for. Called without
	 * locks held. */
	void (*wake)(void *ctx);
	/* The partition has a record for another server, to be fetched with shard_send. Called with
	 * the partition's lock held. NULL: this server is alone. */
	void (*forward)(void *ctx, uint16_t server, uint16_t table, uint32_t part);
	/* Called between partitions by functions that take long (shard_install), for a watchdog.
	 * NULL: not wanted. */
	void (*alive)(void *ctx);
	/* The values of a partition cannot be read from their file because of *e (ERR_IO). May
	 * wait. True: they are read again. False: shard_install returns *e, which this may have
	 * replaced. r: for the attempts of this partition, zero before the first call. NULL: they
	 * are not read again. */
	bool (*read_again)(void *ctx, struct read_retry *r, struct err *e);
	void *ctx;
};

/* A settings epoch: the settings in force from a step on. */
struct settings_epoch {
	uint64_t step;
	uint32_t number; /* greater than all earlier numbers */
	struct sync_mode mode;
	const struct optim_rule *rule;
	struct optim_hyper hyper; /* lr before the schedule */
	struct schedule schedule;
	struct table_rules tables; /* tables that have another rule or other constants */
};

/* Makes a shard without partitions. ERR_NOMEM. */
enum err_code shard_new(const struct shard_config *cfg, struct shard **out, struct err *e);
/* Frees the shard. No other thread may use it any more. NULL is fine. */
void shard_free(struct shard *s);
/* The process ends: threads that wait for a disk of rows that fails give up, and what they have read
 * stays in the process. NULL is fine. */
void shard_give_up_disk(struct shard *s);
/* Does the disk of rows fail? Then *e says why. */
bool shard_disk_fails(const struct shard *s, struct err *e);

/* Takes the places in the chains that the layout gives to this server: makes the partitions of new
 * tables, expects state transfers of those it joins, and gives up those that it has left. Ends a
 * snapshot that is under way. process: the incarnations of the servers, by number (NULL: this one
 * is alone). One caller at a time. ERR_NOMEM, ERR_CONFIG (mem_limit, checkpoint), ERR_IO or the
 * error of cfg.read_again (values that cannot be read), ERR_PROTO: the layout counts on a replica
 * that this server was not given. */
enum err_code shard_install(struct shard *s, const struct layout *l, const uint64_t *process,
    struct err *e);

/* All partitions that this server begins with are here: the caller may release `restore` and `source`. */
void shard_restore_done(struct shard *s);
/* Names the safetensors file that tables with TABLE_FILE begin with. Called before the first
 * shard_install. The path is borrowed as long as the shard lives. */
void shard_set_init_file(struct shard *s, const char *path);

/* ---- members and clocks ---- */

/* The state of a worker in the cluster view. */
enum member_state {
	/* The worker takes part from step `at` on. A rank that is taken over keeps its clock when
	 * that is greater. */
	MEMBER_ACTIVE,
	/* The worker took part from step `at` on and has sent DONE, here or to another server:
	 * nobody waits for it. */
	MEMBER_DONE,
	/* Nobody waits for it, and pushes of any incarnation are fenced. All servers know that it
	 * takes no part in steps from `at` on. */
	MEMBER_GONE,
};
/* One worker of the cluster view. */
struct member {
	uint32_t rank;
	enum member_state state;
	uint64_t incarnation, at;
	uint8_t key[32]; /* the worker's public key; zeroes: not known */
};
/* Applies a new view's members, all at once: a step that one of them takes part in is not complete
 * without it, however far the others are. A member with the incarnation that is known already
 * changes nothing but its state. */
void shard_take_members(struct shard *s, const struct member *m, size_t n);
/* Is this the incarnation that holds the rank now? */
bool shard_incarnation_holds(struct shard *s, uint32_t rank, uint64_t incarnation);
/* May a session with this public key act for the rank's present holder? Incarnations are not
 * secret, so they alone do not prove who a peer is. True while the holder's key is unknown. */
bool shard_key_holds(struct shard *s, uint32_t rank, const uint8_t key[static 32]);

/* The vote of this server on a change that is to take effect at some step. */
struct shard_vote {
	bool yes;
	uint64_t first_free; /* one past the newest step that has begun here (sync_first_free) */
	/* resume: steps that the rank has completed, as far as CLOCKs and the steps that are closed
	 * here show; STEPS_END on a server without partitions, to which the rank has nothing to
	 * push again */
	uint64_t clock;
};
/* Votes on a change that is to take effect at `step`. Votes no when the step has begun here. After
 * a yes, pulls and pushes of steps from `step` on wait until shard_end_vote. Any other incarnation
 * that holds the rank is fenced at once, whatever the vote is. resume: the vote is always yes, and
 * no step waits. rank SHARD_OUTSIDE: the change is not about a rank. */
struct shard_vote shard_vote(struct shard *s, uint32_t rank, uint64_t incarnation, uint64_t step,
    bool resume);
/* Returns the first step of which a push of the rank may be missing here: the rank's clock, or an
 * earlier step of which a push was announced and has not arrived. Called after shard_vote has
 * fenced the rank's earlier holder. */
uint64_t shard_complete_steps(struct shard *s, uint32_t rank);
/* Lists the pushes of a rank that this server has, as head or replica: adds to *taken for each
 * partition the highest step whose push was taken, plus 1. The rank's next holder takes part from
 * the step `from` on, and must not have pushed yet. SHARD_WAIT, with nothing added: the members of
 * `from` are not known yet, or some of these pushes would be lost with this server, because they
 * are in a sum that is not closed yet or have not arrived at all replicas. */
enum shard_answer shard_list_taken(struct shard *s, uint32_t rank, uint64_t from,
    struct taken *taken);
/* The vote is over, with any result: steps no longer wait for it. */
void shard_end_vote(struct shard *s);
/* Adds a decided settings epoch: pushes of its step and later ones use it, in bsp exactly from that
 * step on. Another mode begins when all have completed the steps before. Called before
 * shard_end_vote and in order; a number that is known already is ignored. */
void shard_add_epoch(struct shard *s, const struct settings_epoch *r);
/* Would the state of these settings fit into mem_limit? ERR_CONFIG with a sentence otherwise. */
enum err_code shard_fits_epoch(struct shard *s, const struct settings_epoch *r, struct err *e);
/* Would the partitions of a table from `first` on, as far as its runs place them here, fit into
 * mem_limit and into the free memory of this host, when `sharing` servers of the host need as much
 * each? ERR_CONFIG, ERR_NOMEM. */
enum err_code shard_fits_table(struct shard *s, const struct table *t, uint32_t first,
    uint64_t sharing, struct err *e);

/* The answer to a request of a worker, relay or server. */
enum shard_answer {
	SHARD_OK,
	SHARD_WAIT,      /* not now: try again after cfg.wake was called */
	SHARD_FENCED,    /* the sender's incarnation does not hold the rank */
	SHARD_BAD,       /* no such partition, or malformed */
	SHARD_ELSEWHERE, /* this server does not have that place in the chain now */
};

/* The rank announces that it pushes, or has pushed, to partitions first .. first + count - 1 at
 * `step`: the step is not closed there before that push has arrived. Called before the rank's CLOCK
 * of the step. */
void shard_expect(struct shard *s, uint32_t rank, uint64_t incarnation, uint64_t step,
    uint16_t table, uint32_t first, uint32_t count);
/* Withdraws such an announcement: those pushes take another way. True: there was one; the caller
 * then calls shard_advance. */
bool shard_withdraw(struct shard *s, uint32_t rank, uint64_t incarnation, uint64_t step,
    uint16_t table, uint32_t first, uint32_t count);
/* CLOCK: the rank has completed `step`, with this many examples. SHARD_WAIT: too early, or there
 * is a vote on that step. */
enum shard_answer shard_clock(struct shard *s, uint32_t rank, uint64_t incarnation, uint64_t step,
    uint32_t examples);
/* DONE: nobody waits for the rank any more. */
enum shard_answer shard_done(struct shard *s, uint32_t rank, uint64_t incarnation);
/* May a pull at this step be answered now? When the answer is yes, the step counts as
 * pulled, and its members cannot change any more. */
bool shard_may_pull(struct shard *s, uint64_t step);
/* Like shard_may_pull, for a caller that can use each partition as soon as it has closed the step
 * before: shard_pull says which partitions have. */
bool shard_may_prefetch(struct shard *s, uint64_t step);
/* The number of steps that all workers must have completed before a pull at this one is answered;
 * 0: none, as in modes in which pulls wait for no step. */
uint64_t shard_needed_step(struct shard *s, uint64_t step);
/* Has a worker trained on examples at the last of the steps that a pull waits for
 * (shard_needed_step), or later? False for 0. Takes no lock. */
bool shard_has_trained(const struct shard *s, uint64_t needed);
/* Has every rank completed the steps before this one? When the answer is yes, the members of the
 * step cannot change any more. */
bool shard_may_fix_members(struct shard *s, uint64_t step);
/* bsp: the number of steps whose update is made. Else UINT64_MAX, because receipts never wait for a
 * step. */
uint64_t shard_closed(struct shard *s);
/* Says whether the job is done. Then a snapshot of a later step than a partition's has the
 * partition's values, which stay as they are. */
void shard_note_end(struct shard *s, bool done);
/* The steps that the slowest active rank has completed; 0 when no rank is active. */
uint64_t shard_slowest_clock(struct shard *s);
/* The number of steps that all active ranks have completed, for display. */
uint64_t shard_step(struct shard *s);

/* ---- data ---- */

/* A worker's gradient of one partition. The bytes are borrowed for the call. */
struct push {
	/* SHARD_OUTSIDE: a peer outside the job; applied at once, in any mode. */
	uint32_t rank;
	uint64_t incarnation, step;
	uint64_t pulled; /* the version that the gradient was computed from */
	uint16_t table, codec;
	uint32_t part, examples;
	const uint8_t *payload;
	size_t len;
	/* Sparse: number of row ids; payload has the encoded rows in their order. */
	uint32_t nrows;
	const uint8_t *ids; /* u64 little-endian, any alignment */
	/* The number of examples that touch each row: u32 little-endian, any alignment. NULL: not
	 * known. */
	const uint8_t *touching;
};

/* When an acknowledgement may be sent: the partition is still in this tenure, and all replicas that
 * count have the steps below `steps`, the updates up to `version`, and the records for the next
 * replica up to `seq`. A refused push makes no version, so it waits for its seq.
 *
 * A tenure is the time from when a server is given a replica of a partition until it leaves it or
 * is given another. Versions and steps of two tenures are not comparable, because they may count
 * different pushes: a head that was cut off takes pushes that its successor never sees. */
struct receipt_condition {
	uint64_t tenure, steps, version, seq;
};

/* The answer to a push. */
struct receipt {
	uint16_t table;
	uint8_t status;
	uint32_t part, staleness;
	uint64_t step, version;
	struct receipt_condition due; /* the receipt may be sent when shard_is_safe says so */
};

/* Takes a push of one partition, whole. SHARD_OK: *r is the receipt; it may be sent when
 * shard_is_safe says so of r->due. SHARD_WAIT, SHARD_FENCED, SHARD_ELSEWHERE: nothing was taken.
 * SHARD_BAD: malformed, or there was no memory. */
enum shard_answer shard_push(struct shard *s, const struct push *p, struct receipt *r);
/* May an acknowledgement that waits for *due be sent now? Takes no lock. */
bool shard_is_safe(struct shard *s, uint16_t table, uint32_t part,
    const struct receipt_condition *due);
/* Is the tenure over? Then the acknowledgement must never be sent. Takes no lock. */
bool shard_has_left(struct shard *s, uint16_t table, uint32_t part,
    const struct receipt_condition *due);
/* The contents of a push's receipt at the time when it is sent. */
struct shard_outcome {
	/* The status when it was taken, or PUSH_SPLIT from a relay whose sum the servers did not
	 * take. */
	enum push_status status;
	unsigned replicas; /* replicas in the partition's chain under the present layout */
	/* The version that the receipt waited for. A push that waited for its step to close has no
	 * version of its own: the present one, which counts updates of this tenure and those before
	 * it. 0: no update was made. */
	uint64_t version;
};
/* The outcome of a push of this step that was answered `status` when it was taken, and whose
 * receipt waited for *due. For a partition that is not here, replicas is 0. */
struct shard_outcome shard_outcome(struct shard *s, uint16_t table, uint32_t part, uint64_t step,
    enum push_status status, const struct receipt_condition *due);

/* In ssp and asp: does this replica have all that the process (rank, incarnation) pushed to the
 * partition before this step (read-my-writes; Ho et al., More Effective Distributed ML via a Stale
 * Synchronous Parallel Parameter Server, 2013)? SHARD_WAIT: the tail of a chain does not have it
 * yet; cfg.wake is called after a change. SHARD_FENCED: the process no longer holds the rank, and
 * which of its last pushes will still arrive is not known. */
enum shard_answer shard_own_pushes(struct shard *s, uint16_t table, uint32_t part, uint32_t rank,
    uint64_t incarnation, uint64_t step);
/* Copies the values of a dense partition (table_part_elements floats) to out. step: the step that
 * the puller is at, or SYNC_NEVER for the values as they are now. SHARD_WAIT: they must not be
 * shown yet. SHARD_ELSEWHERE: this server is not the tail. */
enum shard_answer shard_pull(struct shard *s, uint16_t table, uint32_t part, uint64_t step,
    float *out, uint64_t *version);
/* Like shard_pull, but says where the values are in cfg.published, and copies nothing. *known
 * false: they are not there; copy them by shard_pull. */
struct shard_place {
	uint32_t place;
	uint64_t state;
	bool known;
};
enum shard_answer shard_pull_place(struct shard *s, uint16_t table, uint32_t part, uint64_t step,
    struct shard_place *out, uint64_t *version);
/* shard_may_show: would shard_pull copy it? Gives the version only. shard_pull_state copies the
 * rule's k-th state vector (from 1) instead of the values. */
enum shard_answer shard_may_show(struct shard *s, uint16_t table, uint32_t part, uint64_t step,
    uint64_t *version);
/* SHARD_BAD: the table is sparse, k is 0, or the rule has fewer vectors. */
enum shard_answer shard_pull_state(struct shard *s, uint16_t table, uint32_t part, uint64_t step,
    uint64_t k, float *out, uint64_t *version);
/* A pull of the values that changed after version `since`: their places in ascending order and
 * their values, `n` of them, at most `most`. n SIZE_MAX: there are more, or the changes are not
 * known; pull it whole. */
struct changed_values {
	uint64_t since;
	size_t most;
	uint32_t *place; /* room for `most` of these two */
	float *out;
	size_t n;
	uint64_t version; /* that the values are of */
};
/* Like shard_pull, but copies only the changed values. */
enum shard_answer shard_pull_changed(struct shard *s, uint16_t table, uint32_t part, uint64_t step,
    struct changed_values *x);
/* A pull of n rows at a step, or at SYNC_NEVER: their values in the order of `ids`. A row that does
 * not exist has its initial values. */
struct row_read {
	uint64_t step;
	const uint8_t *ids; /* u64 little-endian, any alignment */
	uint32_t n;
	/* The versions of which the caller has the rows (codec/row_versions.h); NULL: it has
	 * none. */
	const uint64_t *since;
	float *out; /* n * cols floats */
	/* With `since`: room for n, gets the numbers of the rows that may have changed, `changed`
	 * of them. */
	uint32_t *place, changed;
	bool *there;      /* room for n, gets which rows exist; NULL: not wanted */
	uint64_t version; /* that the values are of */
};
enum shard_answer shard_read_rows(struct shard *s, uint16_t table, uint32_t part,
    struct row_read *x);
/* Begins to read those of n rows (ids: u64 little-endian, any alignment) that are on the disk, for a
 * pull that waits for its turn. Any thread; does not wait. */
void shard_load_rows(struct shard *s, uint16_t table, uint32_t part, const uint8_t *ids,
    uint32_t n);
/* shard_read_rows for a caller that has no rows. */
enum shard_answer shard_pull_rows(struct shard *s, uint16_t table, uint32_t part, uint64_t step,
    const uint8_t *ids, uint32_t n, float *out, uint64_t *version);
/* Ids that are listed for the pieces of a scan that follow: so it goes over all rows a few times, and not
 * once for each piece. It belongs to the caller, who zeroes it before the first piece and releases it after
 * the last, and it takes at most a byte for each row of the partition, or 8 for each of one piece. */
struct scan_window {
	uint64_t *id; /* ascending; NULL: none are listed */
	size_t n,
	    at;    /* how many, and how many of them have been answered or have no row any more */
	bool last; /* no others follow */
	uint64_t after;     /* the last id that was answered */
	uint64_t request;   /* of the piece for which they were listed */
	bool changed, gone; /* the kind of the scan, as in struct scan */
	uint64_t since;
	uint64_t version, step; /* of the partition when they were listed */
};
void scan_window_release(struct scan_window *w);

/* A scan of a sparse partition: up to n rows as they are now, in ascending order of ids, with ids
 * above `after` (or from the first one when `begin`). ids gets the ids, out the floats (NULL: ids
 * only). Rows that are made while a window lasts may be missing: their updates are of `step` or later. */
struct scan {
	struct scan_window *window; /* NULL: each piece lists its own ids */
	/* With a window: differs between two pieces, and is the same when a piece is asked for again. */
	uint64_t request;
	bool begin;
	uint64_t after;
	/* Only rows that were updated at step `since` or later; the table's policy must note
	 * that. */
	bool changed;
	/* In place of rows the ids that were removed at step `since` or later and have no row now.
	 * `out` is NULL. */
	bool gone;
	uint64_t since;
	uint8_t *ids;
	float *out;
	/* In: room in rows. Out: rows copied, and whether there are more. */
	uint32_t n;
	bool more;
	uint64_t version;
	uint64_t step; /* later updates are of this step or a later one */
	/* The last step at which rows were removed, plus 1; 0: never. */
	uint64_t removed;
	/* Out, with `gone`: the partition no longer knows these ids, and none were copied. */
	bool forgotten;
	/* Out: the rows and the noted changes that it looked at: what the piece has cost. */
	uint64_t looked_at;
};
/* Runs one piece of a scan. SHARD_WAIT: not now; call again after cfg.wake. SHARD_BAD: the
 * partition does not know when its rows changed. */
enum shard_answer shard_scan(struct shard *s, uint16_t table, uint32_t part, struct scan *x);

const struct table *shard_table(struct shard *s, uint16_t table); /* NULL: unknown here */
/* The number of partitions of all tables, on whichever servers they are. Takes no lock. */
uint64_t shard_count_parts(const struct shard *s);

/* ---- assign.c: values from elsewhere ------------------------------------------------
 * A read replica takes no pushes. It copies parameters from another cluster by these calls. */

/* Sets all values of a dense partition. */
enum shard_answer shard_assign(struct shard *s, uint16_t table, uint32_t part, const float *w);
/* Sets n rows (ids: u64 little-endian, any alignment), and makes those that do not exist.
 * SHARD_BAD: there is no room. SHARD_WAIT: the row store reads some of them; call again after
 * cfg.wake. */
enum shard_answer shard_assign_rows(struct shard *s, uint16_t table, uint32_t part,
    const uint8_t *ids, uint32_t n, const float *w);
/* Removes all rows except these n ids, which are in ascending order. */
enum shard_answer shard_retain_rows(struct shard *s, uint16_t table, uint32_t part,
    const uint64_t *ids, size_t n);
/* Removes the rows of these n ids, which are in ascending order. Some may not exist. */
enum shard_answer shard_remove_rows(struct shard *s, uint16_t table, uint32_t part,
    const uint64_t *ids, size_t n);

/* ---- relays -------------------------------------------------------------------------
 * A relay sums the pushes of the ranks that it was given. In bsp only, without backup ranks, and
 * not in deterministic runs. Its own shard is role/relay/relay_shard.h. */

/* From now on the process `relay` (0: none) pushes for the rank's holder of this incarnation. One
 * caller at a time, called before the epoch of this layout is announced. */
void shard_set_relay(struct shard *s, uint32_t rank, uint64_t relay, uint64_t incarnation);
/* May this relay push for that holder? SHARD_OK: yes. SHARD_WAIT: not before the view that admits
 * the holder has arrived, and not during a vote. SHARD_FENCED: no. */
enum shard_answer shard_relay_may_push(struct shard *s, uint64_t relay, uint32_t rank,
    uint64_t incarnation);

/* The summed pushes of a relay's ranks for one partition and step. The bytes are borrowed. */
struct sum {
	uint64_t relay, step; /* relay: the incarnation of the sending relay */
	uint16_t table;
	uint32_t part;
	struct sum_body body;
};
/* Takes the pushes of all ranks in the sum, or none of them. The receipt says merged; or duplicate,
 * when all were taken before; or split, when nothing was taken because some were taken before or
 * must not be, or because the sum has values that are not finite. After split each rank's push goes
 * by itself. */
enum shard_answer shard_push_sum(struct shard *s, const struct sum *sum, struct receipt *r);

/* ---- replicas ---- */

/* Kinds of records from one replica to the next. REPL_SUM: a bsp step with its sum of gradients.
 * REPL_STEP: a bsp step that changed nothing. REPL_PUSH: one push (ssp, asp, from outside).
 * REPL_STATE: the whole partition. */
enum repl_kind { REPL_SUM = 1, REPL_PUSH, REPL_STEP, REPL_STATE };

/* A record from one replica to the next: a head with a few numbers (repl.h), then a body. */
struct repl_record {
	struct repl_record *next;
	enum repl_kind kind;
	uint16_t table, codec;
	uint32_t part;
	/* seq: the record's number in this partition, at this server. */
	uint64_t step, version, seq;
	uint64_t session; /* session that it was sent on last; 0: none */
	uint8_t *head, *body;
	size_t nhead, nbody;
};

/* Passes the partition's records for `server` that were not sent on `session` yet to put(), in
 * order, until put() returns false. The partition's lock is held meanwhile. */
void shard_send(struct shard *s, uint16_t server, uint64_t session, uint16_t table, uint32_t part,
    bool (*put)(void *ctx, const struct repl_record *c), void *ctx);
/* Closes the steps that have become complete, changes the mode if it is time, and wakes waiting
 * sessions. Call it without locks, after one or several calls of shard_acknowledged,
 * relay_shard_answered and shard_withdraw. */
void shard_advance(struct shard *s);
/* `server` acknowledged the partition's records up to seq. */
void shard_acknowledged(struct shard *s, uint16_t server, uint16_t table, uint32_t part,
    uint64_t seq);
/* A new session to the server: calls cfg.forward for all partitions with records for it. */
void shard_resend(struct shard *s, uint16_t server);

/* Takes a record from the previous replica of the chain (len bytes, head and body). When
 * shard_is_safe says so of *due, this replica and all after it have it. SHARD_WAIT: not now, as the
 * next replica lags too far or the record's settings epoch is not known here yet. */
enum shard_answer shard_replicate(struct shard *s, const struct repl_record *c, const uint8_t *p,
    size_t len, struct receipt_condition *due);

/* Begins to send one more partition to the server that joins: first its whole state, then every
 * change. False: there is none left to begin with. */
bool shard_send_next_state(struct shard *s, uint16_t server);
/* Counts the partitions that this server is to give to `server`, those that it has begun to send,
 * and those that `server` has. */
void shard_count_states(struct shard *s, uint16_t server, uint64_t *all, uint64_t *begun,
    uint64_t *done);

/* ---- checkpoints -------------------------------------------------------------------
 * A checkpoint snapshots the partitions of which this server is the tail: in bsp as they are before
 * step `step`, else each as it is at some moment. One snapshot at a time, by one thread; any other
 * thread may end it, as shard_install does. */

/* Begins a snapshot. False when some partition is beyond the step already: *at is then the furthest
 * partition's step. After shard_snap_marks with a base, only the rows that were updated since are
 * taken, of those partitions that are known to have been taken whole with that mark. */
bool shard_snap_begin(struct shard *s, uint64_t step, uint64_t *at);
/* Called before shard_snap_begin. base 0: all partitions are taken whole and are remembered by
 * `mark`. Both 0: they are not remembered. */
void shard_snap_marks(struct shard *s, uint64_t mark, uint64_t base);
/* bsp: was the last snapshot begun at this step? ssp and asp: is one under way? */
bool shard_snap_covers(struct shard *s, uint64_t step);
/* Is it worth calling shard_snap_take again? */
bool shard_snap_due(struct shard *s);
/* Copies partitions. SHARD_OK: all are copied. SHARD_WAIT: call again after cfg.wake.
 * SHARD_ELSEWHERE: the snapshot was ended. SHARD_BAD: no memory. */
enum shard_answer shard_snap_take(struct shard *s);
/* Has a partition passed the snapshot's step before it was copied? Then the snapshot will never be
 * complete, shard_snap_take keeps answering SHARD_WAIT, and *at is the furthest partition's step.
 * The caller ends the snapshot. */
bool shard_snap_is_late(struct shard *s, uint64_t *at);
struct ckpt_part;
/* Ends the snapshot and gives its parts to the caller, for shard_snap_release. False, and no parts,
 * when it was ended before. */
bool shard_snap_parts(struct shard *s, struct ckpt_part **out, size_t *n);
/* Frees the array of parts and everything that they point to. Needs no shard and no lock; NULL
 * with n 0 is fine. */
void shard_snap_release(struct ckpt_part *parts, size_t n);
/* Calls fn with each rank's clock, for the checkpoint. The gate's lock is held. */
void shard_snap_clocks(struct shard *s,
    void (*fn)(void *ctx, uint32_t rank, uint64_t clock, bool active), void *ctx);
/* Which pushes are in the snapshot, when it is taken: *out becomes an array by rank, which the
 * caller releases and frees. Returns its length. */
size_t shard_snap_taken(struct shard *s, struct taken **out);
/* Ends the snapshot that is under way, if any, and frees its parts. */
void shard_snap_end(struct shard *s);

/* Totals of a shard since it was made, and its present sizes. */
struct shard_stats {
	/* Pushes by the status of their receipt. */
	uint64_t status[PUSH_SPLIT + 1];
	/* Pushes refused because of values that are not finite or out of bounds. */
	uint64_t nonfinite;
	uint64_t pulls, parameters, parameter_bytes, state_bytes, rows, closed;
	uint64_t unsent; /* records that the next replicas have not acknowledged */
	bool spills;     /* rows may be on the disk; the following are of these tables */
	/* Since the start: rows that pushes and pulls asked for, those that were not in memory, and
	 * look-ups on the disk. */
	uint64_t rows_asked, rows_missed, disk_reads;
	uint64_t row_memory, row_disk; /* bytes of rows in memory, and of files */
	bool disk_fails;
	struct err disk_error;
};
/* Sums up the figures of all partitions, each under its lock. Costs a visit of every partition,
 * so it is for heartbeats, not for each request. */
void shard_stats(struct shard *s, struct shard_stats *out);
/* The counters of a row policy, in the order of row_policy_counters.def. */
enum row_policy_counter {
#define COUNTER(name) ROW_POLICY_##name,
#include "shard/row_policy_counters.def"
#undef COUNTER
	ROW_POLICY_COUNTERS
};
/* Figures of one sparse table, summed over the partitions of which this server is the head. */
struct table_stats {
	uint64_t rows, bytes; /* bytes: with optimizer state, index and counts of ids */
	/* Tables with a row policy; replicas and checkpoints have them, too. */
	uint64_t count[ROW_POLICY_COUNTERS];
	bool has_policy; /* the table has a row policy */
};
/* False: there is no table of that number, or it was dropped. */
bool shard_table_stats(struct shard *s, uint16_t table, struct table_stats *out);
extern const char *const row_policy_counter_name[ROW_POLICY_COUNTERS];
/* Reports how much work the pushes to each partition of which this is the head make, in bytes a
 * step over about the last minute. It is a rate by steps because all servers have the same steps,
 * whenever they look. Partitions measured for a few steps only are left out. One caller, again and
 * again: the last call was `seconds` and `steps` ago. */
typedef void shard_push_rate_fn(void *ctx, uint16_t table, uint32_t part, double rate);
/* fn is called with the lock of the reported partition held. Partitions without a push
 * since the last call are reported too, with their decayed rate. */
void shard_part_load(struct shard *s, double seconds, uint64_t steps, shard_push_rate_fn *fn,
    void *ctx);
/* Reports the ranks whose pushes were refused, and how many: for values that are not finite or out
 * of bounds, or rows for which there was no room. */
void shard_refusals(struct shard *s, void (*fn)(void *ctx, uint32_t rank, uint64_t n), void *ctx);
/* The memory of all partitions, in bytes. */
struct shard_memory {
	/* Parameters and optimizer state; of sparse tables the present rows. */
	uint64_t tables;
	/* At most, with this many ranks: sums, former versions, change logs, arrays by rank. */
	uint64_t beside;
	uint64_t parts; /* number of partitions */
};
/* Sums up the memory, as if there were `ranks` ranks. */
struct shard_memory shard_memory(struct shard *s, uint64_t ranks);
/* shard_booked: bytes booked against mem_limit. shard_is_full: was a push refused because there was
 * no room? */
uint64_t shard_booked(struct shard *s);
/* Stays true once it was: a refusal is not undone when memory becomes free. Takes no lock. */
bool shard_is_full(struct shard *s);
struct hist;
/* Histograms, to be read at any time: staleness of pushes in versions; time to take a push. */
const struct hist *shard_staleness(const struct shard *s);
const struct hist *shard_apply_time(const struct shard *s); /* nanoseconds */

#endif
