/* SPDX-License-Identifier: ISC */
#include "core/mem.h"
#include "math/copy.h"
#include "shard/part.h"
#include "shard/settings_epoch.h"
#include "shard/shard_ops.h"
#include "shard/row_policy_state.h"

/* Scans of sparse partitions: all rows, the rows that changed, or the ids that were removed. */

/* The lowest `most` of the ids that were offered, each once. */
struct lowest_ids {
	uint64_t *id; /* room for 2 * most */
	size_t n, most;
	bool bounded; /* `most` are known: of the others only those below `bound` matter */
	uint64_t bound;
};

/* Puts the ids in ascending order, and drops those beyond the `most` lowest. */
static void sort_lowest(struct lowest_ids *x)
{
	size_t kept = 0;

	qsort(x->id, x->n, sizeof *x->id, rows_by_id);
	for (size_t i = 0; i < x->n && kept < x->most; i++)
		if (!kept || x->id[i] != x->id[kept - 1])
			x->id[kept++] = x->id[i];
	x->n = kept;
	x->bounded = kept == x->most;
	x->bound = x->bounded ? x->id[kept - 1] : 0;
}

static bool may_be_lowest(const struct lowest_ids *x, const struct scan *scan, uint64_t id)
{
	return (scan->begin || id > scan->after) && (!x->bounded || id < x->bound);
}

static void offer_id(struct lowest_ids *x, uint64_t id)
{
	if (x->n == 2 * x->most)
		sort_lowest(x);
	x->id[x->n++] = id;
}

/* Offers all rows, or with x->changed those that changed late enough. */
static void offer_rows(const struct part *p, struct scan *x, struct lowest_ids *lowest)
{
	struct row_store *store = p->sparse.store;
	uint64_t ids[ROWS_BLOCK], at = 0;
	void *row[ROWS_BLOCK];
	uint32_t n;

	while ((n = store->ops->next(store, &at, ROWS_BLOCK, ids, row)) > 0) {
		x->looked_at += n;
		for (uint32_t i = 0; i < n; i++)
			if (may_be_lowest(lowest, x, ids[i]) &&
			    (!x->changed || row_policy_state_last_step(p, row[i]) >= x->since))
				offer_id(lowest, ids[i]);
	}
}

/* Offers the ids of the noted changes that have a row, or with x->gone those that have none. */
static void offer_changes(const struct part *p, struct scan *x, struct lowest_ids *lowest)
{
	uint64_t ids[ROWS_BLOCK], found;
	size_t n, at = 0;
	const struct row_change *change = row_changes_since(&p->sparse.policy_state->changes,
	    x->since, &n);

	x->looked_at += n;
	while (at < n) {
		uint32_t k = 0;

		for (; at < n && k < ROWS_BLOCK; at++)
			if (may_be_lowest(lowest, x, change[at].id))
				ids[k++] = change[at].id;
		found = p->sparse.store->ops->find_many(p->sparse.store, (const uint8_t *)ids, k);
		if (x->gone)
			found = ~found & (k < 64 ? (UINT64_C(1) << k) - 1 : UINT64_MAX);
		for (; found; found &= found - 1)
			offer_id(lowest, ids[__builtin_ctzll(found)]);
	}
}

/* Goes over all rows once to learn the changes since x->since, so that later pieces and later scans
 * need not. There may be too many of them. */
static void learn_changes(struct part *p, struct scan *x)
{
	struct row_store *store = p->sparse.store;
	size_t most = row_changes_most(store->ops->count(store)), k = 0;
	struct row_change *all = mem_array(most, sizeof *all);
	uint64_t ids[ROWS_BLOCK], at = 0;
	void *row[ROWS_BLOCK];
	bool fit = true;
	uint32_t n;

	while (fit && (n = store->ops->next(store, &at, ROWS_BLOCK, ids, row)) > 0) {
		x->looked_at += n;
		for (uint32_t i = 0; fit && i < n; i++) {
			uint64_t step = row_policy_state_last_step(p, row[i]);

			if (step < x->since)
				continue;
			fit = k < most;
			if (fit)
				all[k++] = (struct row_change){ ids[i], step };
		}
	}
	if (fit)
		row_changes_begin(&p->sparse.policy_state->changes, x->since,
		    p->sparse.policy_state->removed, mem_regrow(all, k + 1, sizeof *all), k);
	else
		free(all);
}

/* The first x->n + 1 ids that are wanted, in ascending order, *count of them; the caller frees the
 * array. With x->changed the cost grows with the changes since x->since, if these are noted, and
 * not with all rows. */
