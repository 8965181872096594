/* SPDX-License-Identifier: ISC */
#include "core/endian.h"
#include "core/mem.h"
#include "codec/codec.h"
#include "codec/since.h"
#include "layout/init.h"
#include "math/copy.h"
#include "math/vec.h"
#include "shard/settings_epoch.h"
#include "shard/row_policy_state.h"
#include "wire/payload.h"

/* The rows of a sparse partition. They are looked up, and narrow ones updated, a block at a time:
 * applying a rule to the values of many rows one after the other gives the same bits as a call for
 * each row, because the rules work on each value by itself. */

/* Rows of at most so many values are updated together. */
#define NARROW   16u
#define TOGETHER (ROWS_BLOCK * NARROW)
/* Bytes of a block of rows, so that it stays in the first-level cache. */
#define BLOCK_BYTES 16384u

/* Sets sparse.layout for this rule. The policy's state must be there already, because it decides
 * whether rows have ROW_SEEN. */
static void lay_out_row(struct part *p, const struct optim_rule *rule, bool deltas)
{
	uint32_t cols = p->table->cols,
	         floats = cols + (uint32_t)optim_state_floats(rule, cols, cols);
	bool dates = p->sparse.policy_state && row_policy_dates(p->sparse.policy_state->policy);

	p->sparse.layout = row_layout_make(floats, dates, deltas);
}

void part_rows_alloc(struct part *p, const struct shard_config *cfg)
{
	uint32_t cols = p->table->cols;

	mutex_assert_held(&p->lock);
	p->sparse.policy_state = row_policy_state_new(p->table, cfg->jobless);
	lay_out_row(p, p->optim.rule, cfg->deltas);
	p->sparse.rows = rows_new(p->sparse.layout.stride);
	p->sparse.prev = cfg->deterministic ? rows_new(cols) : NULL;
	p->sparse.former = cfg->deltas ? mem_array(cols, sizeof *p->sparse.former) : NULL;
	p->sparse.known_since = p->version;
}

void part_rows_free(struct part *p)
{
	mutex_assert_held(&p->lock);
	rows_free(p->sparse.rows);
	rows_free(p->sparse.acc);
	rows_free(p->sparse.prev);
	rows_free(p->sparse.touched);
	p->sparse.touched = NULL;
	p->sparse.rows = p->sparse.acc = p->sparse.prev = NULL;
	free(p->sparse.former);
	p->sparse.former = NULL;
	row_policy_state_free(p->sparse.policy_state);
	p->sparse.policy_state = NULL;
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
	if (p->dense.stamps)
		change_log_reset(p->dense.stamps, p->version);
	p->sparse.known_since = p->version;
}

/* The stamp of a row: version of its last change - known_since; 0: not changed since. */
static uint32_t row_stamp(const struct part *p, const float *row)
{
	return row_layout_get(&p->sparse.layout, row, ROW_CHANGED);
}

static void set_row_stamp(const struct part *p, float *row, uint32_t stamp)
{
	row_layout_set(&p->sparse.layout, row, ROW_CHANGED, stamp);
}

void part_forget_rows(struct part *p)
{
	uint64_t id;

	mutex_assert_held(&p->lock);
	for (size_t i = 0;
	     row_layout_has(&p->sparse.layout, ROW_CHANGED) && i < rows_count(p->sparse.rows); i++)
		set_row_stamp(p, rows_at(p->sparse.rows, i, &id), 0);
	p->sparse.known_since = p->version;
}

/* Stamps have 32 bits: when they are used up, all changes are forgotten. */
void part_row_changed(struct part *p, float *row)
{
	mutex_assert_held(&p->lock);
	if (p->version + 1 - p->sparse.known_since > UINT32_MAX)
		part_forget_rows(p);
	set_row_stamp(p, row, (uint32_t)(p->version + 1 - p->sparse.known_since));
}

/* May the row, as shown at `version`, differ from what it was at version `since`? row NULL: it does
 * not exist, but may have been removed. */
