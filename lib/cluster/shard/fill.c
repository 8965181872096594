/* SPDX-License-Identifier: ISC */
#include "core/mem.h"
#include "layout/parted.h"
#include "shard/part.h"
#include "shard/row_policy_state.h"

/* Fills the tables of a read-only server from a source of parameters (layout/param_source.h). The
 * source gives a whole table at a time, and no thread can reach its partitions before it is full. */

/* A table that is being filled. */
struct filling {
	struct shard *shard;
	const struct shard_table *table;
};

const struct table *fill_table_of(const struct shard_config *cfg, const struct table *t)
{
	const struct table *found = cfg->source
	    ? layout_find(cfg->source->ops->layout(cfg->source), t->name)
	    : NULL;

	return found && !found->dropped ? found : NULL;
}

/* Makes n rows, of which there is none yet. False: no memory. */
static bool fill_block(struct part *p, const uint64_t *ids, uint32_t n, const float *w)
{
	struct row_store *store = p->sparse.store;
	size_t cols = p->table->cols;
	void *row[ROWS_BLOCK];
	uint64_t made;

	if (!store->ops->make_many(store, (const uint8_t *)ids, n, row, &made))
		return false;
	for (uint32_t i = 0; i < n; i++) {
		memcpy(row[i], w + i * cols, cols * sizeof *w);
		if (row_layout_has(&p->sparse.layout, ROW_SEEN))
			row_policy_state_set_last_step(p, row[i], p->sparse.policy_state->clock);
	}
	row_store_put(store, p->version, (const uint8_t *)ids, n, row);
	return true;
}

/* Makes rows of one partition. */
static bool fill_rows(struct shard *s, struct part *p, const uint64_t *ids, size_t n,
    const float *w)
{
	bool good = true;

	mutex_lock(&p->lock);
	for (size_t at = 0, k; good && at < n; at += k) {
		k = n - at < ROWS_BLOCK ? n - at : ROWS_BLOCK;
		good = fill_block(p, ids + at, (uint32_t)k, w + at * p->table->cols);
	}
	row_store_drain(p->sparse.store);
	budget_book_rows(p, &s->budget);
	mutex_unlock(&p->lock);
	return good;
}

/* For param_source_ops.each_row. */
static enum err_code take_rows(void *ctx, const uint64_t *ids, const float *rows, size_t n,
    struct err *e)
{
	struct filling *f = ctx;
	const struct table *t = &f->table->shape;
	struct parted by;
	enum err_code rc = parted_make(t, ids, rows, n, &by, e);

	for (uint32_t i = 0; !rc && i < t->nparts; i++) {
		size_t at = by.first[i], count = by.first[i + 1] - at;

		if (count &&
		    !fill_rows(f->shard, atomic_load(&f->table->part[i]), by.ids + at, count,
		        by.rows + at * t->cols))
			rc = err_set(e, ERR_NOMEM, "no memory for the rows of table \"%s\"",
			    t->name);
	}
	parted_release(&by);
	if (f->shard->cfg.alive)
		f->shard->cfg.alive(f->shard->cfg.ctx);
	return rc;
}

static enum err_code fill_dense(struct shard *s, const struct shard_table *table,
    const struct table *from, struct err *e)
{
	struct param_source *source = s->cfg.source;
	const float *w = NULL;
	enum err_code rc = source->ops->lend_dense(source, from, &w, e);

	for (uint32_t i = 0; !rc && i < table->shape.nparts; i++) {
		struct part *p = atomic_load(&table->part[i]);

		mutex_lock(&p->lock);
		memcpy(p->dense.w, w + table_part_begin(&table->shape, i), p->n * sizeof *w);
		mutex_unlock(&p->lock);
		if (s->cfg.alive)
			s->cfg.alive(s->cfg.ctx);
	}
	return rc;
}

enum err_code fill_table(struct shard *s, const struct shard_table *table, struct err *e)
{
	const struct table *t = &table->shape, *from = fill_table_of(&s->cfg, t);
	struct filling f = { s, table };

	if (!from)
		return ERR_OK;
	if (t->sparse != from->sparse || t->cols != from->cols ||
	    (!t->sparse && t->rows != from->rows))
		return err_set(e, ERR_CONFIG, "table \"%s\" of the model has another shape",
		    t->name);
	return t->sparse ? s->cfg.source->ops->each_row(s->cfg.source, from, take_rows, &f, e)
	                 : fill_dense(s, table, from, e);
}
