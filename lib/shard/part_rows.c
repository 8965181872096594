#include "base/mem.h"
#include "codec/codec.h"
#include "codec/since.h"
#include "kern/copy.h"
#include "kern/vec.h"
#include "shard/hand.h"
#include "shard/life.h"
#include "shard/regime.h"
#include "shard/width.h"

/* A partition's rows, where its table is sparse.  They are looked up, and narrow ones
 * updated, a block at a time: a rule's step over the values of many rows one after the
 * other gives the bits of a step for each, as no value of a rule depends on another. */

/* Rows of no more values are updated together. */
#define NARROW 16u
#define TOGETHER (ROWS_BLOCK * NARROW)
/* Of a block, so that it stays in the first cache. */
#define BLOCK_BYTES 16384u

/* What of a row is in copies comes first, then what is this copy's own. */
static void lay_out(struct part *p, const struct optim_rule *rule, bool deltas)
{
	uint32_t floats = p->narrow * (1 + rule->nslots);
	bool dates = p->life && policy_dates(p->life->policy), counts = width_cols(p);

	p->seen_at = dates ? floats : 0;
	p->updates_at = counts ? floats + dates : 0;
	p->stamp_at = deltas ? floats + dates + counts : 0;
	p->stride = floats + dates + counts + deltas;
}

size_t part_rows_copied(const struct part *p)
{
	return p->stride - (p->stamp_at != 0);
}

void part_rows_alloc(struct part *p, const struct shard_config *cfg)
{
	uint32_t cols = p->table->cols;
	bool deltas = cfg->deltas && !cfg->relay;

	p->life = cfg->relay ? NULL : life_new(p->table, cfg->jobless);
	p->narrow = p->life ? table_first_cols(p->table) : cols;
	lay_out(p, p->by->rule, deltas);
	width_alloc(p, p->by->rule);
	p->rows = rows_new(cfg->relay ? hand_stride(cols) : p->stride);
	p->prev_rows = cfg->deterministic ? rows_new(cols) : NULL;
	p->was = deltas ? mem_array(cols, sizeof *p->was) : NULL;
	p->known_since = p->version;
}

void part_rows_free(struct part *p)
{
	rows_free(p->rows);
	rows_free(p->acc_rows);
	rows_free(p->prev_rows);
	rows_free(p->rest);
	p->rows = p->acc_rows = p->prev_rows = p->rest = NULL;
	free(p->was);
	p->was = NULL;
	life_free(p->life);
	p->life = NULL;
}

static uint64_t id_at(const uint8_t *ids, uint32_t i)
{
	uint64_t id;

	memcpy(&id, ids + (size_t)i * 8, sizeof id);
	return id;
}

/* ---- what has changed ---------------------------------------------------------------- */

void part_forget_changes(struct part *p)
{
	if (p->stamps)
		stamps_reset(p->stamps, p->version);
	p->known_since = p->version;
}

static uint32_t stamp_of(const struct part *p, const float *row)
{
	uint32_t stamp;

	memcpy(&stamp, row + p->stamp_at, sizeof stamp);
	return stamp;
}

static void stamp(const struct part *p, float *row, uint32_t stamp)
{
	memcpy(row + p->stamp_at, &stamp, sizeof stamp);
}

void part_forget_rows(struct part *p)
{
	uint64_t id;

	for (size_t i = 0; p->stamp_at && i < rows_count(p->rows); i++)
		stamp(p, rows_at(p->rows, i, &id), 0);
	p->known_since = p->version;
}

void part_row_changed(struct part *p, float *row)
{
	if (p->version + 1 - p->known_since > UINT32_MAX)
		part_forget_rows(p);
	stamp(p, row, (uint32_t)(p->version + 1 - p->known_since));
}

/* May it be another one than as of version `since`, when it is shown as of `version`? */
static bool may_differ(const struct part *p, const float *row, uint64_t since, uint64_t version)
{
	/* SINCE_NEVER is above every version. */
	if (!p->stamp_at || since > version || since < p->known_since)
		return true;
	return row ? stamp_of(p, row) > since - p->known_since : p->life && since < p->life->removed_version;
}

/* ---- blocks -------------------------------------------------------------------------- */

/* Rows that are looked up together. */
static uint32_t block_of(const struct part *p, unsigned copies)
{
	uint32_t most = BLOCK_BYTES / (8 + p->table->cols * 4 * copies);

	return most >= ROWS_BLOCK ? ROWS_BLOCK : most > 4 ? most : 4;
}

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* No two of them are the same row. */
static bool ascend(const uint8_t *ids, uint32_t n)
{
	bool good = true;

	for (uint32_t i = 1; i < n; i++)
		good &= id_at(ids, i) > id_at(ids, i - 1);
	return good;
}

