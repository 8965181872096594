/* SPDX-License-Identifier: ISC */
#include "core/endian.h"
#include "core/mem.h"
#include "codec/codec.h"
#include "layout/values.h"
#include "math/copy.h"
#include "math/vec.h"
#include "shard/settings_epoch.h"
#include "shard/row_policy_state.h"
#include "wire/payload.h"

/* The rows of a sparse partition. They are looked up, and narrow ones updated, a block at a time:
 * applying a rule to the values of many rows one after the other gives the same bits as a call for
 * each row, because the rules work on each value by itself. */

/* Rows of at most this many values are updated together. */
#define NARROW   16u
#define TOGETHER (ROWS_BLOCK * NARROW)
/* Bytes of a block of rows, so that it stays in the first-level cache. */
#define BLOCK_BYTES 16384u

struct row_layout part_rows_layout(const struct part *p, const struct shard_config *cfg,
    const struct optim_rule *rule)
{
	uint32_t cols = p->table->cols;
	bool dates = p->sparse.policy_state && row_policy_dates(p->sparse.policy_state->policy);

	mutex_assert_held(&p->lock);
	return row_layout_make(cols, (uint32_t)optim_state_floats(rule, cols, cols), dates,
	    cfg->row_versions);
}

void part_rows_alloc(struct part *p, const struct shard_config *cfg)
{
	uint32_t cols = p->table->cols;

	mutex_assert_held(&p->lock);
	p->sparse.policy_state = row_policy_state_new(p->table, cfg->jobless);
	p->sparse.layout = part_rows_layout(p, cfg, p->optim.rule);
	p->sparse.store->ops->open(p->sparse.store, &p->sparse.layout);
	p->sparse.prev = cfg->deterministic ? rows_new(cols * (uint32_t)sizeof(float)) : NULL;
	p->sparse.former = cfg->row_versions ? mem_array(cols, sizeof *p->sparse.former) : NULL;
	p->sparse.known_since = p->version;
}

void part_rows_free(struct part *p)
{
	mutex_assert_held(&p->lock);
	if (p->sparse.store)
		p->sparse.store->ops->close(p->sparse.store);
	p->sparse.layout = (struct row_layout){ 0 };
	rows_free(p->sparse.acc);
	rows_free(p->sparse.prev);
	rows_free(p->sparse.touched);
	p->sparse.touched = NULL;
	p->sparse.acc = p->sparse.prev = NULL;
	free(p->sparse.former);
	p->sparse.former = NULL;
	row_policy_state_free(p->sparse.policy_state);
	p->sparse.policy_state = NULL;
}

/* ---- rows in memory ---- */

enum shard_answer part_lock_rows(struct shard *s, struct part *p, const uint8_t *ids, uint32_t n)
{
	struct row_store *store = p->sparse.store;
	enum shard_answer a;
	uint64_t since;

	if (!store || !store->ops->make_present) {
		mutex_lock(&p->lock);
		return SHARD_OK;
	}
	/* Another thread may let go some of the rows before this one has the lock. */
	for (;;) {
		a = store->ops->make_present(store, ids, n, s->cfg.wake, s->cfg.ctx, &since);
		if (a != SHARD_OK)
			return a;
		mutex_lock(&p->lock);
		if (store->ops->has_present(store, ids, n, since))
			return SHARD_OK;
		mutex_unlock(&p->lock);
	}
}

void part_unlock_rows(struct part *p)
{
	struct row_store *store = p->sparse.store;

	mutex_assert_held(&p->lock);
	if (store && store->ops->settle && !p->sum.contributions)
		store->ops->settle(store);
	mutex_unlock(&p->lock);
}

/* The i-th id; ids may have any alignment. */
static uint64_t read_row_id(const uint8_t *ids, uint32_t i)
{
	uint64_t id;

	memcpy(&id, ids + (size_t)i * 8, sizeof id);
	return id;
}

/* ---- changes since a version ---- */

void part_forget_changes(struct part *p)
{
	mutex_assert_held(&p->lock);
	if (p->dense.changes)
		change_log_reset(p->dense.changes, p->version);
	p->sparse.known_since = p->version;
}

