/* SPDX-License-Identifier: ISC */
#include "core/mem.h"
#include "ckpt/read.h"
#include "layout/values.h"
#include "core/num.h"
#include "shard/settings_epoch.h"
#include "shard/row_policy_state.h"

/* Fills a partition from a checkpoint. */

/* The rows of a partition in the checkpoint's order: all values, then each state vector. width:
 * floats of a row in these; the number of them; and their sum. */
struct saved {
	size_t n, width[1 + CKPT_VECTORS_MAX], nwidth, floats;
	uint64_t *ids;
	float *values;
};

/* Frees the arrays, also after an error of saved_read. */
static void saved_release(struct saved *x)
{
	free(x->ids);
	free(x->values);
}

/* Reads the rows. *x must be released in any case. */
static enum err_code saved_read(struct saved *x, const struct part *p, const struct ckpt_reader *r,
    const struct ckpt_table *t, const struct ckpt_info *info, struct err *e)
{
	float *vector[CKPT_VECTORS_MAX];

	*x = (struct saved){ .n = info->n, .width = { t->cols }, .nwidth = 1, .floats = t->cols };
	for (unsigned k = 0; k < info->nvectors; k++) {
		x->width[x->nwidth++] = info->vector_cols[k];
		x->floats += info->vector_cols[k];
	}
	x->ids = mem_try_array(x->n + 1, sizeof *x->ids);
	x->values = mem_try_array(x->n * x->floats + 1, sizeof *x->values);
	if (!x->ids || !x->values)
		return err_set(e, ERR_NOMEM, "no memory for %zu rows of table \"%s\"", x->n,
		    t->name);
	for (size_t k = 0, at = x->n * t->cols; k < info->nvectors; at += x->n * x->width[++k])
		vector[k] = x->values + at;
	return ckpt_read_part(r, t, p->index, 0, x->n, x->ids, x->values, vector, info->nvectors,
	    e);
}

/* Makes n rows from row i on, with values and state. False: no memory. */
static bool restore_block(struct part *p, const struct saved *x, uint64_t version, size_t i,
    uint32_t n)
{
	struct row_store *store = p->sparse.store;
	const uint8_t *ids = (const uint8_t *)(x->ids + i);
	void *row[ROWS_BLOCK];
	uint64_t made;

	if (!store->ops->make_many(store, ids, n, row, &made))
		return false;
	for (size_t k = 0, at = 0; k < x->nwidth; at += x->width[k++])
		for (uint32_t j = 0; j < n; j++)
			memcpy((float *)row[j] + at, x->values + at * x->n + (i + j) * x->width[k],
			    x->width[k] * sizeof *x->values);
	row_store_put(store, version, ids, n, row);
	return true;
}

/* The number of rows that are handled together from row i of n on. */
static uint32_t block_size(size_t i, size_t n)
{
	return n - i < ROWS_BLOCK ? (uint32_t)(n - i) : ROWS_BLOCK;
}

/* Reads all rows of the partition into memory and then makes them, so for a moment there are two
 * copies of them. ERR_NOMEM, errors of ckpt/read.h. */
static enum err_code restore_rows(struct part *p, const struct ckpt_reader *r,
    const struct ckpt_table *t, const struct ckpt_info *info, struct err *e)
{
	struct saved x;
	enum err_code rc = saved_read(&x, p, r, t, info, e);

	for (size_t i = 0; !rc && i < x.n; i += ROWS_BLOCK)
		if (!restore_block(p, &x, info->version, i, block_size(i, x.n)))
			rc = err_set(e, ERR_NOMEM, "no memory for the rows of table \"%s\"",
			    t->name);
		else
			row_store_drain(p->sparse.store);
	saved_release(&x);
	return rc;
}

/* Sets the last step of n rows from row i on, which were just made. seen: of all rows; NULL: not
 * known. */
static void restore_seen(struct part *p, uint64_t version, const uint64_t *ids,
    const uint64_t *seen, size_t i, uint32_t n)
{
	struct row_store *store = p->sparse.store;
	void *row[ROWS_BLOCK];

	store->ops->get_many(store, (const uint8_t *)(ids + i), n, row);
	for (uint32_t j = 0; j < n; j++)
		row_policy_state_set_last_step(p, row[j],
		    seen ? seen[i + j] : p->sparse.policy_state->clock);
	row_store_put(store, version, (const uint8_t *)(ids + i), n, row);
}