/* n floats of each row from its place `at` on, one row after the other; and back. */
static void gather(float *out, float *const *row, uint32_t rows, size_t at, size_t n)
{
	if (n == 1)
		for (uint32_t i = 0; i < rows; i++)
			out[i] = row[i][at];
	else
		for (uint32_t i = 0; i < rows; i++)
			copy_floats(out + i * n, row[i] + at, n);
}

static void scatter(const float *x, float *const *row, uint32_t rows, size_t at, size_t n)
{
	if (n == 1)
		for (uint32_t i = 0; i < rows; i++)
			row[i][at] = x[i];
	else
		for (uint32_t i = 0; i < rows; i++)
			copy_floats(row[i] + at, x + i * n, n);
}

/* ---- updates ------------------------------------------------------------------------- */

/* Rows to be updated, no more than a block, each once or in this order. */
struct update {
	const struct optim_hyper *h;
	float scale;
	uint32_t n;
	const uint8_t *ids;
	bool distinct;
	const float *g;                 /* of all, one after the other; or NULL */
	const float *each[ROWS_BLOCK];  /* then of each */
};

/* What the rows were, for those who still ask for it. */
static bool keep_rows(struct part *p, const struct update *u, float *const *row)
{
	float *old[ROWS_BLOCK];
	uint64_t made;
	bool good = rows_make(p->prev_rows, u->ids, u->n, old, &made);

	for (; made; made &= made - 1) {
		int i = __builtin_ctzll(made);

		width_row(p, id_at(u->ids, (uint32_t)i), row[i], old[i]);
	}
	return good;
}

static const float *gradient(const struct part *p, const struct update *u, uint32_t i)
{
	return u->g ? u->g + (size_t)i * p->table->cols : u->each[i];
}

/* So many columns of each row; head: those of p->rows, which say when they were changed. */
static void step_each(struct part *p, const struct update *u, uint32_t cols, float *const *row, float *const *head)
{
	float *slot[OPTIM_MAX_SLOTS];

	for (uint32_t i = 0; i < u->n; i++) {
		part_slots(row[i] + cols, cols, p->by->rule, slot);
		if (p->stamp_at)
			memcpy(p->was, row[i], cols * sizeof **row);
		p->by->rule->step(u->h, p->version + 1 - p->born, p->table->decay, cols, row[i], slot, gradient(p, u, i), u->scale);
		if (p->stamp_at && memcmp(row[i], p->was, cols * sizeof **row))
			part_row_changed(p, head[i]);
	}
}

static void step_together(struct part *p, const struct update *u, uint32_t cols, float *const *row, float *const *head)
{
	float w[TOGETHER], g[TOGETHER], was[TOGETHER], state[OPTIM_MAX_SLOTS][TOGETHER];
	float *slot[OPTIM_MAX_SLOTS] = { state[0], state[1], state[2] };
	const float *whole = p->rest ? NULL : u->g;
	uint32_t nslots = p->by->rule->nslots;
	size_t all = (size_t)u->n * cols;

	gather(w, row, u->n, 0, cols);
	for (uint32_t k = 0; k < nslots; k++)
		gather(slot[k], row, u->n, (k + 1) * cols, cols);
	for (uint32_t i = 0; !whole && i < u->n; i++)
		copy_floats(g + i * cols, gradient(p, u, i), cols);
	if (p->stamp_at)
		memcpy(was, w, all * sizeof *w);
	p->by->rule->step(u->h, p->version + 1 - p->born, p->table->decay, all, w, slot, whole ? whole : g, u->scale);
	scatter(w, row, u->n, 0, cols);
	for (uint32_t k = 0; k < nslots; k++)
		scatter(slot[k], row, u->n, (k + 1) * cols, cols);
	for (uint32_t i = 0; p->stamp_at && i < u->n; i++)
		if (memcmp(row[i], was + i * cols, cols * sizeof **row))
			part_row_changed(p, head[i]);
}

static void step(struct part *p, const struct update *u, uint32_t cols, float *const *row, float *const *head)
{
	if (u->distinct && cols <= NARROW)
		step_together(p, u, cols, row, head);
	else
		step_each(p, u, cols, row, head);
}

