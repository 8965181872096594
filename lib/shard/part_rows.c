#include "base/mem.h"
#include "codec/codec.h"
#include "kern/vec.h"
#include "shard/hand.h"

/* A partition's rows, where its table is sparse. */

void part_rows_alloc(struct part *p, const struct shard_config *cfg)
{
	uint32_t cols = p->table->cols;

	p->rows = rows_new(cfg->relay ? hand_stride(cols) : cols * (1 + cfg->rule->nslots));
	p->prev_rows = cfg->deterministic ? rows_new(cols) : NULL;
}

void part_rows_free(struct part *p)
{
	rows_free(p->rows);
	rows_free(p->acc_rows);
	rows_free(p->prev_rows);
	p->rows = p->acc_rows = p->prev_rows = NULL;
}

static uint64_t id_at(const uint8_t *ids, uint32_t i)
{
	uint64_t id;

	memcpy(&id, ids + (size_t)i * 8, sizeof id);
	return id;
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
	cfg->rule->step(h, p->version + 1, p->table->decay, cols, row, slot, g, scale);
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

void part_rows_show(const struct part *p, bool previous, const uint8_t *ids, uint32_t n, float *out)
{
	uint32_t cols = p->table->cols;

	for (uint32_t i = 0; i < n; i++, out += cols) {
		uint64_t id = id_at(ids, i);
		const float *row = previous ? rows_get(p->prev_rows, id) : NULL;

		if (!row)
			row = rows_get(p->rows, id);
		if (row)
			memcpy(out, row, cols * sizeof *out);
		else
			init_fill(p->table, init_row_place(p->table, id), cols, out);
	}
}
