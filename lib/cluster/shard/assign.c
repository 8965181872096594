/* SPDX-License-Identifier: ISC */
#include <stdlib.h>

#include "core/endian.h"
#include "core/mem.h"
#include "shard/gate.h"
#include "shard/row_life.h"
#include "shard/row_width.h"

/* Values that another cluster has made: the calls of a read replica. */

/* Values compared at a time, so that they stay in the first-level cache. */
#define PIECE 2048u

enum shard_answer shard_assign(struct shard *s, uint16_t table, uint32_t part, const float *w)
{
	struct part *p = shard_part(s, table, part);

	if (!p || p->table->sparse)
		return p ? SHARD_BAD : SHARD_ELSEWHERE;
	pthread_mutex_lock(&p->lock);
	for (size_t at = 0, n; at < p->n; at += n) {
		n = p->n - at < PIECE ? p->n - at : PIECE;
		if (p->stamps)
			change_log_note(p->stamps, p->version + 1, at, n, p->w + at, w + at);
		memcpy(p->w + at, w + at, n * sizeof *w);
	}
	p->version++;
	pthread_mutex_unlock(&p->lock);
	return SHARD_OK;
}

/* Each call counts as one update where the row policy counts updates. */
static void begin_update(struct part *p)
{
	if (p->life && p->life->by_updates)
		p->life->clock++;
}

static bool is_zero(const float *x, size_t n)
{
	size_t i = 0;

	while (i < n && x[i] == 0)
		i++;
	return i == n;
}

/* Sets the columns that narrow rows do not have; the source shows them as zeros, so a narrow row
 * stays narrow then. False: no memory. */
static bool assign_rest(struct part *p, uint64_t id, float *row, const float *rest)
{
	size_t n = row_width_rest_cols(p);
	bool made;
	float *to;

	if (!row_width_is_wide(p, row) && is_zero(rest, n))
		return true;
	to = rows_put(p->rest, id, &made);
	if (to)
		memcpy(to, rest, n * sizeof *rest);
	row_width_set_updates(p, row, UINT64_MAX);
	return to;
}

/* Sets one row. False: no memory. */
static bool assign_row(struct part *p, uint64_t id, float *row, bool made, const float *w)
{
	size_t cols = p->table->cols;
	bool changed = p->stamp_at && made;

	if (p->stamp_at && !made) {
		row_width_copy_row(p, id, row, p->was);
		changed = memcmp(p->was, w, cols * sizeof *w);
	}
	memcpy(row, w, p->narrow * sizeof *w);
	if (p->rest && !assign_rest(p, id, row, w + p->narrow))
		return false;
	if (changed)
		part_row_changed(p, row);
	if (p->seen_at)
		row_life_set_last_step(p, row, p->life->clock);
	return true;
}

static bool assign_block(struct part *p, const uint8_t *ids, uint32_t n, const float *w)
{
	float *row[ROWS_BLOCK];
	uint64_t made;
	bool good = rows_make(p->rows, ids, n, row, &made);

	for (uint32_t i = 0; good && i < n; i++)
		good = assign_row(p, get_le64(ids + (size_t)i * 8), row[i], made >> i & 1,
		    w + (size_t)i * p->table->cols);
	return good;
}

enum shard_answer shard_assign_rows(struct shard *s, uint16_t table, uint32_t part,
    const uint8_t *ids, uint32_t n, const float *w)
{
	struct part *p = shard_part(s, table, part);
	struct push room = { .nrows = n, .ids = ids };
	bool good;

	if (!p || !p->table->sparse)
		return p ? SHARD_BAD : SHARD_ELSEWHERE;
	pthread_mutex_lock(&p->lock);
	good = budget_has_room(p, &s->budget, &room);
	if (good)
		begin_update(p);
	for (uint32_t at = 0, k; good && at < n; at += k) {
		k = n - at < ROWS_BLOCK ? n - at : ROWS_BLOCK;
		good = assign_block(p, ids + (size_t)at * 8, k, w + (size_t)at * p->table->cols);
	}
	p->version += good;
	budget_book_rows(p, &s->budget);
	pthread_mutex_unlock(&p->lock);
	return good ? SHARD_OK : SHARD_BAD;
}

/* The ids that stay, in ascending order. */
struct kept_ids {
	const uint64_t *ids;
	size_t n;
};

static bool is_among(void *ctx, uint64_t id, const float *row)
{
	const struct kept_ids *k = ctx;

	(void)row;
	return k->n && bsearch(&id, k->ids, k->n, sizeof id, rows_by_id);
}

enum shard_answer shard_retain_rows(struct shard *s, uint16_t table, uint32_t part,
    const uint64_t *ids, size_t n)
{
	struct part *p = shard_part(s, table, part);
	struct kept_ids kept = { ids, n };

	if (!p || !p->table->sparse)
		return p ? SHARD_BAD : SHARD_ELSEWHERE;
	pthread_mutex_lock(&p->lock);
	if (rows_sift(p->rows, is_among, &kept)) {
		row_width_sift(p);
		begin_update(p);
		p->version++;
		if (p->life)
			p->life->removed = p->life->clock + 1;
		/* Removed rows have no stamp: make all pullers pull whole again. */
		part_forget_rows(p);
		budget_book_rows(p, &s->budget);
	}
	pthread_mutex_unlock(&p->lock);
	return SHARD_OK;
}
