#ifndef SHARD_SHARD_H
#define SHARD_SHARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "coord/layout.h"
#include "optim/optim.h"
#include "optim/schedule.h"
#include "sync/receipt.h"
#include "sync/robust.h"
#include "sync/sync.h"
#include "wire/sums.h"

/* What one server holds: partitions of tables, each with its own lock, and
 * the gate (clocks, members) that says when a push is taken and a pull is
 * answered.  All calls may come from any thread.
 *
 * Copies: pushes are taken by the head of a partition's chain; what it makes of
 * them (in bsp the sum of a step, else each push) goes on to the next copy, in
 * order, and stays with the sender until the next has said that it and all
 * after it have it.  Only then is it safe: receipts and pulls (of the chain's
 * last) tell of nothing else.
 *
 * Locks: a partition's lock, then the gate's; never the other way, never two
 * partitions at once. */
struct shard;
struct ckpt_reader;

#define SHARD_TABLES 65536
#define SHARD_OUTSIDE UINT32_MAX        /* the slot of a peer outside the job */
#define SHARD_UPSTREAM (NO_SERVER - 1)  /* of a relay: where all that it has summed goes */

struct shard_config {
	unsigned self;                  /* this server's number in the layout */
	/* Mode and update rule that the job begins with, and the number of these settings. */
	uint32_t settings;
	struct sync_mode mode;
	bool deterministic;
	bool reduced;                   /* its dense tables are (mean.h) */
	struct robust robust;           /* how bsp sums dense tables; there are no others then */
	bool watched;                   /* look for outliers (watch.h) among what robust compares */
	unsigned slots;                 /* that there may be: room for them is booked */
	bool jobless;                   /* no steps are counted: to rows that expire each update is one */
	bool deltas;                    /* pulls may ask for what has changed since a version */
	const struct optim_rule *rule;
	struct optim_hyper hyper;       /* lr before the schedule */
	struct schedule schedule;
	const char *first;              /* shard_begin_with */
	/* The partitions of its tables begin as they are there, at its step.  NULL:
	 * with first values.  Borrowed until shard_begun. */
	const struct ckpt_reader *restore;
	bool read_only;                 /* nothing is ever applied: of `restore` the parameters are wanted alone */
	/* Bytes that the partitions may take, 0: any number.  What they may ever need is
	 * booked when they come; sparse rows, which come later, are refused beyond it.  Of a
	 * relay: that the rows may take which it keeps for who pulls, and nothing else. */
	uint64_t mem_limit;
	/* Of a relay: it makes no updates.  Sums go to SHARD_UPSTREAM, values come from
	 * there; it knows the slots that it was given alone. */
	bool relay;
	/* Something that somebody may wait for has changed.  Called without
	 * locks held. */
	void (*wake)(void *ctx);
	/* The partition has something for another server: shard_send.  Called with
	 * the partition's lock held.  NULL: this server is alone. */
	void (*forward)(void *ctx, uint16_t server, uint16_t table, uint32_t part);
	/* Called between partitions by what takes long (shard_install).  NULL: not wanted. */
	void (*alive)(void *ctx);
	void *ctx;
};

/* Settings that hold from a step on. */
struct regime {
	uint64_t step;
	uint32_t number;                /* grows */
	struct sync_mode mode;
	const struct optim_rule *rule;
	struct optim_hyper hyper;       /* lr before the schedule */
	struct schedule schedule;
};

enum err_code shard_new(const struct shard_config *cfg, struct shard **out, struct err *e);
void shard_free(struct shard *s);

/* Take the places in the chains that the layout gives to this server: make the
 * partitions of new tables, expect copies of those it joins, give up those that
 * it has left.  process: the servers' incarnations, by number (NULL: this one is
 * alone).  One caller at a time. */
enum err_code shard_install(struct shard *s, const struct layout *l, const uint64_t *process, struct err *e);

/* All partitions that there were to begin with are here: `restore` may go. */
void shard_begun(struct shard *s);
/* Before the first shard_install: the safetensors file that tables with TABLE_FILE begin with.  The path stays as
 * long as the shard. */
void shard_begin_with(struct shard *s, const char *path);

/* ---- members and clocks ------------------------------------------------ */

