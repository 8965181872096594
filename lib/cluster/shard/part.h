/* SPDX-License-Identifier: ISC */
#ifndef SHARD_PART_H
#define SHARD_PART_H

/* The inside of a shard: struct part (one partition) and struct shard itself; struct gate (the
 * workers' clocks) is in gate.h. Only files of this folder and implementations of struct shard_ops
 * include this header.
 *
 * A partition at one server goes through these states (members ready, in_chain and gone):
 *
 *    absent --install: first values or checkpoint--> ready, in_chain
 *    absent --install: joining; REPL_STATE arrives--> ready, not in_chain (receives changes)
 *    ready, not in_chain --install: the layout counts it--> ready, in_chain
 *    ready --install: left the chain--> absent, gone; the struct stays, its values are freed
 *
 * The steps of a bsp partition: pushes of step N are summed in acc, or applied on arrival (struct
 * step_ops); when every rank is through with the step (apply_step_is_complete), ops->close_step
 * (apply_step) makes the update from the sum, sends it to the next replica, and step N + 1 is open.
 * See sync/sync.h for a table of all step counters.
 *
 * Locks: every part_*() function is called with the partition's lock held, unless its comment says
 * otherwise. The order of locks is in core/lock.def. The functions for pushes and updates allocate
 * memory only for new rows, for new ranks and for whole tables that are larger than
 * PART_ELEMENTS. */
#include <pthread.h>
#include <stdatomic.h>

#include "ckpt/write.h"
#include "core/hist.h"
#include "core/lock.h"
#include "core/steps.h"
#include "shard/change_log.h"
#include "shard/gate.h"
#include "shard/row_store.h"
#include "shard/shard.h"
#include "socket/published.h"

/* One table at this server. Readers take no lock: the pointers only ever go from NULL to a
 * partition, and a table that grows is replaced whole by a larger one. */
struct shard_table {
	struct table shape;         /* runs not filled */
	struct part *_Atomic *part; /* by partition; NULL: never held here; set once */
	_Atomic bool gone;          /* dropped: no partition of it is here any more */
	/* The smaller table that this one replaced when the table grew. It is kept because readers
	 * may still use it; its partitions are among these. */
	struct shard_table *before;
};

/* The pushes of each rank that a partition knows. Arrays are indexed by rank and grow when a
 * rank is new; a missing entry counts as zeros. */
struct part_pushes {
	uint64_t *last; /* the highest step whose push was taken, plus 1 */
	size_t nlast, cap_last;
	/* Which pushes of the 64 steps before last[rank] were refused (bit k: step last[rank] - 1 -
	 * k). Such a push gets the same answer when it is sent again. NULL until the first
	 * refusal. */
	uint64_t *refused;
	size_t nrefused;
	/* The pushes that were announced for this partition. `end` is the newest announced step,
	 * plus 1; bit k of `steps` says that step end - 1 - k was announced. Only pushes that were
	 * not here when they were announced are noted, so without relays, resends and replicas the
	 * array stays empty. */
	struct announced {
		uint64_t end, steps;
	} * announced;
	size_t nannounced;
	unsigned pending; /* ranks with announced.end > last */
	uint32_t missing; /* the rank at which apply_step_is_complete begins */
};

/* How an update stores values that other processes read (socket/published.h).
 *
 * STORE_PLAIN changes the values in place. That is fastest while they are in this processor's
 * cache, or in one that it shares with the readers. If the readers' processors have caches of their
 * own, each store waits until they have given up their copy. STORE_PAST_CACHES writes to memory at
 * once, and the values must be read from there. Which is faster depends on the processors that the
 * system chose and on how often values are read, so both are timed, again and again: of each
 * STORE_PERIOD updates, STORE_TRIAL are made in one way, as many in the other, and the rest in the
 * faster one. Both leave the same bits. */
enum store_way { STORE_PLAIN, STORE_PAST_CACHES };
enum { STORE_TRIAL = 6, STORE_PERIOD = 256 };

/* All zero at first. The caller has it locked. */
struct store_timer {
	uint32_t updates;      /* of the present period */
	enum store_way faster; /* as the last trial has shown */
	int64_t least[2];      /* by way: shortest time of this trial in ns; 0: none */
};

/* The values of a dense partition: w has n parameters, state has the rule's nvectors vectors of n
 * floats. */