static bool row_may_differ(const struct part *p, const float *row, uint64_t since, uint64_t version)
{
	/* SINCE_NEVER is greater than every version. */
	if (!row_layout_has(&p->sparse.layout, ROW_CHANGED) || since > version ||
	    since < p->sparse.known_since)
		return true;
	return row ? row_stamp(p, row) > since - p->sparse.known_since
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
static void gather_columns(float *out, float *const *row, uint32_t rows, size_t at, size_t n)
{
	if (n == 1)
		for (uint32_t i = 0; i < rows; i++)
			out[i] = row[i][at];
	else
		for (uint32_t i = 0; i < rows; i++)
			copy_floats(out + i * n, row[i] + at, n);
}

static void scatter_columns(const float *x, float *const *row, uint32_t rows, size_t at, size_t n)
{
	if (n == 1)
		for (uint32_t i = 0; i < rows; i++)
			row[i][at] = x[i];
	else
		for (uint32_t i = 0; i < rows; i++)
			copy_floats(row[i] + at, x + i * n, n);
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
static bool save_previous_rows(struct part *p, const struct update *u, float *const *row)
{
	float *old[ROWS_BLOCK];
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

/* The first row behind i that another number of examples touches. */
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
static void step_rows_singly(struct part *p, const struct update *u, float *const *row)
{
	uint32_t cols = p->table->cols;
	float *vector[OPTIM_VECTORS_MAX];

	for (uint32_t i = 0; i < u->n; i++) {
		struct optim_gradient g = block_gradient(p, u, row_gradient(p, u, i), i);

		part_state_vectors(row[i] + cols, cols, cols, p->optim.rule, vector);
		if (row_layout_has(&p->sparse.layout, ROW_CHANGED))
			memcpy(p->sparse.former, row[i], cols * sizeof **row);
		p->optim.rule->step(u->h, p->version + 1 - p->rule_began, p->table->decay, cols,
		    row[i], vector, &g);
		if (row_layout_has(&p->sparse.layout, ROW_CHANGED) &&
		    memcmp(row[i], p->sparse.former, cols * sizeof **row))
			part_row_changed(p, row[i]);
	}
}

/* Does the same for narrow rows, each at most once: gathers them, calls the rule once, and scatters
 * them. */
static void step_rows_together(struct part *p, const struct update *u, float *const *row)
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
		if (memcmp(row[i], was + i * cols, cols * sizeof **row))
			part_row_changed(p, row[i]);
}

/* Writes the initial values and the rule's initial state to the rows whose bits are set in `made`. */
static void init_new_rows(const struct part *p, const uint8_t *ids, float *const *row,
    uint64_t made)
{
	uint64_t base = init_base(p->table);
	uint32_t cols = p->table->cols;

	for (; made; made &= made - 1) {
		uint32_t i = (uint32_t)__builtin_ctzll(made);

		init_fill_by(p->table, base, init_row_place(p->table, read_row_id(ids, i)), cols,
		    row[i]);
		part_init_state(p->optim.rule, cols, cols, row[i] + cols);
	}
}

/* Updates the rows of a block, and makes those that do not exist. False: no memory. */
static bool update_rows(struct part *p, const struct update *u)
{
	float *row[ROWS_BLOCK];
	uint64_t made;
	bool good = rows_make(p->sparse.rows, u->ids, u->n, row, &made);

	if (made)
		init_new_rows(p, u->ids, row, made);
	if (!good || (p->sparse.prev && !save_previous_rows(p, u, row)))
		return false;
	if (u->distinct && p->table->cols <= NARROW)
		step_rows_together(p, u, row);
	else
		step_rows_singly(p, u, row);
	if (!p->sparse.policy_state)
		return true;
	row_policy_state_note_update(p, row, u->n, made);
	for (; made && row_layout_has(&p->sparse.layout, ROW_CHANGED); made &= made - 1)
		part_row_changed(p, row[__builtin_ctzll(made)]);
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
	const float *row = p->sum.has_touching ? rows_get(p->sparse.touched, id) : NULL;
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

/* Replaces p->sparse.rows by rows with the state of `rule`; the hidden fields stay. */
static void convert_rows_to_rule(struct part *p, const struct optim_rule *rule)
{
	uint32_t cols = p->table->cols, had = p->sparse.layout.floats,
	         has = cols + (uint32_t)optim_state_floats(rule, cols, cols),
	         hidden = p->sparse.layout.stride - had;
	struct rows *rows = rows_new(has + hidden);

	for (size_t i = 0; i < rows_count(p->sparse.rows); i++) {
		bool made;
		uint64_t id;
		float *from = rows_at(p->sparse.rows, i, &id);
		float *to = rows_put(rows, id, &made);

		/* All servers have agreed on the change, so without memory this one ends. */
		if (!to)
			mem_fail();
		memcpy(to, from, cols * sizeof *to);
		settings_epoch_carry_state(rule, p->optim.rule, cols, cols, from + cols, to + cols);
		memcpy(to + has, from + had, hidden * sizeof *to);
	}
	rows_free(p->sparse.rows);
	p->sparse.rows = rows;
}

void part_rows_set_rule(struct part *p, const struct shard *s, const struct optim_rule *rule)
{
	mutex_assert_held(&p->lock);
	convert_rows_to_rule(p, rule);
	lay_out_row(p, rule, s->cfg.deltas);
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
	float *acc[ROWS_BLOCK], x[TOGETHER];
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

/* Adds how many examples of the push touch each row. A place of a row is 4 bytes. False: no
 * memory. */
static bool add_touching(struct part *p, const struct push *push)
{
	if (!p->sparse.touched)
		p->sparse.touched = rows_new(1);
	p->sum.has_touching = true;
	for (uint32_t i = 0; i < push->nrows; i++) {
		bool made;
		float *row = rows_put(p->sparse.touched, read_row_id(push->ids, i), &made);
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
    float **row, float *out)
{
	uint32_t cols = p->table->cols;
	float *old[ROWS_BLOCK];
	uint64_t base = 0;
	bool based = false;

	rows_find(p->sparse.rows, ids, n, row);
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

uint32_t part_rows_show(const struct part *p, bool previous, const uint8_t *ids, uint32_t n,
    const uint64_t *since, float *out, uint32_t *place, uint64_t *version)
{
	uint32_t most = rows_per_block(p, 1), k = 0;
	float *row[ROWS_BLOCK];

	mutex_assert_held(&p->lock);
	*version = previous ? p->prev_version : p->version;
	for (uint32_t at = 0, m; at < n; at += m) {
		m = min_u32(n - at, most);
		show_block(p, previous, ids + (size_t)at * 8, m, row,
		    out + (size_t)at * p->table->cols);
		for (uint32_t i = 0; since && i < m; i++)
			if (row_may_differ(p, row[i], since[at + i], *version))
				place[k++] = at + i;
	}
	return k;
}
