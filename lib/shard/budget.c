#include "base/procstat.h"
#include "shard/life.h"
#include "shard/regime.h"
#include "shard/robust.h"
#include "shard/width.h"

/* mem_limit: what the partitions may take, booked before it is. */

/* All that a dense partition may ever have here: values, optimizer state, two
 * accumulators, a previous version, when each value was changed, what is kept of workers. */
static uint64_t most(const struct part *p, const struct shard *s, const struct optim_rule *rule, bool bsp)
{
	uint64_t copies = 1 + rule->nslots + (s->cfg.deterministic ? 1 : 0) + (bsp ? 2 : 0);

	return copies * p->n * sizeof(float) + (s->cfg.deltas ? stamps_bytes(p->n) : 0) + robust_bytes(p, &s->cfg);
}

/* The step that is open, and those to come. */
static bool sums(const struct part *p, const struct shard *s)
{
	return regime_is_bsp(s, p->step) || regime_last(s)->mode.kind == SYNC_bsp || p->acc;
}

enum err_code part_book(struct part *p, struct shard *s, struct err *e)
{
	struct budget *b = &s->budget;
	uint64_t need = most(p, s, p->by->rule, sums(p, s)), used = atomic_fetch_add(&b->used, need) + need;

	p->booked = need;
	if (!b->limit || used <= b->limit)
		return ERR_OK;
	return err_set(e, ERR_CONFIG, "mem_limit: table \"%s\" does not fit: partition %u of %u would make it %llu bytes of %llu for tables; "
	    "more servers, fewer replicas or a higher mem_limit are wanted", p->table->name, p->index, p->table->nparts,
	    (unsigned long long)used, (unsigned long long)b->limit);
}

void part_rebook(struct part *p, struct shard *s)
{
	uint64_t need = most(p, s, p->by->rule, sums(p, s));

	/* Rows are booked as they come. */
	if (p->rows)
		return;
	atomic_fetch_add(&s->budget.used, need - p->booked);
	p->booked = need;
}

struct growth {
	const struct regime *r;
	uint64_t more;
};

static bool add_growth(struct shard *s, struct part *p, void *ctx)
{
	struct growth *g = ctx;
	bool bsp = g->r->mode.kind == SYNC_bsp || sums(p, s);
	unsigned had, slots = g->r->rule->nslots;

	/* One that is still to come goes by no rule yet. */
	if (!p->here)
		return true;
	had = p->by->rule->nslots;
	if (p->rows)
		g->more += slots > had ? width_values(p) * (slots - had) * sizeof(float) : 0;
	else if (most(p, s, g->r->rule, bsp) > p->booked)
		g->more += most(p, s, g->r->rule, bsp) - p->booked;
	return true;
}

static enum err_code fits(const struct shard *s, uint64_t used, struct err *e)
{
	if (!s->budget.limit || used <= s->budget.limit)
		return ERR_OK;
	return err_set(e, ERR_CONFIG, "mem_limit: it would make %llu bytes of %llu for tables", (unsigned long long)used,
	    (unsigned long long)s->budget.limit);
}

enum err_code shard_fits(struct shard *s, const struct regime *r, struct err *e)
{
	struct growth g = { r, 0 };
	uint64_t used = atomic_load(&s->budget.used);

	shard_each(s, add_growth, &g);
	return fits(s, used + g.more, e);
}

enum err_code shard_fits_table(struct shard *s, const struct table *t, uint32_t first, uint64_t sharing, struct err *e)
{
	uint64_t more = 0, left = procstat_memory();

	/* A sparse one begins without rows, but soon has counts of ids. */
	for (uint32_t i = first; i < t->nparts; i++) {
		struct part p = { .table = t, .n = t->sparse ? 0 : table_part_elements(t, i), .step = t->since };
		const struct run *run = table_run(t, i);

		if (run && run_place(run, s->cfg.self) >= 0)
			more += t->sparse ? life_sketch(t) : most(&p, s, regime_last(s)->rule, sums(&p, s));
	}
	if (left && more > left / (sharing ? sharing : 1))
		return err_set(e, ERR_NOMEM, "it takes %llu bytes, as of each of %llu servers on the host, which has %llu left",
		    (unsigned long long)more, (unsigned long long)sharing, (unsigned long long)left);
	return fits(s, atomic_load(&s->budget.used) + more, e);
}

/* What a new row may take: its values and state, a previous version, its sum; and their
 * ids, and places in the indexes (rows.h). */
static uint64_t row_bytes(const struct part *p)
{
	uint64_t copies = (p->prev_rows ? 1 : 0) + (p->acc_rows ? 1 : 0);

	return p->stride * sizeof(float) + ROW_OVERHEAD + copies * (p->table->cols * sizeof(float) + ROW_OVERHEAD);
}

/* And what it may take when it is wide. */
static uint64_t rest_bytes(const struct part *p)
{
	return p->rest ? width_stride(p) * sizeof(float) + ROW_OVERHEAD : 0;
}

/* What is wide after one update more. */
static bool widens(const struct part *p, const float *row)
{
	uint64_t after = p->table->policy.widen_after;

	return p->rest && (row ? width_updates(p, row) == after - 1 : after == 1);
}

bool part_has_room(const struct part *p, struct budget *b, const struct push *push)
{
	uint64_t used = atomic_load(&b->used), fresh = 0, wide = 0, want;

	if (!b->limit || !p->rows || used + push->nrows * (row_bytes(p) + rest_bytes(p)) <= b->limit)
		return true;
	for (uint32_t at = 0, n; at < push->nrows; at += n) {
		float *row[ROWS_BLOCK];

		n = push->nrows - at < ROWS_BLOCK ? push->nrows - at : ROWS_BLOCK;
		rows_find(p->rows, push->ids + (size_t)at * 8, n, row);
		for (uint32_t i = 0; i < n; i++) {
			fresh += !row[i];
			wide += widens(p, row[i]);
		}
	}
	want = fresh * row_bytes(p) + wide * rest_bytes(p);
	if (!want || used + want <= b->limit)
		return true;
	atomic_store(&b->full, true);
	return false;
}

void part_book_rows(struct part *p, struct budget *b)
{
	uint64_t now;

	if (!b->limit || !p->rows)
		return;
	now = width_bytes(p) + life_bytes(p->life) + (p->acc_rows ? rows_bytes(p->acc_rows) : 0) + (p->prev_rows ? rows_bytes(p->prev_rows) : 0);
	atomic_fetch_add(&b->used, now - p->booked);
	p->booked = now;
}