/* The word ROW_CHANGED of a row is the version of its last change - known_since; 0: it has not
 * changed since. */

void part_forget_rows(struct part *p)
{
	struct row_store *store = p->sparse.store;
	uint64_t ids[ROWS_BLOCK], at = 0;
	void *row[ROWS_BLOCK];
	uint32_t n;

	mutex_assert_held(&p->lock);
	while (row_layout_has(&p->sparse.layout, ROW_CHANGED) &&
	    (n = store->ops->next(store, &at, ROWS_BLOCK, ids, row)) > 0) {
		for (uint32_t i = 0; i < n; i++)
			row_layout_set(&p->sparse.layout, row[i], ROW_CHANGED, 0);
		row_store_put(store, p->version, (const uint8_t *)ids, n, row);
	}
	p->sparse.known_since = p->version;
}

/* ROW_CHANGED has 32 bits: when they are used up, all changes are forgotten. */
void part_rows_begin_block(struct part *p)
{
	mutex_assert_held(&p->lock);
	if (p->version + 1 - p->sparse.known_since > UINT32_MAX)
		part_forget_rows(p);
}

void part_row_changed(struct part *p, void *row)
{
	mutex_assert_held(&p->lock);
	row_layout_set(&p->sparse.layout, row, ROW_CHANGED,
	    (uint32_t)(p->version + 1 - p->sparse.known_since));
}

/* May the row, as shown at `version`, differ from what it was at version `since`? row NULL: it does
 * not exist, but may have been removed. */
static bool row_may_differ(const struct part *p, const void *row, uint64_t since, uint64_t version)
{
	/* ROW_VERSION_NONE is greater than every version. */
	if (!row_layout_has(&p->sparse.layout, ROW_CHANGED) || since > version ||
	    since < p->sparse.known_since)
		return true;
	return row
	    ? row_layout_get(&p->sparse.layout, row, ROW_CHANGED) > since - p->sparse.known_since
	    : p->sparse.policy_state && since < p->sparse.policy_state->removed_version;
}

/* ---- blocks ---- */

/* The number of rows of a block, where each row has `copies` times its columns. */
static uint32_t rows_per_block(const struct part *p, unsigned copies)
{
	uint32_t most = BLOCK_BYTES / (8 + p->table->cols * 4 * copies);

	return most >= ROWS_BLOCK ? ROWS_BLOCK : most > 4 ? most : 4;
}

static uint32_t min_u32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* Do the ids ascend, so that no row is in the block twice? */
static bool ids_ascend(const uint8_t *ids, uint32_t n)
{
	bool good = true;

	for (uint32_t i = 1; i < n; i++)
		good &= read_row_id(ids, i) > read_row_id(ids, i - 1);
	return good;
}

/* gather_columns copies n floats of each row, from place `at` on, one row after the other to out;
 * scatter_columns copies them back. */
static void gather_columns(float *out, void *const *row, uint32_t rows, size_t at, size_t n)
{
	if (n == 1)
		for (uint32_t i = 0; i < rows; i++)
			out[i] = ((const float *)row[i])[at];
	else
		for (uint32_t i = 0; i < rows; i++)
			copy_floats(out + i * n, (const float *)row[i] + at, n);
}

static void scatter_columns(const float *x, void *const *row, uint32_t rows, size_t at, size_t n)
{
	if (n == 1)
		for (uint32_t i = 0; i < rows; i++)
			((float *)row[i])[at] = x[i];
	else
		for (uint32_t i = 0; i < rows; i++)
			copy_floats((float *)row[i] + at, x + i * n, n);
}

/* ---- updates ---- */

/* A block of rows to be updated in this order. */
struct update {
	const struct optim_hyper *h;
	const struct optim_gradient *mean; /* scale and examples; its values are not used */
	/* How many examples touch each row; unset where `has_touching` is false. */
	bool has_touching;
	uint32_t touching[ROWS_BLOCK];
	uint32_t n;
	const uint8_t *ids;
	/* No row is in the block twice. */
	bool distinct;
	/* The gradients of all rows, one after the other; or NULL. */
	const float *g;
	const float *each[ROWS_BLOCK]; /* then the gradient of each row */
};

