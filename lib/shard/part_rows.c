#include "base/mem.h"
#include "codec/codec.h"
#include "codec/since.h"
#include "kern/vec.h"
#include "shard/hand.h"

/* A partition's rows, where its table is sparse. */

void part_rows_alloc(struct part *p, const struct shard_config *cfg)
{
	uint32_t cols = p->table->cols;

	uint32_t floats = cols * (1 + cfg->rule->nslots);
	bool deltas = cfg->deltas && !cfg->relay;

	p->rows = rows_new(cfg->relay ? hand_stride(cols) : floats + deltas);
	p->stamp_at = deltas ? floats : 0;
	p->prev_rows = cfg->deterministic ? rows_new(cols) : NULL;
	p->was = deltas ? mem_array(cols, sizeof *p->was) : NULL;
	p->known_since = p->version;
}

void part_rows_free(struct part *p)
{
	rows_free(p->rows);
	rows_free(p->acc_rows);
	rows_free(p->prev_rows);
	p->rows = p->acc_rows = p->prev_rows = NULL;
	free(p->was);
	p->was = NULL;
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

static void stamp_none(struct part *p)
{
	uint64_t id;

	for (size_t i = 0; i < rows_count(p->rows); i++)
		stamp(p, rows_at(p->rows, i, &id), 0);
	p->known_since = p->version;
}

/* The update that makes the next version has made the row of what is in p->was. */
static void note_change(struct part *p, float *row)
{
	if (memcmp(row, p->was, p->table->cols * sizeof *row) == 0)
		return;
	if (p->version + 1 - p->known_since > UINT32_MAX)
		stamp_none(p);
	stamp(p, row, (uint32_t)(p->version + 1 - p->known_since));
}

/* May it be another one than as of version `since`, when it is shown as of `version`? */
static bool may_differ(const struct part *p, const float *row, uint64_t since, uint64_t version)
{
	/* SINCE_NEVER is above every version. */
	return !p->stamp_at || since > version || since < p->known_since || (row && stamp_of(p, row) > since - p->known_since);
}

/* ---- updates ------------------------------------------------------------------------- */

static float *row_for_update(struct part *p, const struct shard_config *cfg, uint64_t id)
{
	uint32_t cols = p->table->cols;
	bool made;
	float *row = rows_put(p->rows, id, &made);

	if (row && made) {
		init_fill(p->table, init_row_place(p->table, id), cols, row);
		part_init_state(cfg, cols, row + cols);
	}
	return row;
}

static bool update_row(struct part *p, const struct shard_config *cfg, const struct optim_hyper *h, uint64_t id,
    const float *g, float scale)
{
	uint32_t cols = p->table->cols;
	float *row = row_for_update(p, cfg, id), *slot[OPTIM_MAX_SLOTS], *old;
	bool made;

	if (!row)
		return false;
	if (p->prev_rows) {
		old = rows_put(p->prev_rows, id, &made);
		if (!old)
			return false;
		if (made)
			memcpy(old, row, cols * sizeof *old);
	}
	part_slots(row + cols, cols, cfg->rule, slot);
	if (p->stamp_at)
		memcpy(p->was, row, cols * sizeof *row);
	cfg->rule->step(h, p->version + 1, p->table->decay, cols, row, slot, g, scale);
	if (p->stamp_at)
		note_change(p, row);
	return true;
}

bool part_rows_update(struct part *p, const struct shard_config *cfg, const struct optim_hyper *h, const uint8_t *ids,
    uint32_t n, const float *g, float scale)
{
	for (uint32_t i = 0; i < n; i++)
		if (!update_row(p, cfg, h, id_at(ids, i), g + (size_t)i * p->table->cols, scale))
			return false;
	return true;
}

bool part_rows_close(struct part *p, const struct shard_config *cfg, const struct optim_hyper *h, float scale)
{
	for (size_t i = 0; i < rows_count(p->acc_rows); i++) {
		uint64_t id;
		const float *g = rows_at(p->acc_rows, i, &id);

		if (!update_row(p, cfg, h, id, g, scale))
			return false;
	}
	return true;
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

bool part_rows_accumulate(struct part *p, const struct push *push)
{
	uint32_t cols = p->table->cols;
	float *room, *acc;
	const float *g = row_values(p, push, &room);
	bool good = g, made;

	for (uint32_t i = 0; good && i < push->nrows; i++) {
		acc = rows_put(p->acc_rows, id_at(push->ids, i), &made);
		if (acc)
			vec_axpy(cols, (float)push->examples, g + (size_t)i * cols, acc);
		good = acc;
	}
	free(room);
	return good;
}

bool part_rows_apply(struct part *p, const struct shard_config *cfg, const struct optim_hyper *h, const struct push *push)
{
	float *room;
	const float *g = row_values(p, push, &room);
	bool good = g && part_rows_update(p, cfg, h, push->ids, push->nrows, g, 1);

	free(room);
	return good;
}

/* ---- pulls --------------------------------------------------------------------------- */

uint32_t part_rows_show(const struct part *p, bool previous, const uint8_t *ids, uint32_t n, const uint64_t *since,
    float *out, uint32_t *place, uint64_t *version)
{
	uint32_t cols = p->table->cols, k = 0;

	*version = previous ? p->prev_version : p->version;
	for (uint32_t i = 0; i < n; i++, out += cols) {
		uint64_t id = id_at(ids, i);
		const float *row = rows_get(p->rows, id), *old = previous ? rows_get(p->prev_rows, id) : NULL;

		if (row)
			memcpy(out, old ? old : row, cols * sizeof *out);
		else
			init_fill(p->table, init_row_place(p->table, id), cols, out);
		if (since && may_differ(p, row, since[i], *version))
			place[k++] = i;
	}
	return k;
}
