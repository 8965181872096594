/* SPDX-License-Identifier: ISC */
#include "core/mem.h"
#include "shard/apply.h"
#include "shard/repl.h"
#include "shard/settings_epoch.h"
#include "shard/row_policy_state.h"

/* Snapshots for checkpoints: the values of all partitions of which this server is the tail, as they
 * are between two steps. A partition is copied before its first update after that point
 * (snapshot_before_update), or by shard_snap_take, whichever comes first. So training does not wait
 * for the snapshot. */

/* Frees the arrays of a part's rows: ids, seen and w. The state vectors are in the same block as w. */
static void release_rows(struct ckpt_part *part)
{
	free((void *)part->ids);
	free((void *)part->seen);
	free((void *)part->w);
	part->ids = part->seen = NULL;
	part->w = NULL;
}

static void release_rows_on_disk(struct ckpt_rows *rows);

/* Frees what a part owns. */
static void release_ckpt_part(struct ckpt_part *part)
{
	release_rows(part);
	free((void *)part->policy_words);
	free((void *)part->live);
	free((void *)part->last);
	if (part->rows)
		release_rows_on_disk(part->rows);
}

void snapshot_drop(struct part *p)
{
	mutex_assert_held(&p->lock);
	p->saved.given = false;
	if (!p->saved.snap)
		return;
	release_ckpt_part(p->saved.snap);
	free(p->saved.snap);
	p->saved.snap = NULL;
}

/* A column of the snapshot: the values, or a state vector of the rule that continues from it. */
struct column {
	size_t at, floats; /* its place in a row of the partition, and its floats of each row */
	bool absent; /* the partition's rule has no such vector: it keeps its initial values */
};

/* How the rows of a partition become columns. It does not change when the partition does. */
struct columns {
	const struct optim_rule *rule;
	struct row_layout layout; /* of the rows */
	uint64_t clock;           /* of the row policy, where the rows have ROW_SEEN */
	size_t cols;
	unsigned n;
	struct column of[1 + OPTIM_VECTORS_MAX];
};

static struct columns list_columns(const struct part *p, const struct optim_rule *rule)
{
	size_t cols = p->table->cols;
	struct columns x = { .rule = rule,
		.layout = p->sparse.layout,
		.clock = p->sparse.policy_state ? p->sparse.policy_state->clock : 0,
		.cols = cols,
		.n = 1 + rule->nvectors };

	for (unsigned k = 0; k < x.n; k++) {
		int had = k ? settings_epoch_find_state(rule, k - 1, p->optim.rule) : -1;
		struct column *c = &x.of[k];

		*c = (struct column){ .at = k ? cols : 0,
			.floats = k ? optim_vector_floats(rule, k - 1, cols, cols) : cols,
			.absent = k && had < 0 };
		for (int j = 0; j < had; j++)
			c->at += optim_vector_floats(p->optim.rule, (unsigned)j, cols, cols);
	}
	return x;
}

/* Copies the rows of a snapshot of the store: their ids, with `seen` their last steps, and the
 * columns of their values, one after the other in `values`. Returns the number of rows. */
static size_t copy_rows(const struct columns *x, struct row_snapshot *rows, uint64_t *ids,
    uint64_t *seen, float *values)
{
	float *to[1 + OPTIM_VECTORS_MAX];
	void *row[ROWS_BLOCK];
	size_t at = 0;
	uint32_t n;

	for (unsigned k = 0; k < x->n; k++) {
		to[k] = values;
		values += rows->n * x->of[k].floats;
	}
	for (; (n = rows->ops->snapshot_next(rows, ROWS_BLOCK, ids + at, row)) > 0; at += n)
		for (uint32_t i = 0; i < n; i++) {
			for (unsigned k = 0; k < x->n; k++)
				if (!x->of[k].absent)
					memcpy(to[k] + (at + i) * x->of[k].floats,
					    (const float *)row[i] + x->of[k].at,
					    x->of[k].floats * sizeof(float));
			if (seen)
				seen[at + i] = x->clock -
				    (uint32_t)(x->clock -
				        row_layout_get(&x->layout, row[i], ROW_SEEN));
		}
	return at;
}

/* Is the base snapshot the last full one of this partition, so that the changes since are known? */
static bool has_delta_base(const struct shard *s, const struct part *p,
    const struct optim_rule *rule)
{
	uint64_t base = atomic_load(&s->snaps.base);

	return base && p->saved.full_mark == base && p->saved.full_rule == rule &&
	    row_layout_has(&p->sparse.layout, ROW_SEEN);
}

