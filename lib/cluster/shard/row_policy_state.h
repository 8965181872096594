/* SPDX-License-Identifier: ISC */
#ifndef SHARD_ROW_POLICY_STATE_H
#define SHARD_ROW_POLICY_STATE_H

#include "layout/row_policy.h"
#include "shard/part.h"
#include "shard/row_changes.h"
#include "shard/row_sketch.h"

/* The row policy of one sparse partition decides which ids get a row (admit), and how long a row
 * stays (expire by age, evict by memory). Its decisions depend only on the sequence of updates and
 * the steps that they belong to, so all replicas make the same ones. State transfers and
 * checkpoints include its state. All functions are called with the partition's lock held.
 *
 * The states of a row: unknown --admitted--> present --expired or evicted--> unknown. */

struct row_policy_state {
	const struct row_policy *policy; /* of the table */
	bool by_updates;                 /* there are no steps: the clock counts updates instead */
	uint64_t clock;                  /* the highest step of an update */
	uint64_t halvings;               /* how often the counts of ids were halved so far */
	/* The clock when rows were last searched for expired ones. */
	uint64_t searched;
	/* The clock when rows were last removed, plus 1; 0: never. */
	uint64_t removed;
	/* The version made by that removal; not sent to other replicas. */
	uint64_t removed_version;
	uint64_t count[ROW_POLICY_COUNTERS];
	struct row_sketch sketch;
	struct row_changes changes; /* not sent to other replicas */
};

/* Makes the state for a partition of the table. NULL: the table has no policy. updates: there are
 * no steps. */
struct row_policy_state *row_policy_state_new(const struct table *t, bool updates);
/* Frees the state with its counts of ids. NULL is fine. */
void row_policy_state_free(struct row_policy_state *state);
/* Bytes of the state, with the counts of ids; 0 for NULL. */
size_t row_policy_state_bytes(const struct row_policy_state *state);
/* Bytes that the counts of ids will take in each of the table's partitions. */
uint64_t row_policy_state_sketch_bytes(const struct table *t);

/* Moves the clock to the step of the update under way. Called before the update. */
static inline void row_policy_state_set_step(struct part *p, uint64_t step)
{
	if (p->sparse.policy_state && !p->sparse.policy_state->by_updates &&
	    step > p->sparse.policy_state->clock)
		p->sparse.policy_state->clock = step;
}

/* Which of n ids (at most ROWS_BLOCK) may be updated, because they have a row or are admitted now?
 * Returns how many, and writes their numbers to place when it is not all. */
uint32_t row_policy_state_choose(struct part *p, const uint8_t *ids, uint32_t n, uint32_t *place);
/* Notes the update of n rows (ids: u64 little-endian, any alignment); bit i of `made` says that row
 * i is new. */
void row_policy_state_note_update(struct part *p, const uint8_t *ids, void *const *row, uint32_t n,
    uint64_t made);
/* The step at which the row was updated last, and setting it. Only the lower 32 bits are stored,
 * so a row that is older than 2^32 steps looks younger. Only for rows that have the word
 * ROW_SEEN. */
uint64_t row_policy_state_last_step(const struct part *p, const void *row);
/* Notes that the update under way has changed or made the row. */
void row_policy_state_note_row(struct part *p, uint64_t id, void *row);
/* Writes the lower half of `step` to a row that was copied from elsewhere. The partition's clock is
 * left alone. */
void row_policy_state_set_last_step(const struct part *p, void *row, uint64_t step);
/* Ends an update: moves the clock where there are no steps, halves counts, and removes rows that
 * are too old or too many. False: no memory. */
bool row_policy_state_end_update(struct part *p);

/* Encoding of the state as words, for state transfers and checkpoints: their number; writing them;
 * reading n of them, false when they are malformed. */
size_t row_policy_state_words(const struct row_policy_state *state);
/* Writes row_policy_state_words(state) words in the byte order of this host; the caller converts
 * them for the wire. The state is not NULL. */
void row_policy_state_put(const struct row_policy_state *state, uint64_t *out);
/* Overwrites a state that was just made by row_policy_state_new. After false it is half filled and
 * must be freed with its partition. */
bool row_policy_state_get(struct row_policy_state *state, const uint64_t *in, size_t n);

#endif