struct part_dense {
	float *w, *state;
	/* The memory that has w as one of its places; NULL: w is allocated. */
	struct published *published;
	struct store_timer store; /* of the published values */
	/* The sum of the open step (head of a bsp chain only), and a second accumulator for use
	 * while the first waits in chain.sent. */
	float *acc, *spare;
	float *prev;                /* the values before the last step (deterministic runs only) */
	struct change_log *changes; /* when each value changed; NULL: not wanted */
	struct past_values *past;   /* versions before this one (past_values.h); NULL: none */
};

/* The rows of a sparse partition: the table's rows, and with bare values by row id the open step's
 * sum and the values before the last step (deterministic runs only). */
struct part_rows {
	struct row_store *store; /* made with the partition; open while this server has a replica */
	struct rows *acc, *prev;
	/* By row id, how many examples of the open step touch the row, as a u32 in place of a
	 * float; has rows only where pushes reported it (sum.has_touching). NULL: none ever has. */
	struct rows *touched;
	struct row_layout layout; /* of the store; all zero while it is closed */
	/* ROW_CHANGED counts updates from this version on. Changes before it are not known. */
	uint64_t known_since;
	float *former; /* room for the former values of a row */
	struct row_policy_state
	    *policy_state; /* the row policy's state; NULL: the table has no policy */
};

/* The size of a sum of gradients: how many examples the gradients were computed from, and what the
 * sum is to be divided by to give their mean gradient. The divisor is another number than the
 * examples where the sum is a mean already. */
struct part_sum_size {
	uint64_t examples, divisor;
};

/* The open step's sum. */
struct part_sum {
	uint64_t examples; /* sum of the examples stated by the contributions */
	/* Contributions in the accumulator. 0: it has leftovers of an earlier step, which the first
	 * contribution overwrites. */
	unsigned contributions;
	bool has_touching; /* sparse.touched has rows */
	/* The examples of contributions with rows that did not say how many examples touch each
	 * row. They count for every row of the step, in any order of the contributions. */
	uint64_t uncounted;
	/* Robust aggregation: each rank's gradient of the open step. examples 0: it has none. */
	struct rank_gradient {
		float *g;
		uint32_t examples;
	} * gradients;
	size_t ngradients;
};

/* The partition's place in its chain under the installed layout, and what is on its way to the next
 * replica. */
struct part_chain {
	bool head, tail;
	uint16_t next; /* the server of the next replica, which is sent all changes */
	uint16_t
	    joining; /* the server that joins the chain after this tail; gets the whole state */
	uint64_t next_process, joining_process; /* incarnations of those two servers */
	bool required;                          /* a change is safe only when `next` has it */
	/* `next` is joining and has everything that was shown before `required` was set */
	bool synced;
	/* The version when `next` acknowledged its state transfer; synced is set when that version
	 * is safe. */
	uint64_t joined_version;
	/* Records for `next` that it has not acknowledged, oldest first; their number; the number
	 * of the following one. */
	struct repl_record *sent, **sent_last;
	unsigned nsent;
	uint64_t next_seq;
	_Atomic unsigned replicas; /* replicas in the chain */
	/* All replicas that count have the steps below safe_step, the updates up to safe_version,
	 * and the records up to safe_seq. Only these are acknowledged and shown. part_update_safe
	 * computes them. */
	_Atomic uint64_t safe_step, safe_version, safe_seq;
};

/* How much work the partition is, for the placement (shard_part_load). */
struct part_load {
	uint64_t work, work_seen; /* bytes of pushes taken; work at the last shard_part_load */
	/* Decaying sums: bytes, and the steps that they were pushed in. */
	double recent_work, recent_steps;
	uint64_t measured; /* steps for which shard_part_load saw this server as the head */
};

/* The partition in checkpoints. */
struct part_saved {
	/* The last full snapshot of the rows: its mark, the row policy's clock at that time, and
	 * the update rule whose state it has. A delta checkpoint takes only rows that changed
	 * since. */
	uint64_t full_mark, full_clock;
	const struct optim_rule *full_rule;
	/* Snapshot for the checkpoint under way, once it is taken. Owns the arrays it points to. */
	struct ckpt_part *snap;
	/* It was taken and given to the checkpoint. A second copy would be of a later time, and so
	 * would full_clock. */
	bool given;
};