/* For row_store_ops.snapshot: was the row updated since the last full snapshot? */
static bool changed_since_full(void *ctx, uint64_t id, const void *row)
{
	const struct part *p = ctx;

	(void)id;
	return row_policy_state_last_step(p, row) >= p->saved.full_clock;
}

/* The ids of all rows in ascending order. NULL: no memory, or the disk fails. */
static uint64_t *list_row_ids(const struct part *p)
{
	struct row_store *store = p->sparse.store;
	size_t n = store->ops->count(store), k = 0;
	uint64_t *ids = mem_try_array(n + 1, sizeof *ids), at = 0;
	void *row[ROWS_BLOCK];
	uint32_t some;

	while (ids && k < n &&
	    (some = store->ops->next(store, &at,
	         n - k < ROWS_BLOCK ? (uint32_t)(n - k) : ROWS_BLOCK, ids + k, row)) > 0)
		k += some;
	if (ids && row_store_has_failed(store)) {
		free(ids);
		return NULL;
	}
	if (ids)
		qsort(ids, k, sizeof *ids, rows_by_id);
	return ids;
}

/* Bytes of n rows in a snapshot. */
static size_t chosen_rows_bytes(const struct part *p, const struct optim_rule *rule, size_t n)
{
	size_t cols = p->table->cols;

	return n *
	    (2 * sizeof(uint64_t) + (cols + optim_state_floats(rule, cols, cols)) * sizeof(float));
}

/* Is a delta of these n rows, with the list of all ids when rows are gone, much smaller than all
 * rows? */
static bool delta_pays(const struct part *p, const struct optim_rule *rule, size_t n, bool gone)
{
	size_t all = p->sparse.store->ops->count(p->sparse.store),
	       whole = chosen_rows_bytes(p, rule, all);

	return chosen_rows_bytes(p, rule, n) + (gone ? all * sizeof(uint64_t) : 0) < whole / 4 * 3;
}

/* Allocates memory for n rows, and fills the state vectors with the rule's initial values. */
static float *alloc_row_values(const struct columns *x, size_t n)
{
	size_t each = n * x->cols;
	float *values = mem_try_array(each + optim_state_floats(x->rule, each, x->cols) + 1,
	    sizeof *values);

	if (values)
		part_init_state(x->rule, each, x->cols, values + each);
	return values;
}

/* Fills the arrays of the part with the rows of a snapshot. False: no memory, or the rows cannot be read
 * to the end; the arrays are the caller's to release. */
static bool fill_rows(struct ckpt_part *part, const struct columns *x, struct row_snapshot *rows)
{
	bool dated = row_layout_has(&x->layout, ROW_SEEN);
	uint64_t *ids = mem_try_array(rows->n + 1, sizeof *ids),
	         *seen = dated ? mem_try_array(rows->n + 1, sizeof *seen) : NULL;
	float *values = alloc_row_values(x, rows->n), *vector[OPTIM_VECTORS_MAX];
	size_t each = rows->n * x->cols;

	part->ids = ids;
	part->seen = seen;
	part->w = values;
	if (!ids || !values || (dated && !seen))
		return false;
	part_state_vectors(values + each, each, x->cols, x->rule, vector);
	for (unsigned k = 0; k < x->rule->nvectors; k++)
		part->vector[k] = vector[k];
	return copy_rows(x, rows, ids, seen, values) == rows->n;
}

/* ---- rows that stay on the disk ---- */

/* A snapshot of a row store that has it on the disk is read when it is written, one partition after
 * another, so that not all of them are in memory. */
struct rows_on_disk {
	struct ckpt_rows base;
	struct columns columns;
	struct row_snapshot *rows;
};

static enum err_code load_rows(struct ckpt_rows *rows, struct ckpt_part *part, struct err *e)
{
	struct rows_on_disk *x = (struct rows_on_disk *)rows;
	bool memory;

	x->rows->ops->snapshot_rewind(x->rows);
	if (fill_rows(part, &x->columns, x->rows))
		return ERR_OK;
	memory = part->ids && part->w && (part->seen || !x->base.dated);
	release_rows(part);
	if (!memory)
		return err_set(e, ERR_NOMEM, "no memory for %zu rows of table \"%s\"", x->rows->n,
		    part->table);
	return err_because(e, ERR_IO, CAUSE_DISK_FAILS,
	    "spill_dir: the disk fails: the rows of partition %u of table \"%s\" cannot be read",
	    part->part, part->table);
}

