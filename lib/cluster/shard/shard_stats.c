/* SPDX-License-Identifier: ISC */
#include "shard/past_values.h"
#include "shard/settings_epoch.h"
#include "shard/row_policy_state.h"
#include "shard/part.h"
#include "shard/shard_ops.h"
#include "shard/spill.h"

#include <math.h>

/* Figures about a shard. Each partition's lock is held while it is read. */

/* Bytes of memory of a sparse partition beside its values, some of which may be on the disk. */
static uint64_t other_bytes(const struct part *p, uint64_t values)
{
	const struct row_store *store = p->sparse.store;
	uint64_t all = store->ops->bytes(store) + row_policy_state_bytes(p->sparse.policy_state);

	return all > values ? all - values : 0;
}

/* Adds one partition. state_bytes of a sparse one is everything beside its values: state, ids,
 * index and counts of ids. */
static bool add_stats(struct shard *s, struct part *p, void *ctx)
{
	const struct row_store *store = p->sparse.store;
	struct shard_stats *out = ctx;

	(void)s;
	if (!p->ready)
		return true;
	if (part_has_rows(p)) {
		uint64_t rows = store->ops->count(store), values = rows * p->table->cols,
		         bytes = values * store->element_bytes;

		out->rows += rows;
		out->parameters += values;
		out->parameter_bytes += bytes;
		out->state_bytes += other_bytes(p, bytes);
	} else {
		out->parameters += p->n;
		out->parameter_bytes += (uint64_t)p->n * 4;
		out->state_bytes += (uint64_t)p->n * p->optim.rule->nvectors * 4;
	}
	out->unsent += p->chain.nsent;
	return true;
}

static void add_spill_stats(const struct shard *s, struct shard_stats *out)
{
	struct spill_stats x;

	if (!s->cfg.spill)
		return;
	spill_stats(s->cfg.spill, &x);
	out->spills = true;
	out->rows_asked = x.asked;
	out->rows_missed = x.missed;
	out->disk_reads = x.reads;
	out->row_memory = x.memory;
	out->row_disk = x.disk_bytes;
	out->disk_fails = x.failing;
	out->disk_error = x.why;
}

void shard_stats(struct shard *s, struct shard_stats *out)
{
	*out = (struct shard_stats){ .pulls = atomic_load(&s->pulls),
		.nonfinite = atomic_load(&s->nonfinite) };
	for (int i = 0; i <= PUSH_SPLIT; i++)
		out->status[i] = atomic_load(&s->status[i]);
	shard_each(s, add_stats, out);
	out->closed = shard_step(s);
	add_spill_stats(s, out);
}

const char *const row_policy_counter_name[ROW_POLICY_COUNTERS] = {
#define COUNTER(name) #name,
#include "shard/row_policy_counters.def"
#undef COUNTER
};

bool shard_table_stats(struct shard *s, uint16_t table, struct table_stats *out)
{
	struct shard_table *t = atomic_load(&s->table[table]);

	*out = (struct table_stats){ 0 };
	if (!t || atomic_load(&t->gone))
		return false;
	for (uint32_t i = 0; i < t->shape.nparts; i++) {
		struct part *p = shard_part(s, table, i);
		const struct row_store *store = p ? p->sparse.store : NULL;

		if (!p)
			continue;
		mutex_lock(&p->lock);
		if (p->ready && p->chain.head && part_has_rows(p)) {
			out->rows += store->ops->count(store);
			out->bytes += store->ops->bytes(store) +
			    row_policy_state_bytes(p->sparse.policy_state);
			out->has_policy |= p->sparse.policy_state != NULL;
			for (unsigned k = 0; p->sparse.policy_state && k < ROW_POLICY_COUNTERS; k++)
				out->count[k] += p->sparse.policy_state->count[k];
		}
		mutex_unlock(&p->lock);
	}
	return true;
}

/* The decaying averages of shard_part_load fall to about a third in this many seconds, or in this
 * many steps where steps are long. */
#define PUSH_RATE_MEMORY 20.0
#define PUSH_RATE_STEPS  16.0
/* Steps before a partition is reported: with fewer, the step that is half pushed counts too
 * much. */
#define PUSH_RATE_LEAST 8

/* One call of shard_part_load: `keep` is the factor by which the averages decay since the last
 * one, `steps` the number of steps since then. */
struct push_rates {
	double steps, keep;
	shard_push_rate_fn *fn;
	void *ctx;
};