/* One partition at this server. Its lock covers all fields that are not atomic. */
struct part {
	struct mutex lock;
	const struct table *table;
	uint32_t index, n; /* n: elements of a dense partition; 0 for a sparse one */
	/* Settings epoch of its updates, and the rule that it gives to the table; the optimizer
	 * state has the layout of that rule. NULL until there are values. settings_epoch_begin sets
	 * both. */
	const struct settings_epoch *settings;
	struct table_rules_choice optim;
	uint64_t version; /* updates applied */
	/* The version at which the present rule began with fresh state. */
	uint64_t rule_began;
	uint64_t step; /* bsp: the open step */
	/* A caller was answered SHARD_WAIT: wake it after the next change. */
	bool has_waiters;
	/* The clocks have passed its open step (counted in gate.nlagging). */
	bool lagging;
	uint64_t prev_version; /* the version that the values before the last step have */
	bool prev_same;        /* the last step changed nothing: the present values are those */
	bool ready;            /* this server has a complete replica */
	/* The layout counts it as a member of the chain, so workers announce their pushes to it. */
	bool in_chain;
	uint64_t booked; /* bytes that this partition has booked in budget.used */
	void *ops_data;  /* shard_ops.part_bytes, for the shard's ops */

	struct part_pushes pushes;
	struct part_dense dense; /* all NULL in a sparse partition */
	struct part_rows sparse; /* all NULL in a dense partition */
	struct part_sum sum;
	struct part_chain chain;
	struct part_load load;
	struct part_saved saved;

	/* Counts how often this server left the partition or installed a state transfer (struct
	 * receipt_condition). It changes before `gone` and chain.safe_* do, so a reader without the
	 * lock that finds the tenure unchanged after reading the others knows that they belong to
	 * that tenure. */
	_Atomic uint64_t tenure;
	/* The partition has left this server: nothing is acknowledged. */
	_Atomic bool gone;
};

/* The fixed cost of a push, in bytes that could be summed in the same time. */
#define PUSH_WORK 4096u

/* The snapshot that is being taken for a checkpoint: where the job is in bsp, of all partitions as
 * they are before `step` (by_step), else of each as it is when its turn comes.
 *
 *    off --shard_snap_begin--> on --shard_snap_parts or shard_snap_end--> off
 *
 * `on`: under way. `begun`: one was ever begun. `failed`: there was no memory for a part. `late`: a
 * partition had passed `step`, or gone on to a bsp at `until`, before it was copied. */
struct snaps {
	_Atomic bool on, failed, late, begun, by_step;
	/* The job is done: no step closes any more, and partitions may be one step apart, if a lost
	 * rank had pushed to some of them. */
	_Atomic bool at_end;
	_Atomic uint64_t step;
	/* Not by_step: a partition takes part from its first step in ssp or asp, `from`, until it
	 * is beyond the first one of the next bsp, `until`. */
	_Atomic uint64_t from, until;
	/* The number of this snapshot, and of the full one to which it may be a delta (0: to
	 * none). */
	_Atomic uint64_t mark, base;
};

/* The memory of all partitions of a server, in bytes, to which mem_limit applies. */
struct budget {
	uint64_t limit; /* 0: no limit */
	_Atomic uint64_t used;
	_Atomic bool full; /* a push was refused because the limit is reached */
};

struct settings_epochs;
/* Settings epochs that have left the list, but whose rule the state of a partition still has. Only
 * the thread that calls shard_add_epoch uses them. */
struct unlisted_epochs {
	const struct settings_epoch **epoch;
	unsigned n;
	size_t room;
};
/* All that a server holds. The fields without a lock of their own are set once or atomic. */
struct shard {
	struct shard_config cfg;
	const struct shard_ops *ops;
	bool aggregates_robustly; /* cfg.aggregate compares gradients (aggregate_compares) */
	struct settings_epochs *_Atomic settings_epochs;
	struct unlisted_epochs unlisted;
	struct gate gate;
	struct snaps snaps;
	/* epoch of the layout that was installed last; only shard_install uses it */
	uint32_t layout_epoch;
	struct budget budget;
	struct shard_table *_Atomic *table; /* SHARD_TABLES places, indexed by table id */
	_Atomic uint32_t ntables;
	_Atomic uint64_t status[PUSH_SPLIT + 1], pulls, nonfinite;
	struct hist staleness, apply_time;
};