/* Saves the rows as they are for pulls of the step before. False: no memory. */
static bool save_previous_rows(struct part *p, const struct update *u, void *const *row)
{
	void *old[ROWS_BLOCK];
	uint64_t made;
	bool good = rows_make(p->sparse.prev, u->ids, u->n, old, &made);

	for (; made; made &= made - 1) {
		int i = __builtin_ctzll(made);

		copy_floats(old[i], row[i], p->table->cols);
	}
	return good;
}

/* The gradient of the block's row i. */
static const float *row_gradient(const struct part *p, const struct update *u, uint32_t i)
{
	return u->g ? u->g + (size_t)i * p->table->cols : u->each[i];
}

/* These gradients of the block's rows from row i on, as the rule wants them. */
static struct optim_gradient block_gradient(const struct part *p, const struct update *u,
    const float *values, uint32_t i)
{
	return (struct optim_gradient){ values, u->mean->scale, u->mean->examples,
		u->has_touching ? u->touching[i] : 0, p->table->cols };
}

/* The first row after i that another number of examples touches. */
static uint32_t end_of_equals(const struct update *u, uint32_t i)
{
	uint32_t j = i + 1;

	if (!u->has_touching)
		return u->n;
	while (j < u->n && u->touching[j] == u->touching[i])
		j++;
	return j;
}

/* Calls the rule for each row by itself. */
static void step_rows_singly(struct part *p, const struct update *u, void *const *row)
{
	uint32_t cols = p->table->cols;
	float *vector[OPTIM_VECTORS_MAX];

	for (uint32_t i = 0; i < u->n; i++) {
		struct optim_gradient g = block_gradient(p, u, row_gradient(p, u, i), i);
		float *w = row[i];

		part_state_vectors(w + cols, cols, cols, p->optim.rule, vector);
		if (row_layout_has(&p->sparse.layout, ROW_CHANGED))
			memcpy(p->sparse.former, w, cols * sizeof *w);
		p->optim.rule->step(u->h, p->version + 1 - p->rule_began, p->table->decay, cols, w,
		    vector, &g);
		if (row_layout_has(&p->sparse.layout, ROW_CHANGED) &&
		    memcmp(w, p->sparse.former, cols * sizeof *w))
			part_row_changed(p, row[i]);
	}
}

/* Does the same for narrow rows, each at most once: gathers them, calls the rule once, and scatters
 * them. */
static void step_rows_together(struct part *p, const struct update *u, void *const *row)
{
	float w[TOGETHER], g[TOGETHER], was[TOGETHER], state[OPTIM_VECTORS_MAX][TOGETHER];
	float *vector[OPTIM_VECTORS_MAX] = { state[0], state[1], state[2] };
	uint32_t nvectors = p->optim.rule->nvectors, cols = p->table->cols;
	size_t all = (size_t)u->n * cols, each[OPTIM_VECTORS_MAX] = { 0 }, place = cols;

	gather_columns(w, row, u->n, 0, cols);
	for (uint32_t k = 0; k < nvectors; place += each[k], k++) {
		each[k] = optim_vector_floats(p->optim.rule, k, cols, cols);
		gather_columns(vector[k], row, u->n, place, each[k]);
	}
	for (uint32_t i = 0; !u->g && i < u->n; i++)
		copy_floats(g + i * cols, u->each[i], cols);
	if (row_layout_has(&p->sparse.layout, ROW_CHANGED))
		memcpy(was, w, all * sizeof *w);
	for (uint32_t i = 0, end; i < u->n; i = end) {
		size_t at = (size_t)i * cols;
		float *const some[OPTIM_VECTORS_MAX] = { state[0] + i * each[0],
			state[1] + i * each[1], state[2] + i * each[2] };
		struct optim_gradient mean = block_gradient(p, u, (u->g ? u->g : g) + at, i);

		end = end_of_equals(u, i);
		p->optim.rule->step(u->h, p->version + 1 - p->rule_began, p->table->decay,
		    (size_t)(end - i) * cols, w + at, some, &mean);
	}
	scatter_columns(w, row, u->n, 0, cols);
	place = cols;
	for (uint32_t k = 0; k < nvectors; place += each[k], k++)
		scatter_columns(vector[k], row, u->n, place, each[k]);
	for (uint32_t i = 0; row_layout_has(&p->sparse.layout, ROW_CHANGED) && i < u->n; i++)
		if (memcmp(row[i], was + i * cols, cols * sizeof *was))
			part_row_changed(p, row[i]);
}

