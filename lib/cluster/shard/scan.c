/* SPDX-License-Identifier: ISC */
#include "core/endian.h"
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

/* The ids of a window, at most: a few milliseconds of sorting under the partition's lock. */
#define WINDOW_MOST ((size_t)1 << 17)
/* A scan of all rows goes over them this often at most, unless its windows would be larger than
 * WINDOW_MOST. */
#define PASSES 8u

/* How many ids to list at once. */
static size_t size_of_window(const struct scan *x, size_t all)
{
	size_t part = (all + PASSES - 1) / PASSES;

	part = part < WINDOW_MOST ? part : WINDOW_MOST;
	if (!x->window || part < x->n)
		part = x->n;
	return part < all ? part : all;
}

/* Lists the first ids that are wanted, in ascending order. With x->changed the cost grows with the changes
 * since x->since, if these are noted, and not with all rows. */
static void list_window(struct part *p, struct scan *x, struct scan_window *w)
{
	size_t all = x->gone ? p->sparse.policy_state->changes.n
	                     : p->sparse.store->ops->count(p->sparse.store);
	size_t n = size_of_window(x, all);
	struct lowest_ids lowest = { .most = n + 1 };

	free(w->id);
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
	*w = (struct scan_window){ .n = lowest.n < n ? lowest.n : n,
		.last = lowest.n <= n,
		.after = x->after,
		.request = x->request,
		.changed = x->changed,
		.gone = x->gone,
		.since = x->since };
	w->id = mem_regrow(lowest.id, w->n + 1, sizeof *w->id);
}

void scan_window_release(struct scan_window *w)
{
	free(w->id);
	*w = (struct scan_window){ 0 };
}

/* Does the window have the ids that the piece begins with? */
static bool continues(const struct scan_window *w, const struct scan *x)
{
	if (!w->id || w->changed != x->changed || w->gone != x->gone || w->since != x->since)
		return false;
	/* Nothing of a window for the first piece may have been answered: an answer may have been lost. */
	return x->begin ? w->request == x->request && w->at == 0 : x->after == w->after;
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

/* Gets at most ROWS_BLOCK rows. Bit i of the result says that row i exists. */
static uint64_t get_found(struct row_store *store, const uint8_t *ids, uint32_t n, void **row)
{
	uint64_t found = 0;

	store->ops->get_many(store, ids, n, row);
	for (uint32_t i = 0; i < n; i++)
		found |= (uint64_t)(row[i] != NULL) << i;
	return found;
}

/* Copies the rows with the next ids of the window, x->n at most, which exist still (or, with x->gone, are
 * gone still). False: some of the rows are not in memory, and x->ids has the ids. */
static bool copy_from_window(struct part *p, struct scan *x, struct scan_window *w)
{
	struct row_store *store = p->sparse.store;
	size_t cols = p->table->cols, left = w->n - w->at;
	uint32_t n = left < x->n ? (uint32_t)left : x->n, kept = 0;

	memcpy(x->ids, w->id + w->at, n * sizeof *w->id);
	if (x->out && store->ops->has_present && !store->ops->has_present(store, x->ids, n, 0)) {
		x->n = n;
		return false;
	}
	for (uint32_t i = 0, k; i < n; i += k) {
		const uint8_t *ids = x->ids + (size_t)i * 8;
		void *row[ROWS_BLOCK];
		uint64_t found;

		k = n - i < ROWS_BLOCK ? n - i : ROWS_BLOCK;
		found = x->out ? get_found(store, ids, k, row)
		               : store->ops->find_many(store, ids, k);
		for (uint32_t j = 0; j < k; j++) {
			if (!(found >> j & 1) != x->gone)
				continue;
			if (x->out)
				copy_floats(x->out + kept * cols, row[j], cols);
			memmove(x->ids + (size_t)kept++ * 8, ids + (size_t)j * 8, 8);
		}
	}
	w->at += n;
	x->n = kept;
	return true;
}

/* Answers one piece of a scan, under the partition's lock. False: some of the rows with the ids in x->ids,
 * x->n of them, are not in memory. */
static bool copy_scanned_rows(struct shard *s, struct part *p, struct scan *x,
    struct scan_window *w)
{
	struct scan next = *x;
	bool there;

	mutex_assert_held(&p->lock);
	next.looked_at = 0;
	next.forgotten = x->gone &&
	    !row_changes_reach_removals(&p->sparse.policy_state->changes, x->since);
	/* All rows of a window may have gone meanwhile. */
	do {
		if (!continues(w, &next)) {
			list_window(p, &next, w);
			w->version = p->version;
			w->step = scan_step(s, p);
		}
		next.n = x->n;
		there = copy_from_window(p, &next, w);
		next.more = !w->last || w->at < w->n;
		if (there && !next.n && next.more && w->at == w->n) {
			next.begin = false;
			next.after = w->id[w->n - 1];
			scan_window_release(w);
		}
	} while (there && !next.n && next.more);
	if (there && next.n)
		w->after = get_le64(next.ids + (size_t)(next.n - 1) * 8);
	x->n = next.n;
	x->more = next.more;
	x->forgotten = next.forgotten;
	x->looked_at = next.looked_at;
	x->version = w->version;
	x->step = w->step;
	x->removed = p->sparse.policy_state ? p->sparse.policy_state->removed : 0;
	return there;
}

/* The partition's lock is held until the piece is copied. *present: all of its rows are in
 * memory. SHARD_WAIT also if the row store has given up. */
static enum shard_answer scan_piece(struct shard *s, struct part *p, struct scan *x,
    struct scan_window *w, bool *present)
{
	enum shard_answer a;

	*present = true;
	mutex_lock(&p->lock);
	a = s->ops->may_read(s, p, SYNC_NEVER);
	if (a == SHARD_OK && (x->changed || x->gone) &&
	    !row_layout_has(&p->sparse.layout, ROW_SEEN))
		a = SHARD_BAD;
	if (a == SHARD_OK)
		*present = copy_scanned_rows(s, p, x, w);
	if (a == SHARD_OK && row_store_has_failed(p->sparse.store))
		a = SHARD_WAIT;
	part_unlock_rows(p);
	return a;
}

enum shard_answer shard_scan(struct shard *s, uint16_t table, uint32_t part, struct scan *x)
{
	struct part *p = shard_part(s, table, part);
	struct scan_window own = { 0 }, *w = x->window ? x->window : &own;
	uint32_t most = x->n;
	uint64_t since;
	bool present;
	enum shard_answer a;

	if (!p || !p->table->sparse)
		return p ? SHARD_BAD : SHARD_ELSEWHERE;
	/* Which rows are wanted is known only under the lock. */
	do {
		x->n = most;
		a = scan_piece(s, p, x, w, &present);
		if (a == SHARD_OK && !present)
			a = p->sparse.store->ops->make_present(p->sparse.store, x->ids, x->n,
			    s->cfg.wake, s->cfg.ctx, &since);
	} while (a == SHARD_OK && !present);
	scan_window_release(&own);
	return a;
}
