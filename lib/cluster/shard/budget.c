/* SPDX-License-Identifier: ISC */
#include "core/procstat.h"
#include "core/num.h"
#include "shard/past_values.h"
#include "shard/settings_epoch.h"
#include "shard/robust.h"
#include "shard/row_policy_state.h"

/* mem_limit: the memory of a partition is booked before it is allocated, and the memory of sparse
 * rows after the rows were made. */

/* All that a dense partition may ever take here, in bytes: values, optimizer state, two
 * accumulators (bsp), former values, change logs, the gradients kept by an aggregator, and past
 * values. */
static uint64_t dense_bytes_max(const struct part *p, const struct shard *s,
    const struct optim_rule *rule, bool sums, const struct sync_mode *mode)
{
	uint64_t copies = 1 + rule->nvectors + (s->cfg.deterministic ? 1 : 0) + (sums ? 2 : 0);

	return copies * p->n * sizeof(float) +
	    (part_logs_changes(p, &s->cfg) ? change_log_bytes(p->n) : 0) +
	    robust_bytes(p, &s->cfg) + past_values_bytes(s, &mode->stale, p->n);
}

/* Does the partition need accumulators, for the open step or for later ones? */
static bool keeps_sums(const struct part *p, const struct shard *s)
{
	return settings_epoch_closes_step(s, p->step) ||
	    sync_sums_steps(&settings_epoch_last(s)->mode) || p->dense.acc;
}

enum err_code budget_book(struct part *p, struct shard *s, struct err *e)
{
	struct budget *b = &s->budget;
	uint64_t need = dense_bytes_max(p, s, p->optim.rule, keeps_sums(p, s),
	             &settings_epoch_last(s)->mode),
	         used = atomic_fetch_add(&b->used, need) + need;

	mutex_assert_held(&p->lock);
	p->booked = need;
	if (!b->limit || used <= b->limit)
		return ERR_OK;
	return err_because(e, ERR_CONFIG, CAUSE_MEM_LIMIT,
	    "mem_limit: table \"%s\" does not fit: partition %u of %u would make it %llu bytes "
	    "of %llu bytes for tables; use more servers, fewer replicas or a higher mem_limit",
	    p->table->name, p->index, p->table->nparts, (unsigned long long)used,
	    (unsigned long long)b->limit);
}

void budget_rebook(struct part *p, struct shard *s)
{
	uint64_t need = dense_bytes_max(p, s, p->optim.rule, keeps_sums(p, s),
	    &settings_epoch_last(s)->mode);

	mutex_assert_held(&p->lock);
	/* Sparse rows are booked when they are made. */
	if (p->table->sparse)
		return;
	atomic_fetch_add(&s->budget.used, need - p->booked);
	p->booked = need;
}

/* The additional memory that an epoch of settings would take. */
struct growth {
	const struct settings_epoch *r;
	uint64_t more;
};

/* Adds the memory that one partition would take in addition under the epoch g->r. A partition
 * that would shrink adds nothing. */
static bool add_growth(struct shard *s, struct part *p, void *ctx)
{
	struct growth *g = ctx;
	bool sums = sync_sums_steps(&g->r->mode) || keeps_sums(p, s);
	const struct optim_rule *rule = settings_epoch_rule(g->r, p->table).rule;
	struct row_store *store = p->sparse.store;
	struct row_layout to;
	uint64_t had, has;

	/* A partition that is still to be copied here has no rule yet. */
	if (!p->ready)
		return true;
	if (part_has_rows(p)) {
		to = part_rows_layout(p, &s->cfg, rule);
		had = store->ops->row_bytes(store, &p->sparse.layout);
		has = store->ops->row_bytes(store, &to);
		g->more += has > had ? store->ops->count(store) * (has - had) : 0;
	} else if (dense_bytes_max(p, s, rule, sums, &g->r->mode) > p->booked) {
		g->more += dense_bytes_max(p, s, rule, sums, &g->r->mode) - p->booked;
	}
	return true;
}