/* Writes the initial values and the rule's initial state to the rows whose bits are set in
 * `made`. */
static void init_new_rows(const struct part *p, const uint8_t *ids, void *const *row, uint64_t made)
{
	uint64_t base = init_base(p->table);
	uint32_t cols = p->table->cols;

	for (; made; made &= made - 1) {
		uint32_t i = (uint32_t)__builtin_ctzll(made);

		init_fill_by(p->table, base, init_row_place(p->table, read_row_id(ids, i)), cols,
		    row[i]);
		part_init_state(p->optim.rule, cols, cols, (float *)row[i] + cols);
	}
}

/* Stores the new rows as they are: the update ends without memory. */
static void put_new_rows(struct part *p, const uint8_t *ids, void *const *row, uint64_t made)
{
	for (; made; made &= made - 1) {
		int i = __builtin_ctzll(made);

		row_store_put(p->sparse.store, p->version, ids + (size_t)i * 8, 1, row + i);
	}
}

/* Updates the rows of a block, and makes those that do not exist. False: no memory. */
static bool update_rows(struct part *p, const struct update *u)
{
	struct row_store *store = p->sparse.store;
	void *row[ROWS_BLOCK];
	uint64_t made;
	bool good;

	part_rows_begin_block(p);
	good = store->ops->make_many(store, u->ids, u->n, row, &made);
	if (made)
		init_new_rows(p, u->ids, row, made);
	if (!good || (p->sparse.prev && !save_previous_rows(p, u, row))) {
		put_new_rows(p, u->ids, row, made);
		return false;
	}
	if (u->distinct && p->table->cols <= NARROW)
		step_rows_together(p, u, row);
	else
		step_rows_singly(p, u, row);
	if (p->sparse.policy_state)
		row_policy_state_note_update(p, u->ids, row, u->n, made);
	/* A row that is made may differ from its initial values even if the rule leaves them alone:
	 * it was removed before, or the store rounds them. */
	if (row_layout_has(&p->sparse.layout, ROW_CHANGED) &&
	    (p->sparse.policy_state || store->ops->put_many))
		for (; made; made &= made - 1)
			part_row_changed(p, row[__builtin_ctzll(made)]);
	row_store_put(store, p->version, u->ids, u->n, row);
	return true;
}

/* Updates those rows of a block that exist or are admitted by the row policy. */
static bool update_chosen(struct part *p, const struct update *u)
{
	struct update some = { .h = u->h,
		.mean = u->mean,
		.has_touching = u->has_touching,
		.distinct = u->distinct };
	uint32_t place[ROWS_BLOCK];
	uint64_t ids[ROWS_BLOCK];

	some.n = row_policy_state_choose(p, u->ids, u->n, place);
	if (some.n == u->n)
		return update_rows(p, u);
	some.ids = (const uint8_t *)ids;
	for (uint32_t i = 0; i < some.n; i++) {
		ids[i] = read_row_id(u->ids, place[i]);
		some.each[i] = row_gradient(p, u, place[i]);
		some.touching[i] = u->has_touching ? u->touching[place[i]] : 0;
	}
	return !some.n || update_rows(p, &some);
}

/* Updates one block of at most ROWS_BLOCK rows, after the row policy has chosen among them.
 * False: no memory. */
static bool update_block(struct part *p, const struct update *u)
{
	return p->sparse.policy_state ? update_chosen(p, u) : update_rows(p, u);
}