enum member_state {
	/* It takes part from step `at` on; one that is taken over keeps its clock when that is
	 * greater. */
	MEMBER_ACTIVE,
	/* The same, but it has said, here or elsewhere, that it is done. */
	MEMBER_DONE,
	/* Nobody waits for it any more; pushes of any incarnation are fenced.  From step `at` on
	 * all servers know that it takes no part. */
	MEMBER_GONE,
};
struct member {
	uint32_t slot;
	enum member_state state;
	uint64_t incarnation, at;
	/* Its pushes of these steps are refused: from, and up to this one.  Both 0: of none. */
	uint64_t barred, barred_until;
};
/* All that is new together: a step that one of them is at is not complete before it, whoever
 * of the others is beyond. */
void shard_take_members(struct shard *s, const struct member *m, size_t n);
/* Is it the one that has the slot? */
bool shard_holds(struct shard *s, uint32_t slot, uint64_t incarnation);

/* Vote on a change at `step`: fences the slot's present holder, and on a yes
 * takes nothing of `step` and later until shard_decided. */
struct shard_vote {
	bool yes;
	uint64_t frontier, clock;
};
/* slot SHARD_OUTSIDE: it is about no slot. */
struct shard_vote shard_vote(struct shard *s, uint32_t slot, uint64_t incarnation, uint64_t step, bool resume);
void shard_decided(struct shard *s);
/* What was decided so: pushes of the step and later go by it, in bsp to the step; another
 * mode begins when all steps before are done by all.  To be told before shard_decided, in
 * order; what is known is passed over. */
void shard_regime(struct shard *s, const struct regime *r);
/* Would its state have room?  ERR_CONFIG, with a sentence about mem_limit. */
enum err_code shard_fits(struct shard *s, const struct regime *r, struct err *e);
/* The same of the partitions of a table from `first` on, as its runs deal them out; and in the
 * memory of this host, where so many servers find room for as much. */
enum err_code shard_fits_table(struct shard *s, const struct table *t, uint32_t first, uint64_t sharing, struct err *e);

enum shard_answer {
	SHARD_OK,
	SHARD_HOLD,                     /* not now: try again after wake */
	SHARD_FENCED,                   /* of an older incarnation */
	SHARD_BAD,                      /* no such partition, or malformed */
	SHARD_ELSEWHERE,                /* not this server's part in the chain, now */
};

/* The slot says of `step` that it pushes, or has pushed, to these partitions:
 * the step is not closed for them before that has come.  To be told before its
 * CLOCK. */
void shard_owe(struct shard *s, uint32_t slot, uint64_t incarnation, uint64_t step, uint16_t table, uint32_t first,
    uint32_t count);
/* To these it pushes another way, whatever it said before.  True: something was waited for;
 * then shard_settle. */
bool shard_disown(struct shard *s, uint32_t slot, uint64_t incarnation, uint64_t step, uint16_t table, uint32_t first,
    uint32_t count);
/* The slot has completed `step`. */
enum shard_answer shard_clock(struct shard *s, uint32_t slot, uint64_t incarnation, uint64_t step, uint32_t examples);
enum shard_answer shard_done(struct shard *s, uint32_t slot, uint64_t incarnation);
bool shard_may_pull(struct shard *s, uint64_t step);
/* The same in bsp for who is content with each partition by itself: shard_pull says
 * which are as far. */
bool shard_may_prefetch(struct shard *s, uint64_t step);
/* Has every slot completed the steps before?  Who takes part in it is settled then. */
bool shard_may_tell(struct shard *s, uint64_t step);
/* bsp: steps whose update is made; else UINT64_MAX, as receipts never wait. */
uint64_t shard_closed(struct shard *s);
/* Steps that all have completed, for display. */
uint64_t shard_step(struct shard *s);

/* ---- data --------------------------------------------------------------- */

struct push {
	uint32_t slot;                  /* or SHARD_OUTSIDE: applied at once, in any mode */
	uint64_t incarnation, step;
	uint64_t pulled;                /* version that the gradient was computed from */
	uint16_t table, codec;
	uint32_t part, examples;
	const uint8_t *payload;
	size_t len;
	uint32_t nrows;                 /* sparse: row ids, then their encoded floats in payload */
	const uint8_t *ids;             /* u64 little-endian, any alignment */
};

struct receipt {
	uint16_t table;
	uint8_t status;
	uint32_t part, staleness;
	uint64_t step, version;
	uint64_t safe_steps, safe_version;      /* counts when shard_is_safe says so */
};