static void unload_rows(struct ckpt_rows *rows, struct ckpt_part *part)
{
	(void)rows;
	release_rows(part);
}

static void release_rows_on_disk(struct ckpt_rows *rows)
{
	struct rows_on_disk *x = (struct rows_on_disk *)rows;

	x->rows->ops->snapshot_free(x->rows);
	free(x);
}

/* Leaves the rows where they are; `rows` belongs to the part then. */
static void leave_rows_on_disk(struct ckpt_part *part, const struct columns *columns,
    struct row_snapshot *rows)
{
	struct rows_on_disk *x = mem_alloc(sizeof *x);

	x->base = (struct ckpt_rows){ .load = load_rows,
		.unload = unload_rows,
		.dated = row_layout_has(&columns->layout, ROW_SEEN) };
	x->columns = *columns;
	x->rows = rows;
	part->rows = &x->base;
}

/* Takes the rows to be saved: with *changes those that changed since the base, unless that saves
 * little; *changes is false then. NULL: no memory, or the disk fails. */
static struct row_snapshot *choose_rows(struct part *p, const struct optim_rule *rule, bool gone,
    bool *changes)
{
	struct row_store *store = p->sparse.store;
	struct row_snapshot *rows = store->ops->snapshot(store,
	    *changes ? changed_since_full : NULL, p);

	if (!rows || !*changes || delta_pays(p, rule, rows->n, gone))
		return rows;
	store->ops->snapshot_free(rows);
	*changes = false;
	return store->ops->snapshot(store, NULL, NULL);
}

/* Fills the partition's snapshot with these rows, which it frees or keeps, and the state of its row
 * policy. False: no memory. */
static bool save_rows(struct part *p, const struct optim_rule *rule, struct row_snapshot *rows)
{
	struct ckpt_part *x = p->saved.snap;
	struct columns columns = list_columns(p, rule);
	uint64_t *policy_words;
	bool good = true;

	x->n = rows->n;
	x->npolicy_words = row_policy_state_words(p->sparse.policy_state);
	x->policy_words = policy_words = x->npolicy_words
	    ? mem_try_array(x->npolicy_words, sizeof *policy_words)
	    : NULL;
	if (policy_words)
		row_policy_state_put(p->sparse.policy_state, policy_words);
	if (rows->ops->snapshot_rewind) {
		leave_rows_on_disk(x, &columns, rows);
	} else {
		good = fill_rows(x, &columns, rows);
		rows->ops->snapshot_free(rows);
	}
	return good && (!x->npolicy_words || policy_words);
}

/* Copies a sparse partition: all rows or those that changed since the base, and the state of its
 * row policy. False: no memory, or the disk fails. */
static bool copy_sparse(const struct shard *s, struct part *p, const struct optim_rule *rule)
{
	struct ckpt_part *x = p->saved.snap;
	bool changes = has_delta_base(s, p, rule),
	     gone = changes && p->sparse.policy_state->removed > p->saved.full_clock, good;
	struct row_snapshot *rows = choose_rows(p, rule, gone, &changes);

	if (!rows)
		return false;
	x->changes = changes;
	if (changes && gone) {
		x->live = list_row_ids(p);
		x->nlive = x->live ? p->sparse.store->ops->count(p->sparse.store) : 0;
	}
	good = save_rows(p, rule, rows) && (!changes || !gone || x->live);
	if (good && row_layout_has(&p->sparse.layout, ROW_SEEN) && !atomic_load(&s->snaps.base)) {
		p->saved.full_mark = atomic_load(&s->snaps.mark);
		p->saved.full_clock = p->sparse.policy_state->clock;
		p->saved.full_rule = rule;
	}
	return good;
}

/* Copies values and optimizer state into one block, the state converted to `rule`. False: no
 * memory. */
static bool copy_dense(struct part *p, const struct optim_rule *rule)
{
	float *values = mem_try_array((size_t)p->n * (1 + rule->nvectors) + 1, sizeof *values),
	      *vector[OPTIM_VECTORS_MAX];

	p->saved.snap->n = p->n;
	p->saved.snap->w = values;
	if (!values)
		return false;
	memcpy(values, p->dense.w, p->n * sizeof *p->dense.w);
	settings_epoch_carry_state(rule, p->optim.rule, p->n, 1, p->dense.state, values + p->n);
	part_state_vectors(values + p->n, p->n, 1, rule, vector);
	for (unsigned k = 0; k < rule->nvectors; k++)
		p->saved.snap->vector[k] = vector[k];
	return true;
}