/* Allocates a partition that is not here yet: a lock, but no memory for values. The lock is made,
 * and `ops_data` is zeroed; the caller owns the result until it is in a table. */
struct part *part_new(struct shard *s, const struct table *t, uint32_t index);
/* Frees everything. No other thread may use the partition. NULL is fine. The records to the next
 * replica and a snapshot go as well. */
void part_free(struct shard *s, struct part *p);
/* part_alloc allocates values and state for the partition's settings epoch and leaves them unset;
 * part_init also fills them, from the checkpoint if the table is in it. A partition that is already
 * here loses its values. ERR_NOMEM, ERR_CONFIG (mem_limit), errors of reading the files. */
enum err_code part_alloc(struct part *p, struct shard *s, struct err *e);
enum err_code part_init(struct part *p, struct shard *s, struct err *e);
/* Once the partition has been shown, dense.w may be changed only between these calls, because other
 * processes may be reading it. */
static inline void part_begin_change(struct part *p)
{
	published_begin_change(p->dense.published, p->dense.w);
}
static inline void part_end_change(struct part *p)
{
	published_end_change(p->dense.published, p->dense.w);
}
/* The way of the next update, and the time that it has taken in ns. The caller has the timer
 * locked. */
enum store_way part_store_way(const struct store_timer *t);
void part_store_took(struct store_timer *t, int64_t took);
/* Frees the values and returns what they had booked; the chain position, step counters and records
 * to the next replica stay. */
void part_release_values(struct shard *s, struct part *p);
/* Is the partition sparse, with an open row store? */
static inline bool part_has_rows(const struct part *p)
{
	return p->sparse.layout.bytes != 0;
}

/* Does a dense partition log which values change? A whole table in one partition is too long for
 * it. */
static inline bool part_logs_changes(const struct part *p, const struct shard_config *cfg)
{
	return cfg->deltas && p->n <= PART_ELEMENTS;
}

/* Books in the budget all that a dense partition may ever need here. ERR_CONFIG: it is more than
 * mem_limit allows; it is booked nevertheless, so part_release_values must follow. */
enum err_code budget_book(struct part *p, struct shard *s, struct err *e);
/* Books the memory again after the partition's settings epoch has changed. Does nothing for a
 * sparse partition, whose rows are booked when they are made. */
void budget_rebook(struct part *p, struct shard *s);
/* budget_has_room: does a push fit into mem_limit, with the rows that it would make, or the
 * gradient that an aggregator keeps? budget_book_rows books, after a push, what the rows take
 * now. */
bool budget_has_room(struct part *p, struct shard *s, const struct push *push);
/* Replaces what the partition has booked by the bytes that its row tables and policy take now, so
 * it also gives bytes back after rows were removed. Does nothing for a dense partition or without
 * a limit. */
void budget_book_rows(struct part *p, struct budget *b);
/* Allocates what the head of a bsp chain needs beside the values: the accumulator, and a spare one
 * when there is a next replica. Does nothing outside of bsp. */
enum err_code part_alloc_head(struct part *p, const struct shard *s, struct err *e);
/* Sets last[rank], moves the bits of refused[rank] along, and updates `pending`. */
void part_set_last(struct part *p, uint32_t rank, uint64_t last);
/* Remembers that the rank's push of this step was refused; step < last[rank]. And: was it? */
void part_set_refused(struct part *p, uint32_t rank, uint64_t step);
/* Tells whether that push was refused. The answer is false for steps that are 64 or more before the
 * rank's newest push, because their bits are gone. */
bool part_was_refused(const struct part *p, uint32_t rank, uint64_t step);
/* The bits of refused[rank], as they are sent to another replica. A rank that was never refused
 * has 0. */
uint64_t part_refused_bits(const struct part *p, uint32_t rank);
/* Sets those bits as another replica has sent them. Set `last` of the rank first, since bit 0 is
 * the push of step last - 1. */
void part_set_refused_bits(struct part *p, uint32_t rank, uint64_t bits);
/* Computes safe_step, safe_version and safe_seq. Called after every change of step, version,
 * queue or `required`. */
void part_update_safe(struct part *p);
/* Notes that the rank announced a push of step end - 1. */
void part_expect(struct part *p, uint32_t rank, uint64_t end);
/* Withdraws the rank's announcement for this step. False: there was none. The window shrinks to
 * the newest announcement that is left. */
