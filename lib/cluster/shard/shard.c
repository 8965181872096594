/* SPDX-License-Identifier: ISC */
#include "ckpt/read.h"
#include "core/mem.h"
#include "shard/repl.h"
#include "shard/settings_epoch.h"
#include "shard/shard_ops.h"
#include "shard/spill.h"

enum err_code shard_new(const struct shard_config *cfg, struct shard **out, struct err *e)
{
	struct shard *s = mem_alloc(sizeof *s);

	s->cfg = *cfg;
	s->ops = cfg->ops ? cfg->ops : &shard_store_ops;
	s->aggregates_robustly = aggregate_compares(&cfg->aggregate);
	s->budget.limit = cfg->mem_limit;
	s->table = mem_try_array(SHARD_TABLES, sizeof *s->table);
	if (!s->table) {
		free(s);
		return err_set(e, ERR_NOMEM, "no memory for the table of tables");
	}
	mutex_init(&s->gate.lock, LOCK_GATE);
	sync_init(&s->gate.sync, cfg->mode);
	settings_epochs_init(s);
	if (cfg->restore && !cfg->jobless)
		s->gate.sync.closed = ckpt_step(cfg->restore);
	*out = s;
	return ERR_OK;
}

/* Frees a table, its partitions, and the smaller tables that it has replaced. */
static void free_table(struct shard *s, struct shard_table *table)
{
	for (uint32_t i = 0; i < table->shape.nparts; i++)
		part_free(s, atomic_load(&table->part[i]));
	for (struct shard_table *before; table; table = before) {
		before = table->before;
		free((void *)table->part);
		free(table);
	}
}

void shard_give_up_disk(struct shard *s)
{
	if (s)
		spill_give_up(s->cfg.spill);
}

bool shard_disk_fails(const struct shard *s, struct err *e)
{
	struct spill_stats x;

	if (!s->cfg.spill)
		return false;
	spill_stats(s->cfg.spill, &x);
	*e = x.why;
	return x.failing;
}

void shard_free(struct shard *s)
{
	if (!s)
		return;
	for (uint32_t t = 0; t < s->ntables; t++) {
		struct shard_table *table = s->table[t];

		if (table)
			free_table(s, table);
	}
	s->ops->free_shard(s);
	settings_epochs_release(s);
	free((void *)s->table);
	spill_close(s->cfg.spill);
	sync_release(&s->gate.sync);
	mutex_destroy(&s->gate.lock);
	free(s);
}

struct part *shard_part(struct shard *s, uint16_t table, uint32_t part)
{
	struct shard_table *t = atomic_load(&s->table[table]);

	return t && part < t->shape.nparts ? atomic_load(&t->part[part]) : NULL;
}

bool shard_each(struct shard *s, part_fn *fn, void *ctx)
{
	bool go_on = true;

	for (uint32_t t = 0; go_on && t < atomic_load(&s->ntables); t++) {
		struct shard_table *table = atomic_load(&s->table[t]);

		if (table && atomic_load(&table->gone))
			continue;
		for (uint32_t i = 0; go_on && table && i < table->shape.nparts; i++) {
			struct part *p = atomic_load(&table->part[i]);

			if (!p)
				continue;
			mutex_lock(&p->lock);
			go_on = fn(s, p, ctx);
			mutex_unlock(&p->lock);
		}
	}
	return go_on;
}

const struct table *shard_table(struct shard *s, uint16_t table)
{
	struct shard_table *t = atomic_load(&s->table[table]);

	return t ? &t->shape : NULL;
}

uint64_t shard_count_parts(const struct shard *s)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < atomic_load(&s->ntables); i++) {
		const struct shard_table *t = atomic_load(&s->table[i]);

		n += t ? t->shape.nparts : 0;
	}
	return n;
}

/* ---- pull ---- */

bool part_wants_previous(const struct shard *s, const struct part *p, uint64_t step)
{
	mutex_assert_held(&p->lock);
	return s->cfg.deterministic && step != SYNC_NEVER && step + 1 == p->step && !p->prev_same;
}

/* The values of a dense partition that a pull at this step gets; the partition's lock is held. */
static const float *shown_values(const struct shard *s, const struct part *p, uint64_t step,
    uint64_t *version)
{
	bool previous = part_wants_previous(s, p, step);

	mutex_assert_held(&p->lock);
	*version = previous ? p->prev_version : p->version;
	return previous ? p->dense.prev : p->dense.w;
}

enum shard_answer shard_pull(struct shard *s, uint16_t table, uint32_t part, uint64_t step,
    float *out, uint64_t *version)
{
	struct part *p = shard_part(s, table, part);
	enum shard_answer a;

	if (!p || p->table->sparse)
		return p ? SHARD_BAD : SHARD_ELSEWHERE;
	mutex_lock(&p->lock);
	a = s->ops->may_read(s, p, step);
	if (a == SHARD_OK)
		memcpy(out, shown_values(s, p, step, version), p->n * sizeof *out);
	mutex_unlock(&p->lock);
	atomic_fetch_add_explicit(&s->pulls, 1, memory_order_relaxed);
	return a;
}