bool part_rows_update(struct part *p, const struct optim_hyper *h, const uint8_t *ids, uint32_t n,
    const uint8_t *touching, const struct optim_gradient *g)
{
	struct update u = { .h = h, .mean = g, .has_touching = touching };
	uint32_t most = rows_per_block(p, 1 + p->optim.rule->nvectors);

	mutex_assert_held(&p->lock);
	for (uint32_t at = 0; at < n; at += u.n) {
		u.n = min_u32(n - at, most);
		u.ids = ids + (size_t)at * 8;
		u.g = g->values + (size_t)at * p->table->cols;
		u.distinct = ids_ascend(u.ids, u.n);
		for (uint32_t i = 0; touching && i < u.n; i++)
			u.touching[i] = get_le32(touching + (size_t)(at + i) * PAYLOAD_COUNT_BYTES);
		if (!update_block(p, &u))
			return false;
	}
	return !n || !p->sparse.policy_state || row_policy_state_end_update(p);
}

uint32_t part_rows_touching(const struct part *p, uint64_t id)
{
	const void *row = p->sum.has_touching ? rows_get(p->sparse.touched, id) : NULL;
	uint32_t n = 0;

	mutex_assert_held(&p->lock);
	if (!p->sum.has_touching)
		return 0;
	if (row)
		memcpy(&n, row, sizeof n);
	return p->sum.uncounted < UINT32_MAX - n ? n + (uint32_t)p->sum.uncounted : UINT32_MAX;
}

bool part_rows_update_from_sum(struct part *p, const struct optim_hyper *h,
    const struct optim_gradient *g)
{
	uint32_t n = (uint32_t)rows_count(p->sparse.acc),
	         most = rows_per_block(p, 2 + p->optim.rule->nvectors);
	struct update u = { .h = h,
		.mean = g,
		.has_touching = p->sum.has_touching,
		.distinct = true };
	uint64_t ids[ROWS_BLOCK];

	mutex_assert_held(&p->lock);
	for (uint32_t at = 0; at < n; at += u.n) {
		u.n = min_u32(n - at, most);
		u.ids = (const uint8_t *)ids;
		for (uint32_t i = 0; i < u.n; i++)
			u.each[i] = rows_at(p->sparse.acc, at + i, &ids[i]);
		for (uint32_t i = 0; u.has_touching && i < u.n; i++)
			u.touching[i] = part_rows_touching(p, ids[i]);
		if (!update_block(p, &u))
			return false;
	}
	return !p->sparse.policy_state || row_policy_state_end_update(p);
}

/* ---- another rule ---- */

/* Rows of one rule are converted to another one. */
struct conversion {
	const struct part *p;
	const struct optim_rule *rule;
	struct row_layout to;
};

/* For row_store_ops.convert: fills a row with the values, the state that the rules share, and the
 * words. */
static void convert_row(void *ctx, void *from, void *to)
{
	const struct conversion *x = ctx;
	const struct row_layout *had = &x->p->sparse.layout;
	size_t cols = had->values, begin = had->floats * sizeof(float);
	float *old = from, *new = to;

	memcpy(new, old, cols * sizeof *new);
	settings_epoch_carry_state(x->rule, x->p->optim.rule, cols, cols, old + cols, new + cols);
	memcpy(new + x->to.floats, (const uint8_t *)from + begin, had->bytes - begin);
}

void part_rows_set_rule(struct part *p, const struct shard *s, const struct optim_rule *rule)
{
	struct conversion x = { p, rule, part_rows_layout(p, &s->cfg, rule) };

	mutex_assert_held(&p->lock);
	/* All servers have agreed on the change, so without memory this one ends. */
	if (!p->sparse.store->ops->convert(p->sparse.store, &x.to, convert_row, &x))
		mem_fail();
	p->sparse.layout = x.to;
}

/* ---- pushes ---- */

/* The decoded values of all rows of a push: in the payload, or in *room, which the caller frees.
 * NULL: no memory. */
static const float *decode_row_values(const struct part *p, const struct push *push, float **room)
{
	const struct codec *codec = codec_by_id(push->codec);
	size_t n = (size_t)push->nrows * p->table->cols;

	*room = codec->raw_values ? NULL : mem_try_array(n + 1, sizeof **room);
	return codec->raw_values || *room ? codec_decode(codec, push->payload, push->len, n, *room)
	                                  : NULL;
}