bool part_withdraw(struct part *p, uint32_t rank, uint64_t step);
/* Adds announcements that another replica sent (end and steps as in struct announced) to those
 * known here. The window moves to the newer `end`; announcements more than 64 steps older are
 * forgotten. */
void part_merge_expected(struct part *p, uint32_t rank, uint64_t end, uint64_t steps);
/* The newest step that the rank announced, plus 1. */
static inline uint64_t part_expected_end(const struct part *p, uint32_t rank)
{
	return rank < p->pushes.nannounced ? p->pushes.announced[rank].end : 0;
}
/* Announced steps that are known for each rank: the newest one, and those before it. */
#define PART_EXPECT_WINDOW 64u
/* Was a push of the rank announced for this step? Steps more than PART_EXPECT_WINDOW before
 * part_expected_end are not known, and count as not announced. */
bool part_is_expected(const struct part *p, uint32_t rank, uint64_t step);

/* part_state_vectors points out[k] to the rule's k-th state vector, for n values in rows of this
 * width (dense tables: 1); the vectors follow one another in `state`. part_init_state fills them
 * with the rule's initial values. */
void part_state_vectors(float *state, size_t n, size_t width, const struct optim_rule *rule,
    float *out[static OPTIM_VECTORS_MAX]);
/* Fills all vectors of `state` with the initial values that the rule names. */
void part_init_state(const struct optim_rule *rule, size_t n, size_t width, float *state);

/* Deterministic runs pull exactly the version of their step: is that the one before the open step?
 * A worker that was replaced may ask for it. */
bool part_wants_previous(const struct shard *s, const struct part *p, uint64_t step);

/* restore.c: fills the partition from its checkpoint. ERR_CONFIG for another shape or rule,
 * ERR_NOMEM, errors of ckpt/read.h. */
struct ckpt_table;
enum err_code restore_part(struct part *p, const struct shard_config *cfg,
    const struct ckpt_table *t, struct err *e);

/* fill.c: the source's table of the same name; NULL: there is no source, or it has no such table. */
const struct table *fill_table_of(const struct shard_config *cfg, const struct table *t);
/* fill.c: fills a table, whose partitions have been made, from the source, if that has it. No other thread
 * can reach the table yet. ERR_CONFIG: another shape; ERR_NOMEM; errors of the source. */
struct shard_table;
enum err_code fill_table(struct shard *s, const struct shard_table *table, struct err *e);

/* Makes the update of bsp step `step` from a sum of gradients (n floats, or nrows rows with their
 * ids), and opens the next step; prev gets the former values. touching: as in struct push. size: of
 * the sum. sum NULL and nrows 0: the step changes nothing. False: no memory. */
bool part_update(struct part *p, uint64_t step, const float *sum, uint32_t nrows,
    const uint8_t *ids, const uint8_t *touching, const struct part_sum_size *size);
/* Adds examples * gradient to the open step's sum; for a reduced table, whose gradient is the mean
 * of all workers, the gradient as it is. False: no memory. */
bool part_accumulate(struct part *p, const struct shard *s, const struct push *push);
/* Makes the open step's update from the sum and opens the next step. The sum stays in acc, for
 * repl_queue_sum, until part_clear_sum. False: no memory. */
bool part_apply_sum(struct part *p, const struct part_sum_size *size);
/* Forgets the sum of the step that was closed. */
void part_clear_sum(struct part *p);
/* Makes an update from one push, on arrival: ssp, asp, and pushes from outside the job. False: no
 * memory. */
bool part_apply_push(struct part *p, const struct push *push, uint64_t rate_divisor);

/* part_rows.c: the sparse side of the functions above. The ones that return bool return false when
 * there is no memory. */
void part_rows_alloc(struct part *p, const struct shard_config *cfg);
/* The layout of rows with the state of this rule. The state of the row policy must be there
 * already, because it decides whether rows have ROW_SEEN. */
struct row_layout part_rows_layout(const struct part *p, const struct shard_config *cfg,
    const struct optim_rule *rule);
/* Frees the rows, the sums, the former values and the state of the row policy. Does nothing if
 * there are none. */