enum shard_answer shard_pull_place(struct shard *s, uint16_t table, uint32_t part, uint64_t step,
    struct shard_place *out, uint64_t *version)
{
	struct part *p = shard_part(s, table, part);
	enum shard_answer a;

	if (!p || p->table->sparse)
		return p ? SHARD_BAD : SHARD_ELSEWHERE;
	out->known = false;
	mutex_lock(&p->lock);
	a = s->ops->may_read(s, p, step);
	if (a == SHARD_OK && p->dense.published &&
	    shown_values(s, p, step, version) == p->dense.w) {
		out->place = published_place(p->dense.published, p->dense.w, &out->state);
		out->known = true;
	}
	mutex_unlock(&p->lock);
	if (out->known)
		atomic_fetch_add_explicit(&s->pulls, 1, memory_order_relaxed);
	return a;
}

enum shard_answer shard_may_show(struct shard *s, uint16_t table, uint32_t part, uint64_t step,
    uint64_t *version)
{
	struct part *p = shard_part(s, table, part);
	enum shard_answer a;

	if (!p || p->table->sparse)
		return p ? SHARD_BAD : SHARD_ELSEWHERE;
	mutex_lock(&p->lock);
	a = s->ops->may_read(s, p, step);
	*version = p->version;
	mutex_unlock(&p->lock);
	return a;
}

enum shard_answer shard_pull_state(struct shard *s, uint16_t table, uint32_t part, uint64_t step,
    uint64_t k, float *out, uint64_t *version)
{
	struct part *p = shard_part(s, table, part);
	enum shard_answer a;

	if (!p || p->table->sparse || !k)
		return p ? SHARD_BAD : SHARD_ELSEWHERE;
	mutex_lock(&p->lock);
	a = p->settings && k <= p->optim.rule->nvectors ? s->ops->may_read(s, p, step) : SHARD_BAD;
	if (a == SHARD_OK)
		memcpy(out, p->dense.state + (k - 1) * p->n, p->n * sizeof *out);
	*version = p->version;
	mutex_unlock(&p->lock);
	return a;
}

enum shard_answer shard_pull_changed(struct shard *s, uint16_t table, uint32_t part, uint64_t step,
    struct changed_values *x)
{
	struct part *p = shard_part(s, table, part);
	const float *w;
	enum shard_answer a;

	if (!p || p->table->sparse)
		return p ? SHARD_BAD : SHARD_ELSEWHERE;
	x->n = SIZE_MAX;
	mutex_lock(&p->lock);
	a = s->ops->may_read(s, p, step);
	if (a == SHARD_OK && p->dense.changes) {
		w = shown_values(s, p, step, &x->version);
		/* A puller that has a later version than the one that is shown: values that changed
		 * back are not known. */
		if (x->since <= x->version)
			x->n = change_log_since(p->dense.changes, x->since, x->most, x->place);
		for (size_t i = 0; x->n != SIZE_MAX && i < x->n; i++)
			x->out[i] = w[x->place[i]];
	}
	mutex_unlock(&p->lock);
	if (x->n != SIZE_MAX)
		atomic_fetch_add_explicit(&s->pulls, 1, memory_order_relaxed);
	return a;
}

enum shard_answer shard_read_rows(struct shard *s, uint16_t table, uint32_t part,
    struct row_read *x)
{
	struct part *p = shard_part(s, table, part);
	enum shard_answer a;

	if (!p || !p->table->sparse)
		return p ? SHARD_BAD : SHARD_ELSEWHERE;
	x->changed = x->n;
	a = part_lock_rows(s, p, x->ids, x->n);
	if (a != SHARD_OK)
		return a;
	a = s->ops->read_rows(s, p, x);
	part_unlock_rows(p);
	atomic_fetch_add_explicit(&s->pulls, 1, memory_order_relaxed);
	return a;
}

void shard_load_rows(struct shard *s, uint16_t table, uint32_t part, const uint8_t *ids, uint32_t n)
{
	const struct part *p = shard_part(s, table, part);
	struct row_store *store = p ? p->sparse.store : NULL;

	if (store && store->ops->make_present)
		store->ops->make_present(store, ids, n, NULL, NULL, NULL);
}

enum shard_answer shard_pull_rows(struct shard *s, uint16_t table, uint32_t part, uint64_t step,
    const uint8_t *ids, uint32_t n, float *out, uint64_t *version)
{
	struct row_read x = { .step = step, .ids = ids, .n = n, .out = out };
	enum shard_answer a = shard_read_rows(s, table, part, &x);

	*version = x.version;
	return a;
}