/* Is the snapshot taken at a step, or at any moment? At the end of bsp it is taken at the last step
 * that is closed; without a job no step is ever closed. */
static bool goes_by_step(const struct shard *s, uint64_t step)
{
	mutex_assert_held(&s->gate.lock);
	return !s->cfg.jobless && settings_epoch_closes_step(s, step) &&
	    (!step || settings_epoch_closes_step(s, step - 1));
}

/* Is the snapshot that was begun last one of a step? It stays so after the snapshot has ended. */
static bool snapshot_is_by_step(const struct shard *s)
{
	return atomic_load(&s->snaps.by_step);
}

void shard_note_end(struct shard *s, bool done)
{
	atomic_store(&s->snaps.at_end, done);
}

/* Was the partition made for a step that the job has not reached, and that is after the snapshot's?
 * Then it has had no update, and may be copied. If the snapshot had to be of that step, a job whose
 * workers rest before it would wait for it: assume that a table is added from step 177 on, and that
 * ps-ctl stop has the workers rest before step 175. */
static bool is_of_no_step(const struct shard *s, const struct part *p)
{
	return p->table->since && p->step == p->table->since &&
	    (atomic_load(&s->snaps.at_end) || p->step > atomic_load(&s->snaps.step));
}

/* Is the partition still in a bsp before the mode of which the snapshot is? Then it holds pushes
 * for which workers have receipts. */
static bool is_before_mode(const struct shard *s, const struct part *p)
{
	return !snapshot_is_by_step(s) && p->step < atomic_load(&s->snaps.from) &&
	    !atomic_load(&s->snaps.at_end);
}

/* Has the partition closed a step of the bsp after that mode? */
static bool is_after_mode(const struct shard *s, const struct part *p)
{
	return !snapshot_is_by_step(s) && p->step > atomic_load(&s->snaps.until) &&
	    p->step != p->table->since;
}

/* Does the partition have the values of the snapshot's step, and keep them until they are
 * copied? When the job is done, a partition may stay one step below the others, because a worker
 * has left between its push and its CLOCK. No push changes it any more, so it may be copied. */
static bool has_values_of_step(const struct shard *s, const struct part *p)
{
	uint64_t step = atomic_load(&s->snaps.step);

	return p->step == step || (atomic_load(&s->snaps.at_end) && p->step < step) ||
	    is_of_no_step(s, p);
}

/* The settings epoch that continues from the snapshot; it may not have begun here. */
static const struct settings_epoch *next_settings(const struct shard *s)
{
	return snapshot_is_by_step(s) ? settings_epoch_at(s, atomic_load(&s->snaps.step))
	                              : settings_epoch_last(s);
}

/* Makes the partition's snapshot, with the state of the rule that continues from it. False: no
 * memory, or the disk of its rows fails. */
static bool copy_part_values(const struct shard *sh, struct part *p)
{
	const struct optim_rule *rule = settings_epoch_rule(next_settings(sh), p->table).rule;
	const struct step_ops *steps = apply_step_ops(sh, p, p->step);
	bool sparse = p->table->sparse, goes_on = rule == p->optim.rule;
	uint64_t *last = mem_array(p->pushes.nlast + 1, sizeof *last);
	size_t width = sparse ? p->table->cols : 1;

	p->saved.snap = mem_alloc(sizeof *p->saved.snap);
	*p->saved.snap = (struct ckpt_part){ .table = p->table->name,
		.sparse = sparse,
		.part = p->index,
		.cols = p->table->cols,
		.values = p->table->policy.values,
		.nvectors = rule->nvectors,
		.version = p->version,
		.born = p->rule_began,
		.step = snapshot_is_by_step(sh) && has_values_of_step(sh, p)
		    ? atomic_load(&sh->snaps.step)
		    : p->step,
		.last = last,
		.nlast = p->pushes.nlast };
	if (!(sparse ? copy_sparse(sh, p, rule) : copy_dense(p, rule))) {
		snapshot_drop(p);
		return false;
	}
	for (unsigned k = 0; k < rule->nvectors; k++)
		p->saved.snap->vector_cols[k] = (uint32_t)optim_vector_floats(rule, k, width,
		    width);
	if (!goes_on && !settings_epoch_keeps_state(rule, p->optim.rule))
		p->saved.snap->born = p->version;
	/* Pushes of the open step that have been taken, but are not in the values yet, are saved as
	 * not taken. */
	for (size_t i = 0; i < p->pushes.nlast; i++)
		last[i] = steps->holds_pushes && p->pushes.last[i] > p->step ? p->step
		                                                             : p->pushes.last[i];
	return true;
}