/* Take a push of one partition, whole.  The receipt counts when it is safe. */
enum shard_answer shard_push(struct shard *s, const struct push *p, struct receipt *r);
uint64_t shard_version(struct shard *s, uint16_t table, uint32_t part);
/* Have all copies that count the steps below `steps` and the updates up to
 * `version`? */
bool shard_is_safe(struct shard *s, uint16_t table, uint32_t part, uint64_t steps, uint64_t version);
/* It is elsewhere now, and nothing can be promised about it any more. */
bool shard_has_left(struct shard *s, uint16_t table, uint32_t part);
/* How many copies that is, of the present layout. */
unsigned shard_copies(struct shard *s, uint16_t table, uint32_t part);

/* Copy a dense partition (table_part_elements floats).  step: the puller's, or
 * SYNC_NEVER for what is there now. */
enum shard_answer shard_pull(struct shard *s, uint16_t table, uint32_t part, uint64_t step, float *out, uint64_t *version);
/* Would it be copied?  And, of what the update rule keeps, its vector k (from 1). */
enum shard_answer shard_shows(struct shard *s, uint16_t table, uint32_t part, uint64_t step, uint64_t *version);
enum shard_answer shard_pull_state(struct shard *s, uint16_t table, uint32_t part, uint64_t step, uint64_t k, float *out,
    uint64_t *version);
/* The same, but only what has changed since that version: its places, ascending, and
 * values; *n of them.  *n SIZE_MAX: they are more than `most`, or it is not known. */
enum shard_answer shard_pull_changed(struct shard *s, uint16_t table, uint32_t part, uint64_t step, uint64_t since,
    size_t most, uint32_t *place, float *out, size_t *n, uint64_t *version);
/* Rows in the order of ids (n * cols floats); a row that is not there yet has
 * its initial value. */
enum shard_answer shard_pull_rows(struct shard *s, uint16_t table, uint32_t part, uint64_t step, const uint8_t *ids,
    uint32_t n, float *out, uint64_t *version);
/* The same of who has them as of versions (codec/since.h): place, room for n, gets those
 * of them, by their numbers, that may have changed since; *k of them. */
enum shard_answer shard_pull_changed_rows(struct shard *s, uint16_t table, uint32_t part, uint64_t step, const uint8_t *ids,
    uint32_t n, const uint64_t *since, float *out, uint32_t *place, uint32_t *k, uint64_t *version);
/* Rows of a sparse partition as they are now, up to n with ids above `after` (or from the first when `begin`), in
 * ascending order: ids into ids, floats into out (NULL: ids alone). */
struct scan {
	bool begin;
	uint64_t after;
	/* Those alone that were updated at this step or later; of a table whose policy notes it. */
	bool changed;
	uint64_t since;
	uint8_t *ids;
	float *out;
	/* n: room, then what was copied.  Are there others? */
	uint32_t n;
	bool more;
	uint64_t version;
	uint64_t step;                  /* what comes from now on is of this step or later */
	uint64_t removed;               /* the highest step when some went, plus 1; 0: never */
};
/* SHARD_BAD: what has changed is not known. */
enum shard_answer shard_scan(struct shard *s, uint16_t table, uint32_t part, struct scan *x);

const struct table *shard_table(struct shard *s, uint16_t table);       /* NULL when unknown here */

/* ---- assign.c: values from elsewhere ------------------------------------------------
 * Of a read-only server, in place of pushes: parameters as another cluster has them. */

/* A dense partition's, whole. */
enum shard_answer shard_assign(struct shard *s, uint16_t table, uint32_t part, const float *w);
/* Of n rows of a partition (ids: u64 little-endian, any alignment), which are made where they are not.  SHARD_BAD: there is no
 * room. */
enum shard_answer shard_assign_rows(struct shard *s, uint16_t table, uint32_t part, const uint8_t *ids, uint32_t n, const float *w);
/* There are no others than these, ascending. */
enum shard_answer shard_keep_rows(struct shard *s, uint16_t table, uint32_t part, const uint64_t *ids, size_t n);

/* ---- relays -------------------------------------------------------------------------
 * A relay sums the pushes of the slots that it was given.  In bsp only, without
 * backup slots, and not deterministic. */

/* From now on the process `relay` (0: none) speaks for the slot's holder of this
 * incarnation.  One caller at a time, before the epoch that this holds in is told. */
