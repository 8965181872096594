/* SPDX-License-Identifier: ISC */
#ifndef SHARD_PART_H
#define SHARD_PART_H

/* The inside of a shard: struct part (one partition), struct gate (the workers' clocks) and struct
 * shard itself. Only files of this folder include this header.
 *
 * A partition at one server goes through these states (here, live, head, tail, gone):
 *
 *    not here --install: first values or checkpoint--> here and live
 *    not here --install: joining; COPY_STATE arrives--> here, not live (receives changes)
 *    here, not live --install: counted in the layout--> here and live
 *    here --install: left the chain--> not here, gone; the struct stays, its values are freed
 *
 * The steps of a bsp partition: pushes of step N are summed in acc; when every slot is through with
 * the step (gate_step_is_complete), apply_step makes the update, sends the sum to the next replica,
 * and step N + 1 is open. See sync/sync.h for a table of all step counters.
 *
 * Locks: every part_*() function is called with the partition's lock held, unless its comment says
 * otherwise. The order of locks is in shard.h. They allocate memory only where rows or slots are
 * new. */
#include <pthread.h>
#include <stdatomic.h>

#include "ckpt/write.h"
#include "core/hist.h"
#include "shard/change_log.h"
#include "shard/rows.h"
#include "shard/shard.h"

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

/* Recent sums whose outcomes a relay's partition remembers. */
#define SAID 4u

/* One partition at this server. Its lock covers all fields that are not atomic. Arrays "by slot"
 * have a length of their own and grow when a slot is new; a missing entry counts as zeros. */
struct part {
	pthread_mutex_t lock;
	const struct table *table;
	uint32_t index, n; /* n: elements of a dense partition; 0 for a sparse one */
	/* Settings epoch of its updates; `state` has the layout of its rule. */
	const struct settings_epoch *by;
	uint64_t version; /* updates applied */
	/* Updates made before the present rule began with fresh state. */
	uint64_t born;
	uint64_t step; /* bsp: the open step */
	/* By slot: the highest step whose push was taken, plus 1. */
	uint64_t *last;
	size_t nlast, cap_last;
	/* By slot: which pushes of the 64 steps before last[slot] were refused (bit k: step
	 * last[slot] - 1 - k). Such a push gets the same answer when it is sent again. NULL until
	 * the first refusal. */
	uint64_t *refused;
	size_t nrefused;
	/* By slot: the pushes that were announced for this partition. due is the newest announced
	 * step, plus 1; bit k of claims says that step due - 1 - k was announced. Only pushes that
	 * were not here when they were announced are noted, so without relays, resends and replicas
	 * the array stays empty. */
	struct debt {
		uint64_t due, claims;
	} * debt;
	size_t ndebt;
	/* Number of slots with due > last: announced pushes that are pending. */
	unsigned owed;
	uint32_t missing; /* the slot that all_are_through looks at first */
	/* A caller was answered SHARD_HOLD: wake it after the next change. */
	bool waited;
	/* The clocks have passed its open step (counted in gate.behind). */
	bool behind;
	uint64_t prev_version; /* the version that prev has */
	bool prev_same;        /* the last step changed nothing: read w instead of prev */

	/* Dense: w has n parameters, state has the rule's nslots vectors of n floats. acc is the
	 * sum of the open step (head of a bsp chain only), prev the values before the last step
	 * (deterministic runs only). */
	float *w, *state, *acc, *prev;
	struct change_log *stamps; /* when each value changed; NULL: not wanted */
	/* Sparse: each row has its values and the rule's state of them, then the hidden fields
	 * below. acc_rows and prev_rows have bare values by row id. */
	struct rows *rows, *acc_rows, *prev_rows;
	/* For pulls of the changes since a version: stamp_at is the index in a row of the
	 * 32-bit number of the update that changed it last, counted from known_since (0: no such
	 * field). Changes before version known_since are not known. `was` has room for the former
	 * values of a row. */
	uint32_t stamp_at;
	uint64_t known_since;
	float *was;
	/* Tables with a row policy: the policy's state, and the index in a row of the 32-bit step at
	 * which the row was updated last (0: no such field). */
	struct life *life;
	uint32_t seen_at, stride; /* stride: floats of a row with its hidden fields */

	/* Bytes that this partition has booked in budget.used and .lent. */
	uint64_t booked, lent;
	uint64_t work, work_seen; /* bytes of pushes taken; work at the last shard_part_load */
	/* Decaying averages: bytes, and the steps that they were pushed in. */
	double warmth, warm_for;
	uint64_t measured;     /* steps for which shard_part_load saw this server as the head */
	uint64_t acc_examples; /* sum of the examples stated by the contributions in acc */
	/* Contributions in acc. 0: acc has leftovers of an earlier step, which the first
	 * contribution overwrites. */
	unsigned contributions;