/* Adds weight * g to the sums of a block of rows. False: no memory. */
static bool accumulate_block(struct part *p, const uint8_t *ids, uint32_t n, float weight,
    const float *g)
{
	uint32_t cols = p->table->cols;
	float x[TOGETHER];
	void *acc[ROWS_BLOCK];
	uint64_t made;

	if (!rows_make(p->sparse.acc, ids, n, acc, &made))
		return false;
	if (cols > NARROW || !ids_ascend(ids, n)) {
		for (uint32_t i = 0; i < n; i++)
			vec_axpy(cols, weight, g + (size_t)i * cols, acc[i]);
		return true;
	}
	gather_columns(x, acc, n, 0, cols);
	vec_axpy((size_t)n * cols, weight, g, x);
	scatter_columns(x, acc, n, 0, cols);
	return true;
}

/* Adds how many examples of the push touch each row. False: no memory. */
static bool add_touching(struct part *p, const struct push *push)
{
	if (!p->sparse.touched)
		p->sparse.touched = rows_new(sizeof(uint32_t));
	p->sum.has_touching = true;
	for (uint32_t i = 0; i < push->nrows; i++) {
		bool made;
		void *row = rows_put(p->sparse.touched, read_row_id(push->ids, i), &made);
		uint32_t n, more = get_le32(push->touching + (size_t)i * PAYLOAD_COUNT_BYTES);

		if (!row)
			return false;
		memcpy(&n, row, sizeof n);
		n = more < UINT32_MAX - n ? n + more : UINT32_MAX;
		memcpy(row, &n, sizeof n);
	}
	return true;
}

bool part_rows_accumulate(struct part *p, const struct push *push)
{
	uint32_t most = rows_per_block(p, 1);
	float *room;
	const float *g = decode_row_values(p, push, &room);
	bool good = g && (!push->touching || add_touching(p, push));

	mutex_assert_held(&p->lock);
	for (uint32_t at = 0; good && at < push->nrows; at += most)
		good = accumulate_block(p, push->ids + (size_t)at * 8,
		    min_u32(push->nrows - at, most), (float)push->examples,
		    g + (size_t)at * p->table->cols);
	free(room);
	return good;
}

bool part_rows_apply(struct part *p, const struct optim_hyper *h, const struct push *push)
{
	float *room;
	struct optim_gradient g = { decode_row_values(p, push, &room), 1,
		push->examples ? push->examples : 1, 0, 0 };
	bool good = g.values && part_rows_update(p, h, push->ids, push->nrows, push->touching, &g);

	mutex_assert_held(&p->lock);
	free(room);
	return good;
}

/* ---- pulls ---- */

/* Writes a block of rows as a pull gets them. row gets the rows, or NULL. */
static void show_block(const struct part *p, bool previous, const uint8_t *ids, uint32_t n,
    void **row, float *out)
{
	uint32_t cols = p->table->cols;
	void *old[ROWS_BLOCK];
	uint64_t base = 0;
	bool based = false;

	p->sparse.store->ops->get_many(p->sparse.store, ids, n, row);
	if (previous)
		rows_find(p->sparse.prev, ids, n, old);
	for (uint32_t i = 0; i < n; i++, out += cols) {
		if (row[i] || (previous && old[i])) {
			copy_floats(out, previous && old[i] ? old[i] : row[i], cols);
			continue;
		}
		base = based ? base : init_base(p->table);
		based = true;
		init_fill_by(p->table, base, init_row_place(p->table, read_row_id(ids, i)), cols,
		    out);
	}
}

void part_rows_show(const struct part *p, bool previous, struct row_read *x)
{
	uint32_t most = rows_per_block(p, 1);
	void *row[ROWS_BLOCK];

	mutex_assert_held(&p->lock);
	x->version = previous ? p->prev_version : p->version;
	x->changed = 0;
	for (uint32_t at = 0, m; at < x->n; at += m) {
		m = min_u32(x->n - at, most);
		show_block(p, previous, x->ids + (size_t)at * 8, m, row,
		    x->out + (size_t)at * p->table->cols);
		for (uint32_t i = 0; x->there && i < m; i++)
			x->there[at + i] = row[i] != NULL;
		for (uint32_t i = 0; x->since && i < m; i++)
			if (row_may_differ(p, row[i], x->since[at + i], x->version))
				x->place[x->changed++] = at + i;
	}
}