void snapshot_before_update(struct shard *s, struct part *p, uint64_t step)
{
	struct snaps *x = &s->snaps;

	mutex_assert_held(&p->lock);
	if (!atomic_load(&x->on) || p->saved.snap || p->saved.given || !p->ready ||
	    !p->chain.tail || (snapshot_is_by_step(s) && step < atomic_load(&x->step)) ||
	    is_before_mode(s, p))
		return;
	/* The order may arrive when the partition has passed the snapshot's step already. Its
	 * values then belong to a later step, and must not be saved under the earlier one. */
	if (snapshot_is_by_step(s) ? !has_values_of_step(s, p) : is_after_mode(s, p))
		atomic_store(&x->late, true);
	else if (!copy_part_values(s, p))
		atomic_store(&x->failed, true);
}

void shard_snap_marks(struct shard *s, uint64_t mark, uint64_t base)
{
	atomic_store(&s->snaps.mark, mark);
	atomic_store(&s->snaps.base, base);
}

/* Finds the furthest step among the values that the snapshot has or would get now. */
static bool find_furthest_step(struct shard *s, struct part *p, void *ctx)
{
	uint64_t *at = ctx, step = p->saved.snap ? p->saved.snap->step : p->step;

	if (p->ready && p->chain.tail && !is_of_no_step(s, p) && step > *at)
		*at = step;
	return true;
}

/* Finds out how far the mode of a snapshot of ssp or asp reaches. The gate's lock is held. */
static void find_mode_of_snapshot(struct shard *s, uint64_t step)
{
	uint64_t at = step && settings_epoch_closes_step(s, step) ? step - 1 : step;
	bool any = !s->cfg.jobless && !snapshot_is_by_step(s);

	mutex_assert_held(&s->gate.lock);
	atomic_store(&s->snaps.from, any ? settings_epoch_unclosed_from(s, at) : 0);
	atomic_store(&s->snaps.until, any ? settings_epoch_unclosed_end(s, at) : SYNC_NEVER);
}

void snapshot_arm(struct shard *s, uint64_t step)
{
	shard_snap_end(s);
	/* The list of settings epochs is read under a lock. */
	mutex_lock(&s->gate.lock);
	atomic_store(&s->snaps.by_step, goes_by_step(s, step));
	atomic_store(&s->snaps.step, step);
	find_mode_of_snapshot(s, step);
	mutex_unlock(&s->gate.lock);
	atomic_store(&s->snaps.failed, false);
	atomic_store(&s->snaps.late, false);
	atomic_store(&s->snaps.on, true);
	atomic_store(&s->snaps.begun, true);
}

bool shard_snap_begin(struct shard *s, uint64_t step, uint64_t *at)
{
	*at = 0;
	snapshot_arm(s, step);
	if (snapshot_is_by_step(s))
		shard_each(s, find_furthest_step, at);
	if (*at <= step)
		return true;
	shard_snap_end(s);
	return false;
}

bool shard_snap_covers(struct shard *s, uint64_t step)
{
	/* Also true when the snapshot has ended, for the last worker that reaches the step. */
	return snapshot_is_by_step(s)
	    ? atomic_load(&s->snaps.begun) && atomic_load(&s->snaps.step) == step
	    : atomic_load(&s->snaps.on);
}

bool shard_snap_due(struct shard *s)
{
	return !snapshot_is_by_step(s) || !atomic_load(&s->snaps.on) ||
	    atomic_load(&s->snaps.late) || atomic_load(&s->snaps.at_end) ||
	    shard_closed(s) >= atomic_load(&s->snaps.step);
}

/* Copies one partition if it has reached the snapshot's step. Otherwise clears *all and marks the
 * partition as waited for. */