void shard_give(struct shard *s, uint32_t slot, uint64_t relay, uint64_t incarnation);
/* Does it?  SHARD_HOLD: it does, and that holder is not in yet; SHARD_FENCED: no. */
enum shard_answer shard_speaks(struct shard *s, uint64_t relay, uint32_t slot, uint64_t incarnation);

struct sum {
	uint64_t relay, step;           /* relay: the incarnation of who sends it */
	uint16_t table;
	uint32_t part;
	struct sum_body body;
};
/* Take the pushes of all that are in it.  The receipt says merged, or duplicate (all
 * have been taken before), or split: nothing of it was taken, as some have been, or
 * may not be, or as it has values that cannot be summed. */
enum shard_answer shard_push_sum(struct shard *s, const struct sum *sum, struct receipt *r);

/* Of a relay's own shard: what became of the partition's oldest sum (shard_send hands
 * them out, as copies of the kind COPY_SUM whose head and body are as they go out).
 * After some of these: shard_settle. */
void shard_summed(struct shard *s, uint16_t table, uint32_t part, uint64_t seq, enum push_status status);
/* Is no sum of this step to come that has the slot's push?  It has been answered, whatever
 * the answer, or the step is closed here without that push. */
bool shard_goes_alone(struct shard *s, uint16_t table, uint32_t part, uint32_t slot, uint64_t step);
/* Another number each time this has come to be so of what may have been told otherwise;
 * forward() is called then. */
uint64_t shard_alone(struct shard *s);
/* What a sender of this step is told, to whom `status` was promised: that, or split. */
enum push_status shard_outcome(struct shard *s, uint16_t table, uint32_t part, uint64_t step, enum push_status status);
/* Values of a step have come: a dense partition's, or those of n rows. */
void shard_fetched(struct shard *s, uint16_t table, uint32_t part, uint64_t step, const float *w, uint64_t version);
void shard_fetched_rows(struct shard *s, uint16_t table, uint32_t part, uint64_t step, const uint64_t *ids, uint32_t n,
    const float *w, uint64_t version);
struct shard_asker {
	uint64_t step, epoch;
};
/* Which of these rows are not here for this step, and have not been asked for in this epoch?
 * They count as asked for; out: room for n; *k: how many.  What was kept of steps before
 * is dropped.  False: with them the step's rows would be more than mem_limit; none of them
 * is asked for. */
bool shard_lacks(struct shard *s, uint16_t table, uint32_t part, const struct shard_asker *by, const uint8_t *ids, uint32_t n,
    uint64_t *out, uint32_t *k);

/* ---- copies ---------------------------------------------------------------------- */

enum copy_kind { COPY_SUM = 1, COPY_PUSH, COPY_STEP, COPY_STATE };

/* What goes from one copy to the next: head (a few numbers), then body. */
struct copy {
	struct copy *next;
	enum copy_kind kind;
	uint16_t table, codec;
	uint32_t part;
	uint64_t step, version, seq;    /* seq counts within the partition, here */
	uint64_t session;               /* that it was last sent on; 0: none */
	uint8_t *head, *body;
	size_t nhead, nbody;
};

/* Hand what the partition has for `server` and has not yet sent on `session` to
 * put(), in order, until that says no.  The partition's lock is held meanwhile. */
void shard_send(struct shard *s, uint16_t server, uint64_t session, uint16_t table, uint32_t part,
    bool (*put)(void *ctx, const struct copy *c), void *ctx);
/* `server` has everything of the partition up to seq.  After some of these:
 * shard_settle, which does what has waited for them. */
void shard_settle(struct shard *s);
void shard_sent(struct shard *s, uint16_t server, uint16_t table, uint32_t part, uint64_t seq);
/* A new session: forward() is called for all partitions with something for it. */
void shard_resend(struct shard *s, uint16_t server);

/* Take what another copy sends (len bytes, head and body).  steps and version:
 * when shard_is_safe says yes to them, this copy and those after it have it. */
enum shard_answer shard_copy(struct shard *s, const struct copy *c, const uint8_t *p, size_t len, uint64_t *steps,
    uint64_t *version);

/* Give the server that is to join a copy, of one partition more that has not
 * yet begun; false when there is none.  Its state is sent, and then what changes. */
bool shard_feed(struct shard *s, uint16_t server);
/* Partitions that `server` is to be given by us, and those that are as far. */
void shard_fed(struct shard *s, uint16_t server, uint64_t *all, uint64_t *begun, uint64_t *done);