/* Reads the state of the row policy. A table that had no policy begins it now. */
static enum err_code restore_row_policy(struct part *p, const struct ckpt_reader *r,
    const struct ckpt_table *t, const struct ckpt_info *info, struct err *e)
{
	uint64_t *ids = mem_array(info->n, sizeof *ids), *seen = mem_array(info->n, sizeof *seen),
	         *policy_words = mem_array(info->npolicy_words, sizeof *policy_words);
	enum err_code rc = ckpt_read_part(r, t, p->index, 0, info->n, ids, NULL, NULL, 0, e);

	if (!rc)
		rc = ckpt_read_row_policy(r, t, p->index, seen, policy_words, e);
	if (!rc && info->npolicy_words &&
	    !row_policy_state_get(p->sparse.policy_state, policy_words, info->npolicy_words))
		rc = err_set(e, ERR_FORMAT,
		    "%s is damaged: partition %u of table \"%s\" lacks the state of its row policy",
		    ckpt_path(r), p->index, t->name);
	for (size_t i = 0; !rc && row_layout_has(&p->sparse.layout, ROW_SEEN) && i < info->n;
	     i += ROWS_BLOCK)
		restore_seen(p, info->version, ids, info->dated ? seen : NULL, i,
		    block_size(i, info->n));
	free(ids);
	free(seen);
	free(policy_words);
	return rc;
}

/* Does the checkpoint have the elements of a dense partition that it should? A table that has grown
 * since has more at its end. */
static bool fits_dense(const struct part *p, const struct ckpt_table *t, uint64_t n)
{
	bool last = p->index + 1 == t->parts;

	return n == p->n || (last && n < p->n && t->rows < p->table->rows);
}

/* Reads a dense partition, and gives the elements that the checkpoint does not have their first
 * values. */
static enum err_code restore_dense(struct part *p, const struct shard_config *cfg,
    const struct ckpt_table *t, const struct ckpt_info *info, struct err *e)
{
	const struct optim_rule *rule = p->optim.rule;
	float *vector[OPTIM_VECTORS_MAX];
	size_t n = (size_t)info->n;

	part_state_vectors(p->dense.state, p->n, 1, rule, vector);
	for (unsigned k = 0; k < rule->nvectors; k++)
		for (size_t i = n; i < p->n; i++)
			vector[k][i] = rule->vector_init[k];
	if (n < p->n)
		init_fill(p->table, table_part_begin(p->table, p->index) + n, p->n - n,
		    p->dense.w + n);
	return ckpt_read_part(cfg->restore, t, p->index, 0, n, NULL, p->dense.w, vector,
	    rule->nvectors, e);
}

enum err_code restore_part(struct part *p, const struct shard_config *cfg,
    const struct ckpt_table *t, struct err *e)
{
	struct ckpt_info info = ckpt_part_info(cfg->restore, t, p->index);
	unsigned nvectors = p->optim.rule->nvectors;
	enum err_code rc;

	mutex_assert_held(&p->lock);
	info.nvectors = cfg->read_only ? 0 : info.nvectors;
	if (t->sparse != p->table->sparse || t->cols != p->table->cols ||
	    (t->sparse ? t->parts != p->table->nparts : !fits_dense(p, t, info.n)))
		return err_set(e, ERR_CONFIG, "table \"%s\" in %s has another shape", t->name,
		    ckpt_path(cfg->restore));
	for (unsigned k = 0; info.nvectors == nvectors && k < nvectors && t->sparse; k++)
		if (info.vector_cols[k] != optim_vector_floats(p->optim.rule, k, t->cols, t->cols))
			return err_set(e, ERR_CONFIG,
			    "%s was made with an update rule whose state for table \"%s\" "
			    "differs from that of %s",
			    ckpt_path(cfg->restore), t->name, p->optim.rule->name);
	if (info.nvectors != nvectors)
		return err_set(e, ERR_CONFIG,
		    "%s was made with an update rule of %u vector%s for table \"%s\", but %s has "
		    "%u",
		    ckpt_path(cfg->restore), info.nvectors, NUM_S(info.nvectors), t->name,
		    p->optim.rule->name, nvectors);
	if (t->sparse) {
		rc = restore_rows(p, cfg->restore, t, &info, e);
		if (!rc && p->sparse.policy_state)
			rc = restore_row_policy(p, cfg->restore, t, &info, e);
	} else {
		rc = restore_dense(p, cfg, t, &info, e);
	}
	p->version = info.version;
	p->rule_began = info.born;
	part_forget_changes(p);
	p->step = sync_sums_steps(&cfg->mode) && !cfg->jobless ? ckpt_step(cfg->restore) : 0;
	p->prev_same = true;
	return rc;
}
