#ifndef SHARD_PART_H
#define SHARD_PART_H

/* Inside of a shard: one partition, and the gate.  part_*() are called with
 * the partition's lock held and allocate only what a sparse row needs. */
#include <pthread.h>
#include <stdatomic.h>

#include "base/hist.h"
#include "ckpt/write.h"
#include "shard/rows.h"
#include "shard/shard.h"
#include "shard/stamps.h"

struct shard_table {
	struct table shape;             /* runs not filled */
	struct part *_Atomic *part;     /* by partition; NULL: never ours; set once */
	_Atomic bool gone;              /* dropped: none of its partitions is here any more */
	struct shard_table *before;     /* as it was until it grew: its partitions are among these, readers may be in it */
};

#define SAID 4u

struct part {
	pthread_mutex_t lock;
	const struct table *table;
	uint32_t index, n;              /* n: elements of a dense partition */
	const struct regime *by;        /* what makes its updates; its state is of that rule */
	uint64_t version;               /* updates applied */
	uint64_t born;                  /* of them, those before this rule began */
	uint64_t step;                  /* bsp: the step that is open */
	/* By slot: the highest step whose push was taken, plus 1. */
	uint64_t *last;
	size_t nlast, cap_last;
	/* By slot: the one that its CLOCK says it has pushed here, plus 1; bit k: it says so of
	 * step due - 1 - k.  Only of pushes that were not here before the CLOCK: where there is
	 * but one way to one copy, that is of none. */
	struct debt { uint64_t due, claims; } *debt;
	size_t ndebt;
	unsigned owed;                  /* slots with due above last */
	uint32_t missing;               /* a slot that the open step waited for when it was looked at last */
	bool waited;                    /* somebody was told to hold */
	bool behind;                    /* its step is open though the clocks have passed it */
	uint64_t prev_version;          /* of prev */
	bool prev_same;                 /* the last step changed nothing: prev is w */

	/* dense: n parameters, then nslots * n of optimizer state */
	float *w, *state, *acc, *prev;
	struct stamps *stamps;          /* NULL: not wanted */
	/* sparse: rows of (1 + nslots) * cols; acc and prev by id.  Where rows may be narrow: of each `narrow` of its
	 * columns, of those that are wide the others in rest (width.h), and which of a row's floats is not one, but says how
	 * often it was updated. */
	struct rows *rows, *acc_rows, *prev_rows, *rest;
	uint32_t narrow, updates_at;
	/* Where pulls may ask for what has changed: which of a row's floats is not one, but says
	 * when its values were changed last (0: not wanted); the version before which nothing is
	 * known of that; room for the row that is updated, as it was. */
	uint32_t stamp_at;
	uint64_t known_since;
	float *was;
	/* Where the table has a policy: what goes by it; which of a row's floats is not one, but
	 * says at which step it was updated last (0: not wanted). */
	struct life *life;
	uint32_t seen_at, stride;       /* stride: floats a row */

	uint64_t booked, lent;          /* bytes, of budget.used and budget.lent */
	uint64_t work, work_seen;       /* of pushes taken, in bytes; as of the last shard_heat */
	double warmth, warm_for;        /* that work, and the steps it was done in, of late */
	uint64_t measured;              /* steps since this became the head */
	uint64_t acc_examples;          /* stated by the contributions in acc */
	unsigned contributions;         /* of the open step, refused ones not counted; 0: acc is of no step */

	/* Its place in the chain, of the layout's present epoch. */
	bool here;                      /* a whole copy */
	bool live;                      /* which counts: all workers' CLOCKs tell of it */
	bool head, tail;
	uint16_t to, feed;              /* who gets all that changes; who is to be given a copy */
	uint64_t to_process, feed_process;      /* and which of the processes that had its number */
	bool must;                      /* `to` must have it before it counts */
	bool synced;                    /* `to` joins, and has all that counted before it had to */
	uint64_t sync_at;
	struct copy *sent, **sent_last; /* what `to` has not said it has, in order */
	unsigned nsent;
	uint64_t next_seq;
	/* The last picture with all rows: its mark, the clock of the table's policy then, and the rule it goes on by. */
	uint64_t whole_mark, whole_clock;
	const struct optim_rule *whole_rule;
	struct ckpt_part *snap;         /* for a checkpoint, once it is taken; owns what it points to */
	/* Of a relay: who is in the open sum, by slot, as far as there are pushes; what became of
	 * the last ones; and of which step (plus 1) the values are, or of a sparse one were asked
	 * for. */
	struct share { uint64_t incarnation; uint32_t examples; } *share;
	size_t nshare;
	struct { uint64_t end; enum push_status status; } said[SAID];
	uint64_t have;
	/* Of a robust sum: each slot's gradient of the open step; examples 0: there is none. */
	struct kept { float *g; uint32_t examples; } *kept;
	size_t nkept;
	float *spare;                   /* an accumulator's memory while another is in `sent` */
	_Atomic unsigned copies;        /* in its chain */
	_Atomic bool gone;              /* it has left: no promise about it is kept */
	/* What all copies have: steps below this, updates up to this. */
	_Atomic uint64_t safe_step, safe_version;
};

