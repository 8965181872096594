/* SPDX-License-Identifier: ISC */
#include "shard/row_policy_state.h"

#include "core/endian.h"
#include "core/mem.h"
#include "core/rng.h"
#include "math/copy.h"

/* Rows are searched for expired ones every 1 / SEARCHES of their time to live. */
#define SEARCHES 8
/* An eviction makes room for 1 / ROOM of the rows that there may be. */
#define ROOM              16
#define SKETCH_LEAST      (UINT64_C(256) << 10)
#define SKETCH_MOST_BYTES (UINT64_C(1) << 30)

struct row_policy_state *row_policy_state_new(const struct table *t, bool updates)
{
	struct row_policy_state *state;

	if (row_policy_keeps_all(&t->policy))
		return NULL;
	state = mem_alloc(sizeof *state);
	state->policy = &t->policy;
	state->by_updates = updates;
	state->clock = state->searched = t->since;
	state->halvings = t->policy.decay ? t->since / t->policy.decay : 0;
	return state;
}

void row_policy_state_free(struct row_policy_state *state)
{
	if (!state)
		return;
	row_sketch_release(&state->sketch);
	row_changes_forget(&state->changes);
	free(state);
}

size_t row_policy_state_bytes(const struct row_policy_state *state)
{
	return state ? sizeof *state + row_sketch_bytes(&state->sketch) +
	        state->changes.cap * sizeof *state->changes.at
	             : 0;
}

/* ---- admission ---- */

/* Decides by a coin that is the same in all replicas and another one in each update. */
static bool is_admitted_by_chance(const struct part *p, uint64_t id)
{
	uint64_t coin = rng_mix(rng_mix(id) ^ rng_mix(p->version + p->table->seed));

	return (double)(coin >> 11) * 0x1p-53 < p->sparse.policy_state->policy->chance;
}

/* Unless the policy says how much: 16 bytes for each row, because there are more ids than rows. */
uint64_t row_policy_state_sketch_bytes(const struct table *t)
{
	uint64_t bytes = t->rows < SKETCH_MOST_BYTES / 16 ? t->rows * 16 : SKETCH_MOST_BYTES;

	if (!t->policy.admit)
		return 0;
	if (t->policy.sketch)
		return t->policy.sketch / t->nparts;
	return (bytes < SKETCH_LEAST ? SKETCH_LEAST : bytes) / t->nparts;
}

/* Counts the id, and decides whether it gets a row now. */
static bool admits_id(struct part *p, uint64_t id)
{
	struct row_policy_state *state = p->sparse.policy_state;
	const struct row_policy *policy = state->policy;

	if (policy->chance > 0)
		return is_admitted_by_chance(p, id);
	return !policy->admit ||
	    row_sketch_add(&state->sketch, id, row_policy_state_sketch_bytes(p->table)) >=
	    policy->admit;
}

uint32_t row_policy_state_choose(struct part *p, const uint8_t *ids, uint32_t n, uint32_t *place)
{
	uint64_t found;
	uint32_t k = 0;

	mutex_assert_held(&p->lock);
	p->sparse.policy_state->count[ROW_POLICY_offered] += n;
	if (!p->sparse.policy_state->policy->admit && p->sparse.policy_state->policy->chance <= 0)
		return n;
	found = p->sparse.store->ops->find_many(p->sparse.store, ids, n);
	for (uint32_t i = 0; i < n; i++)
		if (found >> i & 1 || admits_id(p, get_le64(ids + (size_t)i * 8)))
			place[k++] = i;
	p->sparse.policy_state->count[ROW_POLICY_refused] += n - k;
	return k;
}

/* Steps since the row's last update. A row stores the lower half of the step, so its age is at most
 * 2^32 - 1. */
static uint32_t row_age(const struct part *p, const void *row)
{
	return (uint32_t)p->sparse.policy_state->clock -
	    row_layout_get(&p->sparse.layout, row, ROW_SEEN);
}

