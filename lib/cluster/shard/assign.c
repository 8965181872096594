/* SPDX-License-Identifier: ISC */
#include <stdlib.h>

#include "core/endian.h"
#include "shard/part.h"
#include "shard/row_policy_state.h"

/* The calls of a read replica, which takes over the values of another cluster. */

/* Values compared at a time, so that they stay in the first-level cache. */
#define PIECE 2048u

enum shard_answer shard_assign(struct shard *s, uint16_t table, uint32_t part, const float *w)
{
	struct part *p = shard_part(s, table, part);

	if (!p || p->table->sparse)
		return p ? SHARD_BAD : SHARD_ELSEWHERE;
	mutex_lock(&p->lock);
	part_begin_change(p);
	for (size_t at = 0, n; at < p->n; at += n) {
		n = p->n - at < PIECE ? p->n - at : PIECE;
		if (p->dense.changes)
			change_log_note(p->dense.changes, p->version + 1, at, n, p->dense.w + at,
			    w + at);
		memcpy(p->dense.w + at, w + at, n * sizeof *w);
	}
	part_end_change(p);
	p->version++;
	mutex_unlock(&p->lock);
	return SHARD_OK;
}

/* Each call counts as one update where the row policy counts updates. */
static void begin_update(struct part *p)
{
	if (p->sparse.policy_state && p->sparse.policy_state->by_updates)
		p->sparse.policy_state->clock++;
}

/* Sets one row. */
static void assign_row(struct part *p, uint64_t id, void *row, bool made, const float *w)
{
	size_t bytes = p->table->cols * sizeof *w;
	bool changed = row_layout_has(&p->sparse.layout, ROW_CHANGED) &&
	    (made || memcmp(row, w, bytes));

	memcpy(row, w, bytes);
	if (changed)
		part_row_changed(p, row);
	if (row_layout_has(&p->sparse.layout, ROW_SEEN))
		row_policy_state_note_row(p, id, row);
}

/* Sets the rows of one block and makes missing ones. False: no memory; none of the block is set
 * then. */
static bool assign_block(struct part *p, const uint8_t *ids, uint32_t n, const float *w)
{
	struct row_store *store = p->sparse.store;
	void *row[ROWS_BLOCK];
	uint64_t made;
	bool good;

	part_rows_begin_block(p);
	good = store->ops->make_many(store, ids, n, row, &made);
	for (uint32_t i = 0; good && i < n; i++)
		assign_row(p, get_le64(ids + (size_t)i * 8), row[i], made >> i & 1,
		    w + (size_t)i * p->table->cols);
	if (good)
		row_store_put(store, p->version, ids, n, row);
	return good;
}

enum shard_answer shard_assign_rows(struct shard *s, uint16_t table, uint32_t part,
    const uint8_t *ids, uint32_t n, const float *w)
{
	struct part *p = shard_part(s, table, part);
	struct push room = { .rank = SHARD_OUTSIDE, .nrows = n, .ids = ids };
	enum shard_answer a;
	bool good;

	if (!p || !p->table->sparse)
		return p ? SHARD_BAD : SHARD_ELSEWHERE;
	a = part_lock_rows(s, p, ids, n);
	if (a != SHARD_OK)
		return a;
	good = budget_has_room(p, s, &room);
	if (good)
		begin_update(p);
	for (uint32_t at = 0, k; good && at < n; at += k) {
		k = n - at < ROWS_BLOCK ? n - at : ROWS_BLOCK;
		good = assign_block(p, ids + (size_t)at * 8, k, w + (size_t)at * p->table->cols);
	}
	p->version += good;
	budget_book_rows(p, &s->budget);
	part_unlock_rows(p);
	return good ? SHARD_OK : SHARD_BAD;
}

/* A list of ids, in ascending order. The rows of these ids stay, or they are those that are
 * removed. */
struct listed_ids {
	const uint64_t *ids;
	size_t n;
	bool stay;
	struct row_changes *changes; /* NULL: nothing notes changes */
	size_t most_changes;
	uint64_t step;
};

/* For row_store_ops.remove. */
static bool stays_by_list(void *ctx, uint64_t id, const void *row)
{
	const struct listed_ids *x = ctx;
	bool stays = (x->n && bsearch(&id, x->ids, x->n, sizeof id, rows_by_id)) == x->stay;

	(void)row;
	if (!stays && x->changes)
		row_changes_note(x->changes, id, x->step, x->most_changes);
	return stays;
}

static enum shard_answer remove_by_list(struct shard *s, uint16_t table, uint32_t part,
    const uint64_t *ids, size_t n, bool stay)
{
	struct part *p = shard_part(s, table, part);
	struct listed_ids list = { .ids = ids, .n = n, .stay = stay };

	if (!p || !p->table->sparse)
		return p ? SHARD_BAD : SHARD_ELSEWHERE;
	mutex_lock(&p->lock);
	if (p->sparse.policy_state) {
		list.changes = &p->sparse.policy_state->changes;
		list.most_changes = row_changes_most(p->sparse.store->ops->count(p->sparse.store));
		/* begin_update will move a clock that counts updates. */
		list.step = p->sparse.policy_state->clock + p->sparse.policy_state->by_updates;
	}
	if (p->sparse.store->ops->remove(p->sparse.store, stays_by_list, &list)) {
		begin_update(p);
		p->version++;
		if (p->sparse.policy_state)
			p->sparse.policy_state->removed = p->sparse.policy_state->clock + 1;
		/* A removed row cannot say when it changed: make all pullers pull whole rows
		 * again. */
		part_forget_rows(p);
		budget_book_rows(p, &s->budget);
	}
	mutex_unlock(&p->lock);
	return SHARD_OK;
}

enum shard_answer shard_retain_rows(struct shard *s, uint16_t table, uint32_t part,
    const uint64_t *ids, size_t n)
{
	return remove_by_list(s, table, part, ids, n, true);
}

enum shard_answer shard_remove_rows(struct shard *s, uint16_t table, uint32_t part,
    const uint64_t *ids, size_t n)
{
	return remove_by_list(s, table, part, ids, n, false);
}
