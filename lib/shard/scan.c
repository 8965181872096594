#include "base/mem.h"
#include "shard/gate.h"
#include "shard/life.h"
#include "shard/regime.h"
#include "shard/width.h"

/* Sparse partitions whole, or what has changed of them. */

static bool wanted(const struct part *p, const struct scan *x, uint64_t id, const float *row)
{
	return (x->begin || id > x->after) && (!x->changed || life_seen(p, row) >= x->since);
}

/* All that are wanted, ascending, to be freed; *count of them. */
static uint64_t *list(const struct part *p, const struct scan *x, size_t *count)
{
	uint64_t *all = mem_array(rows_count(p->rows) + 1, sizeof *all), id;

	*count = 0;
	for (size_t i = 0; i < rows_count(p->rows); i++) {
		const float *row = rows_at(p->rows, i, &id);

		if (wanted(p, x, id, row))
			all[(*count)++] = id;
	}
	qsort(all, *count, sizeof *all, rows_by_id);
	return all;
}

/* Where no job is there are the partition's own steps. */
static uint64_t step_of(struct shard *s, const struct part *p)
{
	uint64_t step = shard_step(s);

	if (s->cfg.jobless)
		return p->life ? p->life->clock : 0;
	return regime_is_bsp(s, p->step) && p->step < step ? p->step : step;
}

static void copy_rows(struct shard *s, const struct part *p, struct scan *x)
{
	size_t count, cols = p->table->cols;
	uint64_t *all = list(p, x, &count);

	x->more = count > x->n;
	if (count < x->n)
		x->n = (uint32_t)count;
	for (size_t i = 0; i < x->n; i++) {
		memcpy(x->ids + i * 8, &all[i], 8);
		if (x->out)
			width_row(p, all[i], rows_get(p->rows, all[i]), x->out + i * cols);
	}
	free(all);
	x->version = p->version;
	x->step = step_of(s, p);
	x->removed = p->life ? p->life->removed : 0;
}

enum shard_answer shard_scan(struct shard *s, uint16_t table, uint32_t part, struct scan *x)
{
	struct part *p = shard_part(s, table, part);
	enum shard_answer a;

	if (!p || !p->table->sparse)
		return p ? SHARD_BAD : SHARD_ELSEWHERE;
	pthread_mutex_lock(&p->lock);
	a = part_may_show(s, p, SYNC_NEVER);
	if (a == SHARD_OK && x->changed && !p->seen_at)
		a = SHARD_BAD;
	if (a == SHARD_OK)
		copy_rows(s, p, x);
	pthread_mutex_unlock(&p->lock);
	return a;
}