	/* The partition's place in its chain under the installed layout. */
	bool here; /* this server has a complete replica */
	/* The layout counts it as a member of the chain, so workers announce their pushes to it. */
	bool live;
	bool head, tail;
	/* `to`: the next replica, which gets all changes; `feed`: the server that joins the chain
	 * here and is to be sent a state transfer */
	uint16_t to, feed;
	uint64_t to_process, feed_process; /* incarnations of those two servers */
	bool must;                         /* a change is safe only when `to` has it */
	/* `to` is joining and has everything that was shown before `must` was set */
	bool synced;
	/* The version when `to` acknowledged its state transfer; synced is set when that version is
	 * safe. */
	uint64_t sync_at;
	/* Records for `to` that it has not acknowledged, oldest first; their number; the number of
	 * the next. */
	struct copy *sent, **sent_last;
	unsigned nsent;
	uint64_t next_seq;
	/* The last full snapshot of the rows: its mark, the row policy's clock at that time, and
	 * the update rule whose state it has. A delta checkpoint takes only rows that changed
	 * since. */
	uint64_t whole_mark, whole_clock;
	const struct optim_rule *whole_rule;
	/* Snapshot for the checkpoint under way, once it is taken. Owns the arrays it points to. */
	struct ckpt_part *snap;
	/* Relay: each slot's contribution to the open sum (valid where last > step); the outcomes
	 * of the last SAID sums, at step % SAID; and the step, plus 1, that the values are of
	 * (dense) or that rows were asked for at (sparse). */
	struct share {
		uint64_t incarnation;
		uint32_t examples;
	} * share;
	size_t nshare;
	struct {
		uint64_t end;
		enum push_status status;
	} said[SAID];
	uint64_t have;
	/* Robust aggregation: each slot's gradient of the open step. examples 0: it has none. */
	struct kept {
		float *g;
		uint32_t examples;
	} * kept;
	size_t nkept;
	/* A second accumulator, for use while the first waits in `sent`. */
	float *spare;
	_Atomic unsigned copies; /* replicas in its chain */
	/* Counts how often this server left the partition or installed a state transfer (struct
	 * shard_due). It changes before `gone` and safe_* do, so a reader without the lock that
	 * finds the tenure unchanged after reading the others knows that they belong to that
	 * tenure. */
	_Atomic uint64_t tenure;
	/* The partition has left this server: nothing is acknowledged. */
	_Atomic bool gone;
	/* All replicas that count have the steps below safe_step, the updates up to safe_version,
	 * and the records up to safe_seq. Only these are acknowledged and shown. copy_update_safe
	 * computes them. */
	_Atomic uint64_t safe_step, safe_version, safe_seq;
};

/* The gate of a server: the workers' clocks and the mode in force. It decides which pushes and
 * pulls must wait. The lock covers all fields but the atomic one. `closing` and `turning` make
 * sure that one thread at a time goes over all partitions to close steps or to change the mode.
 * That thread releases the gate's lock meanwhile, because partition locks come first in the
 * order; another thread that finds `closing` set leaves `again` set, and the first goes round
 * once more. */
struct gate {
	pthread_mutex_t lock;
	struct sync sync;
	const struct settings_epoch *now; /* the settings epoch whose mode is in force */
	bool turning; /* a thread is changing the mode (settings_epoch_change_mode) */
	/* Cache for clocked_steps: the least clock of the active slots, and how many are at it. 0:
	 * compute anew. */
	size_t slowest;
	uint64_t floor;
	bool closing;            /* a thread is closing steps (close_complete_steps) */
	bool again;              /* look again when that is done */
	_Atomic unsigned behind; /* partitions with part.behind set */
};

/* The fixed cost of a push, in bytes that could be summed in the same time. */
#define PUSH_WORK 4096u

/* The snapshot that is being taken for a checkpoint: where the job is in bsp, of all partitions as
 * they are before `step` (by_step), else of each as it is when its turn comes.
 *
 *    off --shard_snap_begin--> on --shard_snap_parts or shard_snap_end--> off
 *
 * `on`: under way. `begun`: one was ever begun. `failed`: there was no memory for a part. */
struct snaps {
	_Atomic bool on, failed, begun, by_step;
	_Atomic uint64_t step;
	/* The number of this snapshot, and of the full one to which it may be a delta (0: to
	 * none). */
	_Atomic uint64_t mark, base;
};

/* The memory of all partitions of a server, in bytes; the numbers behind mem_limit. */
struct budget {
	uint64_t limit; /* 0: no limit */
	_Atomic uint64_t used;
	_Atomic bool full; /* a push was refused because the limit is reached */
	/* Relay: bytes of the rows that are kept for pulls, and the last step, plus 1, for which
	 * rows were asked for. */
	_Atomic uint64_t lent, lent_for;
};