/* The columns that narrow rows have not, of those that have had them before. */
static bool update_rest(struct part *p, const struct update *u, float *const *row)
{
	struct update some = { .h = u->h, .scale = u->scale, .distinct = u->distinct };
	float *rest[ROWS_BLOCK], *head[ROWS_BLOCK];
	uint32_t place[ROWS_BLOCK];
	uint64_t ids[ROWS_BLOCK], widened;

	if (!width_turn(p, u->ids, row, u->n, place, &some.n, &widened))
		return false;
	for (uint32_t i = 0; i < some.n; i++) {
		ids[i] = id_at(u->ids, place[i]);
		head[i] = row[place[i]];
		some.each[i] = gradient(p, u, place[i]) + p->narrow;
	}
	if (some.n) {
		rows_find(p->rest, (const uint8_t *)ids, some.n, rest);
		step(p, &some, width_cols(p), rest, head);
	}
	for (; widened && p->stamp_at; widened &= widened - 1)
		part_row_changed(p, row[__builtin_ctzll(widened)]);
	return true;
}

static bool update_rows(struct part *p, const struct update *u)
{
	float *row[ROWS_BLOCK];
	uint64_t made;
	bool good = rows_make(p->rows, u->ids, u->n, row, &made);

	if (made)
		width_begin(p, u->ids, row, made, 0, p->narrow);
	if (!good || (p->prev_rows && !keep_rows(p, u, row)))
		return false;
	step(p, u, p->narrow, row, row);
	if (!p->life)
		return true;
	if (p->rest && !update_rest(p, u, row))
		return false;
	life_touch(p, row, u->n, made);
	for (; made && p->stamp_at; made &= made - 1)
		part_row_changed(p, row[__builtin_ctzll(made)]);
	return true;
}

/* Those of them that have a row, or get one. */
static bool update_chosen(struct part *p, const struct update *u)
{
	struct update some = { .h = u->h, .scale = u->scale, .distinct = u->distinct };
	uint32_t place[ROWS_BLOCK];
	uint64_t ids[ROWS_BLOCK];

	some.n = life_choose(p, u->ids, u->n, place);
	if (some.n == u->n)
		return update_rows(p, u);
	some.ids = (const uint8_t *)ids;
	for (uint32_t i = 0; i < some.n; i++) {
		ids[i] = id_at(u->ids, place[i]);
		some.each[i] = gradient(p, u, place[i]);
	}
	return !some.n || update_rows(p, &some);
}

static bool update_block(struct part *p, const struct update *u)
{
	return p->life ? update_chosen(p, u) : update_rows(p, u);
}

bool part_rows_update(struct part *p, const struct optim_hyper *h, const uint8_t *ids, uint32_t n, const float *g, float scale)
{
	struct update u = { .h = h, .scale = scale };
	uint32_t most = block_of(p, 1 + p->by->rule->nslots);

	for (uint32_t at = 0; at < n; at += u.n) {
		u.n = least(n - at, most);
		u.ids = ids + (size_t)at * 8;
		u.g = g + (size_t)at * p->table->cols;
		u.distinct = ascend(u.ids, u.n);
		if (!update_block(p, &u))
			return false;
	}
	return !n || !p->life || life_turn(p);
}

bool part_rows_close(struct part *p, const struct optim_hyper *h, float scale)
{
	uint32_t n = (uint32_t)rows_count(p->acc_rows), most = block_of(p, 2 + p->by->rule->nslots);
	struct update u = { .h = h, .scale = scale, .distinct = true };
	uint64_t ids[ROWS_BLOCK];

	for (uint32_t at = 0; at < n; at += u.n) {
		u.n = least(n - at, most);
		u.ids = (const uint8_t *)ids;
		for (uint32_t i = 0; i < u.n; i++)
			u.each[i] = rows_at(p->acc_rows, at + i, &ids[i]);
		if (!update_block(p, &u))
			return false;
	}
	return !p->life || life_turn(p);
}

/* ---- another rule ---------------------------------------------------------------------- */

/* Rows of so many columns, with what lies behind their state. */
static struct rows *turned(const struct part *p, struct rows *old, const struct optim_rule *rule, uint32_t cols, uint32_t behind)
{
	uint32_t had = cols * (1 + p->by->rule->nslots), has = cols * (1 + rule->nslots);
	struct rows *rows = rows_new(has + behind);