/* Updates the partition's averages and reports them. A partition that is not at the head here
 * forgets its history, since another server has taken the pushes meanwhile. */
static bool update_push_rate(struct shard *s, struct part *p, void *ctx)
{
	struct push_rates *h = ctx;
	uint64_t work = p->load.work - p->load.work_seen;

	(void)s;
	p->load.work_seen = p->load.work;
	if (!p->ready || !p->chain.head) {
		p->load.measured = 0;
		p->load.recent_work = p->load.recent_steps = 0;
		return true;
	}
	p->load.measured += (uint64_t)h->steps;
	p->load.recent_work = p->load.recent_work * h->keep + (double)work;
	p->load.recent_steps = p->load.recent_steps * h->keep + h->steps;
	if (p->load.measured >= PUSH_RATE_LEAST)
		h->fn(h->ctx, p->table->id, p->index, p->load.recent_work / p->load.recent_steps);
	return true;
}

void shard_part_load(struct shard *s, double seconds, uint64_t steps, shard_push_rate_fn *fn,
    void *ctx)
{
	struct push_rates h = { (double)steps,
		exp(-fmin(seconds / PUSH_RATE_MEMORY, (double)steps / PUSH_RATE_STEPS)), fn, ctx };

	shard_each(s, update_push_rate, &h);
}

/* Bytes that a block of n bytes takes with its alignment and bookkeeping. */
#define BLOCK(n) (((n) + 63) / 64 * 64 + 64)

/* Sums of shard_memory. */
struct reckoning {
	uint64_t ranks;
	struct shard_memory out;
};

/* Adds the memory of one partition. `tables` are the bytes of its values and state; `beside` is all
 * else that it may ever take, with the arrays by rank at their greatest length, plus what blocks
 * cost by alignment. Used for the bound that is logged, so it must not be too low. */
static bool add_memory(struct shard *s, struct part *p, void *ctx)
{
	struct reckoning *x = ctx;
	uint64_t floats = (uint64_t)p->n * 4,
	         vectors = (p->dense.acc != NULL) + (p->dense.spare != NULL) +
	    (p->dense.prev != NULL);
	uint64_t tables = part_has_rows(p)
	    ? p->sparse.store->ops->bytes(p->sparse.store) +
	        row_policy_state_bytes(p->sparse.policy_state)
	    : floats * (1 + (p->settings ? p->optim.rule->nvectors : 0));
	/* Announcements of pending pushes are kept where records are sent on. */
	bool claimed = !p->chain.head || p->chain.next != NO_SERVER;

	if (!p->ready)
		return true;
	x->out.parts++;
	x->out.tables += tables;
	x->out.beside += vectors * BLOCK(floats) +
	    (aggregate_compares(&s->cfg.aggregate)
	            ? x->ranks * BLOCK(floats + sizeof *p->sum.gradients)
	            : 0) +
	    (p->dense.changes ? BLOCK(change_log_bytes(p->n)) : 0) +
	    past_values_bytes(s, &settings_epoch_last(s)->mode.stale, p->n) + BLOCK(sizeof *p) +
	    BLOCK(x->ranks *
	        (sizeof *p->pushes.last + sizeof *p->pushes.refused +
	            (claimed ? sizeof *p->pushes.announced : 0) + s->ops->rank_bytes));
	if (!part_has_rows(p))
		x->out.beside += BLOCK(floats) + BLOCK(floats * p->optim.rule->nvectors + 4) -
		    tables;
	return true;
}

struct shard_memory shard_memory(struct shard *s, uint64_t ranks)
{
	struct reckoning x = { .ranks = ranks };

	shard_each(s, add_memory, &x);
	return x.out;
}

uint64_t shard_booked(struct shard *s)
{
	return atomic_load(&s->budget.used);
}

bool shard_is_full(struct shard *s)
{
	return atomic_load(&s->budget.full);
}

const struct hist *shard_staleness(const struct shard *s)
{
	return &s->staleness;
}

const struct hist *shard_apply_time(const struct shard *s)
{
	return &s->apply_time;
}

void shard_refusals(struct shard *s, void (*fn)(void *ctx, uint32_t rank, uint64_t n), void *ctx)
{
	mutex_lock(&s->gate.lock);
	for (size_t i = 0; i < s->gate.sync.nranks; i++)
		if (s->gate.sync.rank[i].refused)
			fn(ctx, (uint32_t)i, s->gate.sync.rank[i].refused);
	mutex_unlock(&s->gate.lock);
}