struct settings_epochs;
/* All that a server holds. The fields without a lock of their own are set once or atomic. */
struct shard {
	struct shard_config cfg;
	struct settings_epochs *_Atomic settings_epochs;
	struct gate gate;
	struct snaps snaps;
	/* epoch of the layout that was installed last; only shard_install uses it */
	uint32_t epoch;
	struct budget budget;
	struct shard_table *_Atomic *table; /* SHARD_TABLES places, indexed by table id */
	_Atomic uint32_t ntables;
	_Atomic uint64_t status[PUSH_SPLIT + 1], pulls, nonfinite;
	_Atomic uint64_t alone; /* the number that shard_alone_count returns */
	struct hist staleness, apply_time;
};

/* Allocates a partition that is not here yet: a lock, but no memory for values. */
struct part *part_new(const struct table *t, uint32_t index);
/* Frees everything. No other thread may use the partition. NULL is fine. */
void part_free(struct part *p, struct budget *b);
/* part_alloc allocates values and state for the partition's settings epoch and leaves them unset;
 * part_init also fills them, from the checkpoint if the table is in it. A partition that is already
 * here loses its values. ERR_NOMEM, ERR_CONFIG (mem_limit), errors of reading the files. */
enum err_code part_alloc(struct part *p, struct shard *s, struct err *e);
enum err_code part_init(struct part *p, struct shard *s, struct err *e);
/* Frees the values and returns what they had booked; the chain position, step counters and records
 * to the next replica stay. */
void part_release_values(struct part *p, struct budget *b);
/* Bytes of a row beside its floats (id and place in the index), at most. */
#define ROW_OVERHEAD 16u
/* Books in the budget all that a dense partition may ever need here. ERR_CONFIG: it is more than
 * mem_limit allows; it is booked nevertheless, so part_release_values must follow. */
enum err_code budget_book(struct part *p, struct shard *s, struct err *e);
/* Books anew after the partition's settings epoch has changed. */
void budget_rebook(struct part *p, struct shard *s);
/* budget_has_room: does a push fit into mem_limit, with the rows that it would make? True for dense
 * tables. budget_book_rows books, after a push, what the rows take now. */
bool budget_has_room(const struct part *p, struct budget *b, const struct push *push);
void budget_book_rows(struct part *p, struct budget *b);
/* Allocates what the head of a bsp chain needs beside the values: the accumulator, and a spare one
 * when there is a next replica. Does nothing outside of bsp. */
enum err_code part_alloc_head(struct part *p, const struct shard *s, struct err *e);
/* Sets last[slot], moves the bits of refused[slot] along, and updates `owed`. */
void part_set_last(struct part *p, uint32_t slot, uint64_t last);
/* Remembers that the slot's push of this step was refused; step < last[slot]. And: was it? */
void part_set_refused(struct part *p, uint32_t slot, uint64_t step);
bool part_was_refused(const struct part *p, uint32_t slot, uint64_t step);
/* The bits of refused[slot], as they are sent to another replica. */
uint64_t part_refused_bits(const struct part *p, uint32_t slot);
void part_set_refused_bits(struct part *p, uint32_t slot, uint64_t bits);
/* Notes that the slot announced a push of step due - 1. */
void part_expect(struct part *p, uint32_t slot, uint64_t due);
/* Withdraws the slot's announcement for this step. False: there was none. */
bool part_withdraw(struct part *p, uint32_t slot, uint64_t step);
/* Adds announcements that another replica sent (due and claims as in struct part) to those known
 * here. The window moves to the newer `due`; announcements more than 64 steps older are
 * forgotten. */
void part_merge_expected(struct part *p, uint32_t slot, uint64_t due, uint64_t claims);
/* The newest step that the slot announced, plus 1. */
static inline uint64_t part_expected_end(const struct part *p, uint32_t slot)
{
	return slot < p->ndebt ? p->debt[slot].due : 0;
}
/* Announced steps that are known for each slot: the newest one, and those before it. */
#define PART_EXPECT_WINDOW 64u
/* Was a push of the slot announced for this step? Steps more than PART_EXPECT_WINDOW before part_expected_end are
 * not known, and count as not announced. */
bool part_is_expected(const struct part *p, uint32_t slot, uint64_t step);

/* part_slots points out[k] to the rule's k-th state vector; the vectors of n floats follow one
 * another in `state`. part_init_state fills them with the rule's initial values. */
void part_slots(float *state, size_t n, const struct optim_rule *rule,
    float *out[static OPTIM_MAX_SLOTS]);