uint64_t row_policy_state_last_step(const struct part *p, const void *row)
{
	mutex_assert_held(&p->lock);
	return p->sparse.policy_state->clock - row_age(p, row);
}

void row_policy_state_set_last_step(const struct part *p, void *row, uint64_t step)
{
	mutex_assert_held(&p->lock);
	row_layout_set(&p->sparse.layout, row, ROW_SEEN, (uint32_t)step);
}

void row_policy_state_note_row(struct part *p, uint64_t id, void *row)
{
	struct row_policy_state *state = p->sparse.policy_state;
	uint32_t now = (uint32_t)state->clock;

	mutex_assert_held(&p->lock);
	/* A new row has 0 there, which is also the lower half of step 0. */
	if (row_layout_get(&p->sparse.layout, row, ROW_SEEN) == now && now)
		return;
	row_layout_set(&p->sparse.layout, row, ROW_SEEN, now);
	if (state->changes.on)
		row_changes_note(&state->changes, id, state->clock,
		    row_changes_most(p->sparse.store->ops->count(p->sparse.store)));
}

void row_policy_state_note_update(struct part *p, const uint8_t *ids, void *const *row, uint32_t n,
    uint64_t made)
{
	mutex_assert_held(&p->lock);
	for (uint32_t i = 0; row_layout_has(&p->sparse.layout, ROW_SEEN) && i < n; i++)
		row_policy_state_note_row(p, get_le64(ids + (size_t)i * 8), row[i]);
	p->sparse.policy_state->count[ROW_POLICY_admitted] += (unsigned)__builtin_popcountll(made);
}

/* ---- expiry and eviction ---- */

/* Which rows are removed. */
struct leaving {
	struct part *p;
	uint32_t age; /* rows of a greater age are removed */
	/* Rows of exactly this age are removed when they have this rank or a greater one. */
	uint64_t rank;
	size_t most_changes; /* row_changes_most before any of them is removed */
	bool fits;
};

/* An order of rows of the same age that does not follow the ids. */
static uint64_t row_eviction_rank(uint64_t id)
{
	return rng_mix(~id);
}

/* For row_store_ops.remove: does the row stay? Saves the values of a row that is removed, where
 * pulls of the step before may ask for them. */
static bool row_stays(void *ctx, uint64_t id, const void *row)
{
	struct leaving *x = ctx;
	struct part *p = x->p;
	uint32_t age = row_age(p, row);
	bool made;
	float *old;

	if (age < x->age || (age == x->age && row_eviction_rank(id) < x->rank))
		return true;
	old = p->sparse.prev ? rows_put(p->sparse.prev, id, &made) : NULL;
	if (old && made)
		copy_floats(old, row, p->table->cols);
	x->fits &= old || !p->sparse.prev;
	row_changes_note(&p->sparse.policy_state->changes, id, p->sparse.policy_state->clock,
	    x->most_changes);
	return false;
}

/* Removes rows and counts them as `why`. False: no memory for the former values. */
static bool drop_rows(struct part *p, uint32_t age, uint64_t rank, enum row_policy_counter why)
{
	struct leaving x = { p, age, rank,
		row_changes_most(p->sparse.store->ops->count(p->sparse.store)), true };
	size_t n = p->sparse.store->ops->remove(p->sparse.store, row_stays, &x);

	p->sparse.policy_state->count[why] += n;
	if (n) {
		p->sparse.policy_state->removed = p->sparse.policy_state->clock + 1;
		p->sparse.policy_state->removed_version = p->version + 1;
	}
	return x.fits;
}

/* Removes the rows that were not updated for policy.expire steps. It looks only now and then, so a
 * row may stay a little longer. */
static bool expire_rows(struct part *p)
{
	struct row_policy_state *state = p->sparse.policy_state;
	uint64_t expire = state->policy->expire;

	if (!expire || state->clock < state->searched + (expire + SEARCHES - 1) / SEARCHES)
		return true;
	state->searched = state->clock;
	return drop_rows(p, (uint32_t)expire, 0, ROW_POLICY_expired);
}