/* ERR_CONFIG when this many bytes would be more than the limit. */
static enum err_code check_mem_limit(const struct shard *s, uint64_t used, struct err *e)
{
	if (!s->budget.limit || used <= s->budget.limit)
		return ERR_OK;
	return err_because(e, ERR_CONFIG, CAUSE_MEM_LIMIT,
	    "mem_limit: it would make %llu bytes of %llu bytes for tables",
	    (unsigned long long)used, (unsigned long long)s->budget.limit);
}

enum err_code shard_fits_epoch(struct shard *s, const struct settings_epoch *r, struct err *e)
{
	struct growth g = { r, 0 };
	uint64_t used = atomic_load(&s->budget.used);

	shard_each(s, add_growth, &g);
	return check_mem_limit(s, used + g.more, e);
}

enum err_code shard_fits_table(struct shard *s, const struct table *t, uint32_t first,
    uint64_t sharing, struct err *e)
{
	const struct optim_rule *rule = settings_epoch_rule(settings_epoch_last(s), t).rule;
	uint64_t more = 0, left = procstat_memory();

	/* A sparse table begins without rows, but soon has counts of ids. */
	for (uint32_t i = first; i < t->nparts; i++) {
		struct part p = { .table = t,
			.n = t->sparse ? 0 : table_part_elements(t, i),
			.step = t->since };
		const struct run *run = table_run(t, i);

		if (run && run_chain_index(run, s->cfg.self) >= 0)
			more += t->sparse ? row_policy_state_sketch_bytes(t)
			                  : dense_bytes_max(&p, s, rule, keeps_sums(&p, s),
			                        &settings_epoch_last(s)->mode);
	}
	if (left && more > left / (sharing ? sharing : 1))
		return err_set(e, ERR_NOMEM,
		    "it needs %llu bytes on each of %llu server%s of the host, which has %llu "
		    "bytes left",
		    (unsigned long long)more, (unsigned long long)sharing, NUM_S(sharing),
		    (unsigned long long)left);
	return check_mem_limit(s, atomic_load(&s->budget.used) + more, e);
}

/* Bytes that a new row may take: values and state, former values, sum, and for each of these its id
 * and place in an index (rows.h). */
static uint64_t new_row_bytes(const struct part *p)
{
	uint64_t copies = (p->sparse.prev ? 1 : 0) + (p->sparse.acc ? 1 : 0);
	uint64_t count = p->sparse.touched ? sizeof(float) + ROW_OVERHEAD : 0;

	return p->sparse.store->ops->row_bytes(p->sparse.store, &p->sparse.layout) + count +
	    copies * (p->table->cols * sizeof(float) + ROW_OVERHEAD);
}

bool budget_has_room(struct part *p, struct shard *s, const struct push *push)
{
	struct budget *b = &s->budget;
	uint64_t used = atomic_load(&b->used), fresh = 0;

	mutex_assert_held(&p->lock);
	if (s->aggregates_robustly && !robust_has_room(p, s, push->rank))
		return false;
	if (!b->limit || !part_has_rows(p) || used + push->nrows * new_row_bytes(p) <= b->limit)
		return true;
	for (uint32_t at = 0, n; at < push->nrows; at += n) {
		n = push->nrows - at < ROWS_BLOCK ? push->nrows - at : ROWS_BLOCK;
		fresh += n -
		    (unsigned)__builtin_popcountll(p->sparse.store->ops->find_many(p->sparse.store,
		        push->ids + (size_t)at * 8, n));
	}
	if (!fresh || used + fresh * new_row_bytes(p) <= b->limit)
		return true;
	atomic_store(&b->full, true);
	return false;
}

void budget_book_rows(struct part *p, struct budget *b)
{
	uint64_t now;

	mutex_assert_held(&p->lock);
	if (!b->limit || !part_has_rows(p))
		return;
	now = p->sparse.store->ops->bytes(p->sparse.store) +
	    row_policy_state_bytes(p->sparse.policy_state) +
	    (p->sparse.acc ? rows_bytes(p->sparse.acc) : 0) +
	    (p->sparse.touched ? rows_bytes(p->sparse.touched) : 0) +
	    (p->sparse.prev ? rows_bytes(p->sparse.prev) : 0);
	atomic_fetch_add(&b->used, now - p->booked);
	p->booked = now;
}