static bool take_part_snapshot(struct shard *s, struct part *p, void *ctx)
{
	uint64_t step = atomic_load(&s->snaps.step);
	bool *all = ctx;

	if (p->saved.snap || p->saved.given || !p->ready || !p->chain.tail)
		return true;
	if (snapshot_is_by_step(s) ? p->step > step && !is_of_no_step(s, p) : is_after_mode(s, p)) {
		atomic_store(&s->snaps.late, true);
		*all = false;
		return true;
	}
	/* In ssp and asp, wait until all replicas have the version: a change that is not safe must
	 * not be in a checkpoint. */
	if (snapshot_is_by_step(s)
	        ? has_values_of_step(s, p)
	        : !is_before_mode(s, p) && atomic_load(&p->chain.safe_version) == p->version) {
		if (!copy_part_values(s, p))
			atomic_store(&s->snaps.failed, true);
	} else {
		p->has_waiters = true;
		*all = false;
	}
	return true;
}

enum shard_answer shard_snap_take(struct shard *s)
{
	bool all = true;

	if (!atomic_load(&s->snaps.on))
		return SHARD_ELSEWHERE;
	if (!shard_snap_due(s))
		return SHARD_WAIT;
	shard_each(s, take_part_snapshot, &all);
	if (atomic_load(&s->snaps.failed))
		return SHARD_BAD;
	return all ? SHARD_OK : SHARD_WAIT;
}

bool shard_snap_is_late(struct shard *s, uint64_t *at)
{
	*at = 0;
	if (!atomic_load(&s->snaps.late))
		return false;
	shard_each(s, find_furthest_step, at);
	return true;
}

/* An array of parts that grows while the partitions are visited. */
struct listing {
	struct ckpt_part *out;
	size_t n, cap;
};

/* Moves the partition's part to the list, which then owns its arrays. */
static bool move_snapshot_to_list(struct shard *s, struct part *p, void *ctx)
{
	struct listing *l = ctx;

	(void)s;
	if (!p->saved.snap)
		return true;
	l->out = mem_grow(l->out, &l->cap, l->n + 1, sizeof *l->out);
	l->out[l->n++] = *p->saved.snap;
	free(p->saved.snap);
	p->saved.snap = NULL;
	p->saved.given = true;
	return true;
}

bool shard_snap_parts(struct shard *s, struct ckpt_part **out, size_t *n)
{
	struct listing l = { 0 };

	if (atomic_load(&s->snaps.on))
		shard_each(s, move_snapshot_to_list, &l);
	*out = l.out;
	*n = l.n;
	/* The snapshot was ended meanwhile, so some parts are missing. */
	if (atomic_exchange(&s->snaps.on, false))
		return true;
	shard_snap_release(l.out, l.n);
	return false;
}

void shard_snap_release(struct ckpt_part *parts, size_t n)
{
	for (size_t i = 0; i < n; i++)
		release_ckpt_part(&parts[i]);
	free(parts);
}

void shard_snap_clocks(struct shard *s,
    void (*fn)(void *ctx, uint32_t rank, uint64_t clock, bool active), void *ctx)
{
	mutex_lock(&s->gate.lock);
	for (uint32_t i = 0; i < s->gate.sync.nranks; i++)
		fn(ctx, i, s->gate.sync.rank[i].clock, s->gate.sync.rank[i].active);
	mutex_unlock(&s->gate.lock);
}

struct taken_by_rank {
	struct taken *list;
	size_t n;
};

static bool add_snapshot_taken(struct shard *s, struct part *p, void *ctx)
{
	struct taken_by_rank *all = ctx;
	const struct ckpt_part *x = p->saved.snap;

	(void)s;
	if (x && x->nlast > all->n) {
		all->list = mem_regrow(all->list, x->nlast, sizeof *all->list);
		memset(all->list + all->n, 0, (x->nlast - all->n) * sizeof *all->list);
		all->n = x->nlast;
	}
	for (size_t i = 0; x && i < x->nlast; i++)
		if (x->last[i])
			taken_add(&all->list[i], p->table->id, p->index, x->last[i]);
	return true;
}

size_t shard_snap_taken(struct shard *s, struct taken **out)
{
	struct taken_by_rank all = { 0 };

	shard_each(s, add_snapshot_taken, &all);
	*out = all.list;
	return all.n;
}

static bool drop_snapshot(struct shard *s, struct part *p, void *ctx)
{
	(void)s;
	(void)ctx;
	snapshot_drop(p);
	return true;
}

void shard_snap_end(struct shard *s)
{
	atomic_store(&s->snaps.on, false);
	shard_each(s, drop_snapshot, NULL);
}