void part_rows_free(struct part *p);
/* Takes the partition's lock for a push or pull of n rows (u64 little-endian, any alignment), which
 * are in memory or do not exist until part_unlock_rows. The caller is an I/O thread, and holds no
 * lock.
 *
 *    SHARD_OK    the lock is held
 *    SHARD_WAIT  it is not: the row store has begun to read some of the rows. Answer the same, and call
 *                again after cfg.wake. Rows that are kept in memory never need that.
 *
 * For a dense partition, with n 0, it takes the lock and nothing else. */
enum shard_answer part_lock_rows(struct shard *s, struct part *p, const uint8_t *ids, uint32_t n);
/* Gives up the lock. Rows may leave the memory then, unless the open step has a sum: its update
 * needs them. */
void part_unlock_rows(struct part *p);
/* The values arrived whole, as of the present version: forget all earlier changes. */
void part_forget_changes(struct part *p);
/* Forgets when each row was changed; the values stay. */
void part_forget_rows(struct part *p);
/* Stamps a row that the update under way changed or made. Only for rows that have the word
 * ROW_CHANGED, and after part_rows_begin_block. */
void part_row_changed(struct part *p, void *row);
/* Called before a block of rows is looked up to be changed: sees to it that they can be stamped. */
void part_rows_begin_block(struct part *p);
/* Adds examples * gradient of each row of the push to the open step's sum. After false some of
 * its rows have been added: the caller reports SHARD_BAD, and the session ends. */
bool part_rows_accumulate(struct part *p, const struct push *push);
/* One update: from the gradients g of these n rows, and `touching` as in struct push; from the
 * accumulated sum (g->values is not used); straight from a push. */
bool part_rows_update(struct part *p, const struct optim_hyper *h, const uint8_t *ids, uint32_t n,
    const uint8_t *touching, const struct optim_gradient *g);
/* Takes the rows from sparse.acc, which stays as it is until part_clear_sum. */
bool part_rows_update_from_sum(struct part *p, const struct optim_hyper *h,
    const struct optim_gradient *g);
/* How many examples of the open step touch the row; 0: not known. */
uint32_t part_rows_touching(const struct part *p, uint64_t id);
/* Decodes the push, whose values are a mean, and applies it as one update. A push whose payload is
 * not raw values needs memory for all of its decoded rows. */
bool part_rows_apply(struct part *p, const struct optim_hyper *h, const struct push *push);
/* Converts all rows to another rule: state that the rules share by name is carried over, other
 * state gets its initial values. Ends the process when there is no memory. */
void part_rows_set_rule(struct part *p, const struct shard *s, const struct optim_rule *rule);
/* Fills the results of x: the present values of its rows, or with `previous` those before the last
 * step. */
void part_rows_show(const struct part *p, bool previous, struct row_read *x);

/* Looks up a partition. No lock is needed; NULL when it was never held here. */
struct part *shard_part(struct shard *s, uint16_t table, uint32_t part);
/* Calls fn for every partition that is or was held here, with its lock held and no other, until fn
 * returns false. Returns false then. */
typedef bool part_fn(struct shard *s, struct part *p, void *ctx);
/* Visits tables and partitions in ascending order and skips dropped tables. fn may take the
 * gate's lock, but it must not look up or lock another partition. */
bool shard_each(struct shard *s, part_fn *fn, void *ctx);

/* snap.c: called with the partition's lock held before an update of this step (ssp and asp: of
 * any). Copies the values when a snapshot is under way that wants them as they are now.
 * snapshot_drop frees the copy. */
void snapshot_before_update(struct shard *s, struct part *p, uint64_t step);
/* The first half of shard_snap_begin: from now on updates copy partitions. An update may come
 * before the second half looks how far the partitions are. */
void snapshot_arm(struct shard *s, uint64_t step);
/* Frees the partition's snapshot without giving it to a checkpoint. Does nothing if there is
 * none. */
void snapshot_drop(struct part *p);

/* The highest step of which this partition has taken the rank's push, plus 1. */
static inline uint64_t part_taken_end(const struct part *p, uint32_t rank)
{
	return rank < p->pushes.nlast ? p->pushes.last[rank] : 0;
}

/* Has the rank's push of this step been taken? Each worker pushes its steps in order, so a step
 * below `last` was. But if it is absurdly far below (core/steps.h), an earlier holder sent an
 * absurd step and the answer is no. */
static inline bool part_has_taken(const struct part *p, uint32_t rank, uint64_t step)
{
	uint64_t last = part_taken_end(p, rank);

	return last > step && last - step <= STEPS_LEAP;
}

#endif