	for (size_t i = 0; i < rows_count(old); i++) {
		bool made;
		uint64_t id;
		const float *from = rows_at(old, i, &id);
		float *to = rows_put(rows, id, &made);

		/* All servers have agreed: without memory this one ends. */
		if (!to)
			mem_fail();
		memcpy(to, from, cols * sizeof *to);
		regime_carry(rule, p->by->rule, cols, from + cols, to + cols);
		memcpy(to + has, from + had, behind * sizeof *to);
	}
	rows_free(old);
	return rows;
}

void part_rows_turn(struct part *p, const struct shard *s, const struct optim_rule *rule)
{
	p->rows = turned(p, p->rows, rule, p->narrow, p->stride - p->narrow * (1 + p->by->rule->nslots));
	if (p->rest)
		p->rest = turned(p, p->rest, rule, width_cols(p), 0);
	lay_out(p, rule, s->cfg.deltas);
}

/* ---- pushes -------------------------------------------------------------------------- */

/* The values of all rows: in place, or in *room, to be freed.  NULL: no memory. */
static const float *row_values(const struct part *p, const struct push *push, float **room)
{
	const struct codec *codec = codec_by_id(push->codec);
	size_t n = (size_t)push->nrows * p->table->cols;

	*room = codec->view ? NULL : mem_try_array(n + 1, sizeof **room);
	return codec->view || *room ? codec_values(codec, push->payload, push->len, n, *room) : NULL;
}

static bool add_block(struct part *p, const uint8_t *ids, uint32_t n, float weight, const float *g)
{
	uint32_t cols = p->table->cols;
	float *acc[ROWS_BLOCK], x[TOGETHER];
	uint64_t made;

	if (!rows_make(p->acc_rows, ids, n, acc, &made))
		return false;
	if (cols > NARROW || !ascend(ids, n)) {
		for (uint32_t i = 0; i < n; i++)
			vec_axpy(cols, weight, g + (size_t)i * cols, acc[i]);
		return true;
	}
	gather(x, acc, n, 0, cols);
	vec_axpy((size_t)n * cols, weight, g, x);
	scatter(x, acc, n, 0, cols);
	return true;
}

bool part_rows_accumulate(struct part *p, const struct push *push)
{
	uint32_t most = block_of(p, 1);
	float *room;
	const float *g = row_values(p, push, &room);
	bool good = g;

	for (uint32_t at = 0; good && at < push->nrows; at += most)
		good = add_block(p, push->ids + (size_t)at * 8, least(push->nrows - at, most), (float)push->examples,
		    g + (size_t)at * p->table->cols);
	free(room);
	return good;
}

bool part_rows_apply(struct part *p, const struct optim_hyper *h, const struct push *push)
{
	float *room;
	const float *g = row_values(p, push, &room);
	bool good = g && part_rows_update(p, h, push->ids, push->nrows, g, 1);

	free(room);
	return good;
}

/* ---- pulls --------------------------------------------------------------------------- */

static void show_block(const struct part *p, bool previous, const uint8_t *ids, uint32_t n, float **row, float *out)
{
	uint32_t cols = p->table->cols, narrow = p->narrow;
	float *old[ROWS_BLOCK];
	uint64_t base = 0;
	bool based = false;

	rows_find(p->rows, ids, n, row);
	if (previous)
		rows_find(p->prev_rows, ids, n, old);
	for (uint32_t i = 0; i < n; i++, out += cols) {
		if (row[i] || (previous && old[i])) {
			copy_floats(out, previous && old[i] ? old[i] : row[i], narrow);
			continue;
		}
		base = based ? base : init_base(p->table);
		based = true;
		init_fill_by(p->table, base, init_row_place(p->table, id_at(ids, i)), narrow, out);
	}
	if (!p->rest)
		return;
	out -= (size_t)n * cols;
	width_show(p, ids, row, n, out);
	for (uint32_t i = 0; previous && i < n; i++)
		if (old[i])
			copy_floats(out + (size_t)i * cols, old[i], cols);
}

uint32_t part_rows_show(const struct part *p, bool previous, const uint8_t *ids, uint32_t n, const uint64_t *since,
    float *out, uint32_t *place, uint64_t *version)
{
	uint32_t most = block_of(p, 1), k = 0;
	float *row[ROWS_BLOCK];

	*version = previous ? p->prev_version : p->version;
	for (uint32_t at = 0, m; at < n; at += m) {
		m = least(n - at, most);
		show_block(p, previous, ids + (size_t)at * 8, m, row, out + (size_t)at * p->table->cols);
		for (uint32_t i = 0; since && i < m; i++)
			if (may_differ(p, row[i], since[at + i], *version))
				place[k++] = at + i;
	}
	return k;
}