void part_init_state(const struct optim_rule *rule, size_t n, float *state);

/* restore.c: fills the partition from its checkpoint. ERR_CONFIG for another shape or rule,
 * ERR_NOMEM, errors of ckpt/read.h. */
struct ckpt_table;
enum err_code restore_part(struct part *p, const struct shard_config *cfg,
    const struct ckpt_table *t, struct err *e);

/* Makes the update of bsp step `step` from a sum of gradients (n floats, or nrows rows with their
 * ids) divided by `examples`, and opens the next step; prev gets the former values. sum NULL and
 * nrows 0: the step changes nothing. False: no memory. */
bool part_update(struct part *p, uint64_t step, const float *sum, uint32_t nrows,
    const uint8_t *ids, uint64_t examples);
/* Adds examples * gradient to the open step's sum. False: no memory. */
bool part_accumulate(struct part *p, const struct shard_config *cfg, const struct push *push);
/* Makes the open step's update from the sum and opens the next step. The sum stays in acc, for
 * copy_sum, until part_clear_sum. False: no memory. */
bool part_apply_sum(struct part *p, uint64_t examples);
/* Forgets the sum of the step that was closed. */
void part_clear_sum(struct part *p);
/* Makes an update from one push, on arrival: ssp, asp, and pushes from outside the job. False: no
 * memory. */
bool part_apply_push(struct part *p, const struct push *push);

/* part_rows.c: the sparse side of the functions above. The ones that return bool return false when
 * there is no memory. */
void part_rows_alloc(struct part *p, const struct shard_config *cfg);
void part_rows_free(struct part *p);
/* The number of leading floats of a row that are equal in all replicas: values, optimizer state,
 * step of the last update, number of updates. The change stamp behind them is local. */
size_t part_rows_copied(const struct part *p);
/* The values arrived whole, as of the present version: forget all earlier changes. */
void part_forget_changes(struct part *p);
/* Forgets when each row was changed; the values stay. */
void part_forget_rows(struct part *p);
/* Stamps a row that the update under way changed or made. p->stamp_at must not be 0. */
void part_row_changed(struct part *p, float *row);
bool part_rows_accumulate(struct part *p, const struct push *push);
/* One update: from the n gradients g of these rows times scale; from the accumulated sum times
 * scale; straight from a push. */
bool part_rows_update(struct part *p, const struct optim_hyper *h, const uint8_t *ids, uint32_t n,
    const float *g, float scale);
bool part_rows_update_from_sum(struct part *p, const struct optim_hyper *h, float scale);
bool part_rows_apply(struct part *p, const struct optim_hyper *h, const struct push *push);
/* Converts all rows to another rule: state that the rules share by name is carried over, other
 * state gets its initial values. Ends the process when there is no memory. */
void part_rows_set_rule(struct part *p, const struct shard *s, const struct optim_rule *rule);
/* Writes the values of n rows to out, with `previous` those before the last step, and their
 * version. A row that does not exist is shown with its initial values. Where `since` gives the
 * version of which the caller has each row (codec/since.h), the numbers of the rows that may have
 * changed since are written to place; returns how many. */
uint32_t part_rows_show(const struct part *p, bool previous, const uint8_t *ids, uint32_t n,
    const uint64_t *since, float *out, uint32_t *place, uint64_t *version);

/* May a pull at this step be answered with the partition's values? SHARD_HOLD marks the caller as
 * waiting. */
enum shard_answer shard_part_may_show(struct shard *s, struct part *p, uint64_t step);

/* Looks up a partition. No lock is needed; NULL when it was never held here. */
struct part *shard_part(struct shard *s, uint16_t table, uint32_t part);
/* Calls fn for every partition that is or was held here, with its lock held and no other, until fn
 * returns false. Returns false then. */
typedef bool part_fn(struct shard *s, struct part *p, void *ctx);
bool shard_each(struct shard *s, part_fn *fn, void *ctx);

/* snap.c: called with the partition's lock held before an update of this step (ssp and asp: of
 * any). Copies the values when a snapshot is under way that wants them as they are now. snapshot_drop
 * frees the copy. */
void snapshot_before_update(struct shard *s, struct part *p, uint64_t step);
void snapshot_drop(struct part *p);

/* Writes the initial values of n elements from place `first` on. They are a function of table, seed
 * and place alone. */
void init_fill(const struct table *t, uint64_t first, size_t n, float *out);
/* For many rows of one table: init_base is computed once, and init_fill_by uses it. init_row_place
 * is the place of a row's first element. */
uint64_t init_base(const struct table *t);
void init_fill_by(const struct table *t, uint64_t base, uint64_t first, size_t n, float *out);
uint64_t init_row_place(const struct table *t, uint64_t id);

#endif