struct order {
	uint32_t age;
	uint64_t rank;
};

static int compare_oldest_first(const void *a, const void *b)
{
	const struct order *x = a, *y = b;

	if (x->age != y->age)
		return x->age > y->age ? -1 : 1;
	return (x->rank < y->rank) - (x->rank > y->rank);
}

/* Bytes of a row by its size alone: equal in all replicas. */
static uint64_t bytes_of_row(const struct part *p)
{
	return p->sparse.store->ops->row_bytes(p->sparse.store, &p->sparse.layout);
}

/* The bytes that an eviction leaves: the limit less 1 / ROOM of it, in whole rows. */
static uint64_t eviction_goal(const struct part *p, uint64_t limit)
{
	uint64_t each = bytes_of_row(p);

	return limit - limit / each / ROOM * each;
}

/* Removes the rows that were not updated for the longest time, when all take more than
 * policy.memory. */
static bool evict_rows(struct part *p)
{
	uint64_t limit = p->sparse.policy_state->policy->memory / p->table->nparts,
	         each = bytes_of_row(p), bytes, goal, at = 0, ids[ROWS_BLOCK];
	struct row_store *store = p->sparse.store;
	size_t n = store->ops->count(store), listed = 0, k = 0;
	struct order *order, last;
	void *row[ROWS_BLOCK];
	uint32_t some;

	bytes = n * each;

	if (!p->sparse.policy_state->policy->memory || bytes <= limit || n < 2)
		return true;
	goal = eviction_goal(p, limit);
	order = mem_try_array(n, sizeof *order);
	if (!order)
		return false;
	while ((some = store->ops->next(store, &at, ROWS_BLOCK, ids, row)) > 0)
		for (uint32_t i = 0; i < some; i++)
			order[listed++] = (struct order){ row_age(p, row[i]),
				row_eviction_rank(ids[i]) };
	qsort(order, n, sizeof *order, compare_oldest_first);
	for (; bytes > goal && k < n - 1; k++)
		bytes -= each;
	last = order[k - 1];
	free(order);
	return drop_rows(p, last.age, last.rank, ROW_POLICY_evicted);
}

/* Halves the counts of ids once for every policy.decay steps that have passed. */
static void decay_sketch(struct row_policy_state *state)
{
	uint64_t due = state->policy->decay ? state->clock / state->policy->decay : 0,
	         n = due - state->halvings;

	state->halvings = due;
	/* After 8 halvings all counts are 0. */
	for (n = n < 8 ? n : 8; n; n--)
		row_sketch_halve(&state->sketch);
}

bool row_policy_state_end_update(struct part *p)
{
	struct row_policy_state *state = p->sparse.policy_state;

	mutex_assert_held(&p->lock);
	if (state->by_updates)
		state->clock++;
	decay_sketch(state);
	return expire_rows(p) && evict_rows(p);
}

/* ---- encoding ---- */

#define FIXED (4 + ROW_POLICY_COUNTERS)

size_t row_policy_state_words(const struct row_policy_state *state)
{
	return state ? FIXED + row_sketch_words(&state->sketch) : 0;
}

void row_policy_state_put(const struct row_policy_state *state, uint64_t *out)
{
	const uint64_t first[] = { state->clock, state->halvings, state->searched, state->removed };

	memcpy(out, first, sizeof first);
	memcpy(out + 4, state->count, sizeof state->count);
	row_sketch_put(&state->sketch, out + FIXED);
}

bool row_policy_state_get(struct row_policy_state *state, const uint64_t *in, size_t n)
{
	if (n <= FIXED)
		return false;
	state->clock = in[0];
	state->halvings = in[1];
	state->searched = in[2];
	state->removed = in[3];
	memcpy(state->count, in + 4, sizeof state->count);
	return row_sketch_get(&state->sketch, in + FIXED, n - FIXED) == n - FIXED;
}