struct gate {
	pthread_mutex_t lock;
	struct sync sync;
	const struct regime *now;       /* whose mode is in force */
	bool turning;                   /* one thread has that mode give way to the next */
	/* Of the active slots so many have the least clock, which is this; 0: to be counted. */
	size_t slowest;
	uint64_t floor;
	bool closing;                   /* one thread makes the updates of a step */
	bool again;                     /* something has come meanwhile */
	_Atomic unsigned behind;        /* partitions that are */
};

/* What any push costs, in bytes that could be summed meanwhile. */
#define PUSH_WORK 4096u

/* A checkpoint that is being taken: in bsp of `step`, else of whenever it is. */
struct snaps {
	_Atomic bool on, failed, begun, by_step;
	_Atomic uint64_t step;
	/* Of this one, and of the one to which it may have but the changes (0: none). */
	_Atomic uint64_t mark, base;
};

struct budget {
	uint64_t limit;                 /* 0: none */
	_Atomic uint64_t used;
	_Atomic bool full;              /* a push was refused for want of room */
	/* Of a relay: bytes of rows that are kept for pulls; the last step (plus 1) of which
	 * some were asked for. */
	_Atomic uint64_t lent, lent_for;
};

struct regimes;
struct shard {
	struct shard_config cfg;
	struct regimes *_Atomic regimes;
	struct gate gate;
	struct snaps snaps;
	struct budget budget;
	struct shard_table *_Atomic *table;     /* SHARD_TABLES places; set once, then read freely */
	_Atomic uint32_t ntables;
	_Atomic uint64_t status[PUSH_SPLIT + 1], pulls, nonfinite;
	_Atomic uint64_t alone;         /* see shard_alone */
	struct hist staleness, apply_time;
	struct watch *watch;            /* of outliers; NULL: not wanted */
};

/* An empty place, with a lock and no memory for values. */
struct part *part_new(const struct table *t, uint32_t index);
void part_free(struct part *p, struct budget *b);
/* Memory for values; then initial ones. */
enum err_code part_alloc(struct part *p, struct shard *s, struct err *e);
enum err_code part_init(struct part *p, struct shard *s, struct err *e);
/* It has left: give the memory back. */
void part_retire(struct part *p, struct budget *b);
/* Book all that a dense partition may ever have here.  ERR_CONFIG: it is too much. */
/* What a row has beside its floats, at most. */
#define ROW_OVERHEAD 16u
enum err_code part_book(struct part *p, struct shard *s, struct err *e);
/* By what has come to be in force. */
void part_rebook(struct part *p, struct shard *s);
/* A push to a sparse table: are there rows for it, or room for new ones?  And
 * after it: book what it took. */
bool part_has_room(const struct part *p, struct budget *b, const struct push *push);
void part_book_rows(struct part *p, struct budget *b);
/* What the head of a bsp chain needs beside the values. */
enum err_code part_alloc_head(struct part *p, const struct shard *s, struct err *e);
void part_set_last(struct part *p, uint32_t slot, uint64_t last);
void part_set_due(struct part *p, uint32_t slot, uint64_t due);
/* It does not come here after all.  False: it was not told to. */
bool part_unclaim(struct part *p, uint32_t slot, uint64_t step);
/* The same from another copy, whose claims these are. */
void part_merge_due(struct part *p, uint32_t slot, uint64_t due, uint64_t claims);
static inline uint64_t part_due(const struct part *p, uint32_t slot)
{
	return slot < p->ndebt ? p->debt[slot].due : 0;
}
/* Does the slot say that it pushes, or has pushed, here at this step? */
bool part_claimed(const struct part *p, uint32_t slot, uint64_t step);