static uint64_t *list_wanted_ids(struct part *p, struct scan *x, size_t *count)
{
	size_t all = x->gone ? p->sparse.policy_state->changes.n
	                     : p->sparse.store->ops->count(p->sparse.store);
	struct lowest_ids lowest = { .most = (x->n < all ? x->n : all) + 1 };

	lowest.id = mem_regrow(NULL, 2 * lowest.most, sizeof *lowest.id);
	if (x->changed && !row_changes_reach(&p->sparse.policy_state->changes, x->since))
		learn_changes(p, x);
	if (x->gone && x->forgotten)
		lowest.n = 0;
	else if (x->gone ||
	    (x->changed && row_changes_reach(&p->sparse.policy_state->changes, x->since)))
		offer_changes(p, x, &lowest);
	else
		offer_rows(p, x, &lowest);
	sort_lowest(&lowest);
	*count = lowest.n;
	return lowest.id;
}

/* The step that later updates have at least. Without a job it is the clock of the partition's row
 * policy. */
static uint64_t scan_step(struct shard *s, const struct part *p)
{
	uint64_t step = shard_step(s);

	if (s->cfg.jobless)
		return p->sparse.policy_state ? p->sparse.policy_state->clock : 0;
	return settings_epoch_closes_step(s, p->step) && p->step < step ? p->step : step;
}

/* Answers one piece of a scan, under the partition's lock. It looks at all rows, or at the changes
 * that are noted, and sorts about as many ids as it answers. False: some of the rows with the ids
 * in x->ids, x->n of them, are not in memory. */
static bool copy_scanned_rows(struct shard *s, struct part *p, struct scan *x)
{
	struct row_store *store = p->sparse.store;
	size_t count, cols = p->table->cols;
	uint64_t *all;

	mutex_assert_held(&p->lock);
	x->looked_at = 0;
	x->forgotten = x->gone &&
	    !row_changes_reach_removals(&p->sparse.policy_state->changes, x->since);
	all = list_wanted_ids(p, x, &count);
	x->more = count > x->n;
	if (count < x->n)
		x->n = (uint32_t)count;
	memcpy(x->ids, all, x->n * sizeof *all);
	free(all);
	if (x->out && store->ops->has_present && !store->ops->has_present(store, x->ids, x->n, 0))
		return false;
	for (uint32_t i = 0, n; x->out && i < x->n; i += n) {
		void *row[ROWS_BLOCK];

		n = x->n - i < ROWS_BLOCK ? x->n - i : ROWS_BLOCK;
		store->ops->get_many(store, x->ids + (size_t)i * 8, n, row);
		for (uint32_t k = 0; k < n; k++)
			copy_floats(x->out + (i + k) * cols, row[k], cols);
	}
	x->version = p->version;
	x->step = scan_step(s, p);
	x->removed = p->sparse.policy_state ? p->sparse.policy_state->removed : 0;
	return true;
}

/* The partition's lock is held until the piece is copied. *present: all of its rows are in
 * memory. SHARD_WAIT also if the row store has given up. */
static enum shard_answer scan_piece(struct shard *s, struct part *p, struct scan *x, bool *present)
{
	enum shard_answer a;

	*present = true;
	mutex_lock(&p->lock);
	a = s->ops->may_read(s, p, SYNC_NEVER);
	if (a == SHARD_OK && (x->changed || x->gone) &&
	    !row_layout_has(&p->sparse.layout, ROW_SEEN))
		a = SHARD_BAD;
	if (a == SHARD_OK)
		*present = copy_scanned_rows(s, p, x);
	if (a == SHARD_OK && row_store_has_failed(p->sparse.store))
		a = SHARD_WAIT;
	part_unlock_rows(p);
	return a;
}

enum shard_answer shard_scan(struct shard *s, uint16_t table, uint32_t part, struct scan *x)
{
	struct part *p = shard_part(s, table, part);
	uint32_t most = x->n;
	uint64_t since;
	bool present;
	enum shard_answer a;

	if (!p || !p->table->sparse)
		return p ? SHARD_BAD : SHARD_ELSEWHERE;
	/* Which rows are wanted is known only under the lock. */
	do {
		x->n = most;
		a = scan_piece(s, p, x, &present);
		if (a == SHARD_OK && !present)
			a = p->sparse.store->ops->make_present(p->sparse.store, x->ids, x->n,
			    s->cfg.wake, s->cfg.ctx, &since);
	} while (a == SHARD_OK && !present);
	return a;
}
