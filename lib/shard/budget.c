#include "shard/robust.h"

/* mem_limit: what the partitions may take, booked before it is. */

/* All that a dense partition may ever have here: values, optimizer state, two
 * accumulators, a previous version, when each value was changed, what is kept of workers. */
static uint64_t most(const struct part *p, const struct shard_config *cfg)
{
	uint64_t copies = 1 + cfg->rule->nslots + (cfg->deterministic ? 1 : 0) + (cfg->mode.kind == SYNC_bsp ? 2 : 0);

	return copies * p->n * sizeof(float) + (cfg->deltas ? stamps_bytes(p->n) : 0) + robust_bytes(p, cfg);
}

enum err_code part_book(struct part *p, const struct shard_config *cfg, struct budget *b, struct err *e)
{
	uint64_t need = most(p, cfg), used = atomic_fetch_add(&b->used, need) + need;

	p->booked = need;
	if (!b->limit || used <= b->limit)
		return ERR_OK;
	return err_set(e, ERR_CONFIG, "mem_limit: table \"%s\" does not fit: partition %u of %u would make it %llu bytes of %llu for tables; "
	    "more servers, fewer replicas or a higher mem_limit are wanted", p->table->name, p->index, p->table->nparts,
	    (unsigned long long)used, (unsigned long long)b->limit);
}

/* What a new row may take: its values and state, a previous version, its sum; and their
 * ids, and places in the indexes (rows.h). */
static uint64_t row_bytes(const struct part *p, const struct shard_config *cfg)
{
	uint32_t cols = p->table->cols;
	uint64_t copies = 1 + cfg->rule->nslots + (p->prev_rows ? 1 : 0), sums = p->acc_rows ? 1 : 0;

	return ((copies + sums) * cols + (p->stamp_at ? 1 : 0)) * sizeof(float) + (1 + (p->prev_rows ? 1 : 0) + sums) * ROW_OVERHEAD;
}

bool part_has_room(const struct part *p, const struct shard_config *cfg, struct budget *b, const struct push *push)
{
	uint64_t used = atomic_load(&b->used), fresh = 0;

	if (!b->limit || !p->rows || used + push->nrows * row_bytes(p, cfg) <= b->limit)
		return true;
	for (uint32_t at = 0, n; at < push->nrows; at += n) {
		float *row[ROWS_BLOCK];

		n = push->nrows - at < ROWS_BLOCK ? push->nrows - at : ROWS_BLOCK;
		rows_find(p->rows, push->ids + (size_t)at * 8, n, row);
		for (uint32_t i = 0; i < n; i++)
			fresh += !row[i];
	}
	if (!fresh || used + fresh * row_bytes(p, cfg) <= b->limit)
		return true;
	atomic_store(&b->full, true);
	return false;
}

void part_book_rows(struct part *p, struct budget *b)
{
	uint64_t now;

	if (!b->limit || !p->rows)
		return;
	now = rows_bytes(p->rows) + (p->acc_rows ? rows_bytes(p->acc_rows) : 0) + (p->prev_rows ? rows_bytes(p->prev_rows) : 0);
	atomic_fetch_add(&b->used, now - p->booked);
	p->booked = now;
}