/* The k-th of the rule's vectors of n elements that follow one another; and their
 * initial values. */
void part_slots(float *state, size_t n, const struct optim_rule *rule, float *out[static OPTIM_MAX_SLOTS]);
void part_init_state(const struct optim_rule *rule, size_t n, float *state);

/* restore.c: what a checkpoint has of it.  ERR_CONFIG for another shape or rule, ERR_NOMEM, errors of ckpt/read.h. */
struct ckpt_table;
enum err_code part_restore(struct part *p, const struct shard_config *cfg, const struct ckpt_table *t, struct err *e);

/* One update of a step from a sum of gradients (dense: n floats; else rows),
 * divided by `examples`; prev keeps what was.  NULL and no rows: none. */
bool part_update(struct part *p, uint64_t step, const float *sum, uint32_t nrows, const uint8_t *ids, uint64_t examples);
/* acc += examples * gradient; of a dense table the first contribution fills acc. */
bool part_accumulate(struct part *p, const struct shard_config *cfg, const struct push *push);
/* The open step's update from what was accumulated; the sum stays until
 * part_reopen. */
bool part_close(struct part *p, uint64_t examples);
void part_reopen(struct part *p);
/* One update straight from a push. */
bool part_apply(struct part *p, const struct push *push);

/* part_rows.c: the same of a sparse partition.  False: no memory. */
void part_rows_alloc(struct part *p, const struct shard_config *cfg);
void part_rows_free(struct part *p);
/* Floats of a row that all copies have the same: values, state, when it was updated last and how often. */
size_t part_rows_copied(const struct part *p);
/* What is there has come whole, with this version: of changes before nothing is known. */
void part_forget_changes(struct part *p);
/* The same of rows, whose values are not forgotten. */
void part_forget_rows(struct part *p);
/* The update that makes the next version has changed the row, or has made it where there may have been another before;
 * p->stamp_at is not 0. */
void part_row_changed(struct part *p, float *row);
bool part_rows_accumulate(struct part *p, const struct push *push);
/* One update from the n gradients of these rows, from what was accumulated, or straight
 * from a push. */
bool part_rows_update(struct part *p, const struct optim_hyper *h, const uint8_t *ids, uint32_t n, const float *g, float scale);
bool part_rows_close(struct part *p, const struct optim_hyper *h, float scale);
bool part_rows_apply(struct part *p, const struct optim_hyper *h, const struct push *push);
/* Room in each row for what another rule keeps, which begins or goes on. */
void part_rows_turn(struct part *p, const struct shard *s, const struct optim_rule *rule);
/* The values of n rows, in a deterministic run those of before the last step, and their
 * version.  Where `since` says as of which version each is had (codec/since.h), place gets
 * those of them, by their numbers, that may have changed; returns how many. */
uint32_t part_rows_show(const struct part *p, bool previous, const uint8_t *ids, uint32_t n, const uint64_t *since,
    float *out, uint32_t *place, uint64_t *version);

/* May the partition's values of this step be shown? */
enum shard_answer part_may_show(struct shard *s, struct part *p, uint64_t step);

struct part *shard_part(struct shard *s, uint16_t table, uint32_t part);         /* or NULL */
/* fn for every partition that has, or had, a place here, with its lock held and
 * no other, until it says no; then false. */
typedef bool part_fn(struct shard *s, struct part *p, void *ctx);
bool shard_each(struct shard *s, part_fn *fn, void *ctx);

/* snap.c; the partition's lock is held.  Before an update for a step (in ssp and
 * asp: any): keep what a checkpoint wants. */
void snap_before_update(struct shard *s, struct part *p, uint64_t step);
void snap_drop(struct part *p);

/* Initial values: a function of table, seed and place alone. */
void init_fill(const struct table *t, uint64_t first, size_t n, float *out);
/* The same for many rows: what depends on the table alone is reckoned once. */
uint64_t init_base(const struct table *t);
void init_fill_by(const struct table *t, uint64_t base, uint64_t first, size_t n, float *out);
uint64_t init_row_place(const struct table *t, uint64_t id);

#endif
