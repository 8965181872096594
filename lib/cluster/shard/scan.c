/* SPDX-License-Identifier: ISC */
#include "core/mem.h"
#include "math/copy.h"
#include "shard/part.h"
#include "shard/settings_epoch.h"
#include "shard/shard_ops.h"
#include "shard/row_policy_state.h"

/* Scans of sparse partitions: all rows, or those that changed. */

/* Is the row above x->after, and changed late enough where only changes are wanted? */
static bool row_is_wanted(const struct part *p, const struct scan *x, uint64_t id, const float *row)
{
	return (x->begin || id > x->after) &&
	    (!x->changed || row_policy_state_last_step(p, row) >= x->since);
}

/* The ids of all rows that are wanted, in ascending order, *count of them; the caller frees the
 * array. */
static uint64_t *list_wanted_ids(const struct part *p, const struct scan *x, size_t *count)
{
	uint64_t *all = mem_array(rows_count(p->sparse.rows) + 1, sizeof *all), id;

	*count = 0;
	for (size_t i = 0; i < rows_count(p->sparse.rows); i++) {
		const float *row = rows_at(p->sparse.rows, i, &id);

		if (row_is_wanted(p, x, id, row))
			all[(*count)++] = id;
	}
	qsort(all, *count, sizeof *all, rows_by_id);
	return all;
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

/* Answers one piece of a scan. Every piece goes over all rows and sorts the wanted ids, so a scan
 * of n rows in pieces of k costs n / k sorts. The partition's lock is held throughout. */
static void copy_scanned_rows(struct shard *s, const struct part *p, struct scan *x)
{
	size_t count, cols = p->table->cols;
	uint64_t *all = list_wanted_ids(p, x, &count);

	mutex_assert_held(&p->lock);
	x->more = count > x->n;
	if (count < x->n)
		x->n = (uint32_t)count;
	for (size_t i = 0; i < x->n; i++) {
		memcpy(x->ids + i * 8, &all[i], 8);
		if (x->out)
			copy_floats(x->out + i * cols, rows_get(p->sparse.rows, all[i]), cols);
	}
	free(all);
	x->version = p->version;
	x->step = scan_step(s, p);
	x->removed = p->sparse.policy_state ? p->sparse.policy_state->removed : 0;
}

enum shard_answer shard_scan(struct shard *s, uint16_t table, uint32_t part, struct scan *x)
{
	struct part *p = shard_part(s, table, part);
	enum shard_answer a;

	if (!p || !p->table->sparse)
		return p ? SHARD_BAD : SHARD_ELSEWHERE;
	mutex_lock(&p->lock);
	a = s->ops->may_show(s, p, SYNC_NEVER);
	if (a == SHARD_OK && x->changed && !row_layout_has(&p->sparse.layout, ROW_SEEN))
		a = SHARD_BAD;
	if (a == SHARD_OK)
		copy_scanned_rows(s, p, x);
	mutex_unlock(&p->lock);
	return a;
}