/* ---- checkpoints -------------------------------------------------------------------
 * One at a time, by one thread; any other may end it, as shard_install does.  The
 * partitions of which this server is the last copy, in bsp as they are before step
 * `step`, else as they are. */

/* False when some partition has gone beyond the step already: *at is the step of the one that is furthest.  Afterwards, with shard_snap_marks: of partitions that
 * were taken whole with the mark `base`, and of which it is known, only rows that were updated since are taken. */
bool shard_snap_begin(struct shard *s, uint64_t step, uint64_t *at);
/* Before shard_snap_begin; base 0: all are taken whole, and count as taken with this mark.  Both 0: they do not. */
void shard_snap_marks(struct shard *s, uint64_t mark, uint64_t base);
/* Is the last one that was begun of this step (in ssp and asp: is one being taken)? */
bool shard_snapping(struct shard *s, uint64_t step);
/* Is it worth while to call shard_snap_take again? */
bool shard_snap_due(struct shard *s);
/* SHARD_OK: all is there; SHARD_HOLD: after some wake; SHARD_ELSEWHERE: it was
 * ended; SHARD_BAD: no memory. */
enum shard_answer shard_snap_take(struct shard *s);
/* Ends it, and makes what was taken the caller's, for shard_snap_release; false,
 * and nothing, when it was ended before. */
struct ckpt_part;
bool shard_snap_parts(struct shard *s, struct ckpt_part **out, size_t *n);
void shard_snap_release(struct ckpt_part *parts, size_t n);
void shard_snap_clocks(struct shard *s, void (*fn)(void *ctx, uint32_t slot, uint64_t clock, bool active), void *ctx);
void shard_snap_end(struct shard *s);

struct shard_stats {
	uint64_t status[PUSH_SPLIT + 1];
	uint64_t nonfinite;             /* pushes that were refused for that */
	uint64_t pulls, parameters, parameter_bytes, state_bytes, rows, closed;
	uint64_t unsent;                /* changes that the next copies have not said they have */
};
void shard_stats(struct shard *s, struct shard_stats *out);
/* Of one sparse table, the partitions of which this server is the head. */
enum life_counter {
#define LIFE(name) LIFE_##name,
#include "shard/life.def"
#undef LIFE
	LIFE_COUNTS
};
struct table_stats {
	uint64_t rows, bytes;           /* bytes: with their state, index, and counts of ids */
	uint64_t count[LIFE_COUNTS];    /* where it has a policy; they go along in copies and checkpoints */
	bool counted;                   /* it has */
	uint64_t wide;                  /* of its rows; all where it does not widen them */
	bool widens;
};
/* False: there is none of that number, or it was dropped. */
bool shard_table_stats(struct shard *s, uint16_t table, struct table_stats *out);
extern const char *const life_counter_name[LIFE_COUNTS];
/* How much work pushes to each partition of which this is the head make, in bytes a
 * step over the last minute or so: all servers' steps are the same, whenever they
 * look.  What was not measured for some steps yet is left out.  One caller, again and
 * again; the last time was so many seconds and completed steps ago. */
typedef void shard_heat_fn(void *ctx, uint16_t table, uint32_t part, double heat);
void shard_heat(struct shard *s, double seconds, uint64_t steps, shard_heat_fn *fn, void *ctx);
/* The slots whose pushes were refused, and how many of them: values that are not finite or out of
 * bounds, or rows that there is no room for. */
void shard_refusals(struct shard *s, void (*fn)(void *ctx, uint32_t slot, uint64_t n), void *ctx);
/* The slots whose gradients are outliers (watch.h); returns elements of a step that were compared. */
struct suspect;
uint64_t shard_suspects(struct shard *s, void (*fn)(void *ctx, const struct suspect *x), void *ctx);
/* Bytes that the partitions may take. */
struct shard_memory {
	uint64_t tables;                /* parameters, and what the update rule keeps of them; rows as there are now */
	uint64_t beside;                /* sums, previous versions, times of changes, books: with so many slots at most */
	uint64_t parts;                 /* partitions */
};
struct shard_memory shard_memory(struct shard *s, uint64_t slots);
/* mem_limit: bytes that are booked; was there no room for new rows? */
uint64_t shard_booked(struct shard *s);
bool shard_is_full(struct shard *s);
struct hist;
const struct hist *shard_staleness(const struct shard *s);
const struct hist *shard_apply_time(const struct shard *s);    /* nanoseconds */

#endif
