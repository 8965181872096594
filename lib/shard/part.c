#include "base/mem.h"
#include "codec/codec.h"
#include "format/safetensors.h"
#include "kern/vec.h"
#include "shard/part.h"

static bool alloc_dense(struct part *p, const struct shard_config *cfg)
{
	const struct optim_rule *rule = cfg->rule;
	bool bsp = cfg->mode.kind == SYNC_bsp;

	p->w = mem_try_array(p->n, sizeof *p->w);
	p->state = mem_try_array((size_t)p->n * rule->nslots + 1, sizeof *p->state);
	p->acc = bsp ? mem_try_array(p->n, sizeof *p->acc) : NULL;
	p->prev = cfg->deterministic ? mem_try_array(p->n, sizeof *p->prev) : NULL;
	return p->w && p->state && (p->acc || !bsp) && (p->prev || !cfg->deterministic);
}

/* The k-th optimizer slot of n elements that follow one another. */
static void slot_pointers(float *state, size_t n, const struct optim_rule *rule, float *out[static OPTIM_MAX_SLOTS])
{
	for (unsigned k = 0; k < rule->nslots; k++)
		out[k] = state + k * n;
}

static void init_state(const struct shard_config *cfg, size_t n, float *state)
{
	float *slot[OPTIM_MAX_SLOTS];

	slot_pointers(state, n, cfg->rule, slot);
	for (unsigned k = 0; k < cfg->rule->nslots; k++)
		for (size_t i = 0; i < n; i++)
			slot[k][i] = cfg->rule->slot_init[k];
}

static enum err_code init_from_file(struct part *p, const char *path, struct err *e)
{
	const struct safetensors_tensor *t;
	struct safetensors *st;
	enum err_code rc = safetensors_open(path, &st, e);

	if (rc)
		return rc;
	t = safetensors_find(st, p->table->name);
	if (!t)
		rc = err_set(e, ERR_CONFIG, "job.init: \"%s\" has no tensor \"%s\"", path, p->table->name);
	else if (t->count != table_elements(p->table))
		rc = err_set(e, ERR_CONFIG, "job.init: tensor \"%s\" of \"%s\" has %llu elements, the model wants %llu",
		    p->table->name, path, (unsigned long long)t->count, (unsigned long long)table_elements(p->table));
	else
		rc = safetensors_read(st, t, table_part_begin(p->index), p->n, p->w, e);
	safetensors_close(st);
	return rc;
}

struct part *part_new(const struct shard_config *cfg, const struct table *t, uint32_t index, struct err *e)
{
	struct part *p = mem_alloc(sizeof *p);
	uint32_t stride = t->cols * (1 + cfg->rule->nslots);

	pthread_mutex_init(&p->lock, NULL);
	p->table = t;
	p->index = index;
	if (t->sparse) {
		p->rows = rows_new(stride);
		p->acc_rows = cfg->mode.kind == SYNC_bsp ? rows_new(t->cols) : NULL;
		p->prev_rows = cfg->deterministic ? rows_new(t->cols) : NULL;
		return p;
	}
	p->n = table_part_elements(t, index);
	if (!alloc_dense(p, cfg)) {
		err_set(e, ERR_NOMEM, "no memory for table \"%s\": partition %u of %u", t->name, index, t->nparts);
		part_free(p);
		return NULL;
	}
	if (t->init == TABLE_FILE) {
		if (init_from_file(p, cfg->init_file, e)) {
			part_free(p);
			return NULL;
		}
	} else {
		init_fill(t, table_part_begin(index), p->n, p->w);
	}
	init_state(cfg, p->n, p->state);
	return p;
}

void part_free(struct part *p)
{
	if (!p)
		return;
	pthread_mutex_destroy(&p->lock);
	free(p->w);
	free(p->state);
	free(p->acc);
	free(p->prev);
	free(p->last);
	rows_free(p->rows);
	rows_free(p->acc_rows);
	rows_free(p->prev_rows);
	free(p);
}

/* ---- the update --------------------------------------------------------- */

static struct optim_hyper hyper_at(const struct shard_config *cfg, uint64_t step)
{
	struct optim_hyper h = cfg->hyper;

	h.lr *= (float)schedule_factor(&cfg->schedule, step);
	return h;
}

static void update_dense(struct part *p, const struct shard_config *cfg, uint64_t step, const float *g, float scale)
{
	struct optim_hyper h = hyper_at(cfg, step);
	float *slot[OPTIM_MAX_SLOTS];

	slot_pointers(p->state, p->n, cfg->rule, slot);
	cfg->rule->step(&h, p->version + 1, p->table->decay, p->n, p->w, slot, g, scale);
}

static float *row_for_update(struct part *p, const struct shard_config *cfg, uint64_t id)
{
	uint32_t cols = p->table->cols;
	bool made;
	float *row = rows_put(p->rows, id, &made);

	if (row && made) {
		init_fill(p->table, init_row_place(p->table, id), cols, row);
		init_state(cfg, cols, row + cols);
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
	slot_pointers(row + cols, cols, cfg->rule, slot);
	cfg->rule->step(h, p->version + 1, p->table->decay, cols, row, slot, g, scale);
	return true;
}

static uint64_t id_at(const struct push *push, uint32_t i)
{
	uint64_t id;

	memcpy(&id, push->ids + (size_t)i * 8, sizeof id);
	return id;
}

/* ---- bsp ----------------------------------------------------------------- */

static bool accumulate_rows(struct part *p, const struct push *push, const struct codec *codec)
{
	uint32_t cols = p->table->cols;
	const float *g = codec->view(push->payload, (size_t)push->nrows * cols);
	bool made;

	for (uint32_t i = 0; i < push->nrows; i++) {
		float *acc = rows_put(p->acc_rows, id_at(push, i), &made);

		if (!acc)
			return false;
		vec_axpy(cols, (float)push->examples, g + (size_t)i * cols, acc);
	}
	return true;
}

bool part_accumulate(struct part *p, const struct shard_config *cfg, const struct push *push)
{
	const struct codec *codec = codec_by_id(push->codec);

	(void)cfg;
	if (p->table->sparse) {
		if (!accumulate_rows(p, push, codec))
			return false;
	} else {
		codec->add(push->payload, push->len, p->n, (float)push->examples, p->acc);
	}
	p->acc_examples += push->examples;
	p->contributions++;
	return true;
}

static bool close_rows(struct part *p, const struct shard_config *cfg, float scale)
{
	struct optim_hyper h = hyper_at(cfg, p->step);

	for (size_t i = 0; i < rows_count(p->acc_rows); i++) {
		uint64_t id;
		const float *g = rows_at(p->acc_rows, i, &id);

		if (!update_row(p, cfg, &h, id, g, scale))
			return false;
	}
	rows_clear(p->acc_rows);
	return true;
}

bool part_close(struct part *p, const struct shard_config *cfg, uint64_t examples)
{
	float scale = examples ? 1.0f / (float)examples : 0.0f;

	p->prev_same = !p->contributions;
	if (p->prev && p->contributions)
		memcpy(p->prev, p->w, p->n * sizeof *p->w);
	if (p->prev_rows)
		rows_clear(p->prev_rows);
	if (p->contributions) {
		if (p->table->sparse) {
			if (!close_rows(p, cfg, scale))
				return false;
		} else {
			update_dense(p, cfg, p->step, p->acc, scale);
			memset(p->acc, 0, p->n * sizeof *p->acc);
		}
		p->version++;
	}
	p->acc_examples = 0;
	p->contributions = 0;
	p->step++;
	return true;
}

/* ---- ssp, asp, and pushes from outside ----------------------------------- */

bool part_apply(struct part *p, const struct shard_config *cfg, const struct push *push)
{
	const struct codec *codec = codec_by_id(push->codec);
	uint32_t cols = p->table->cols;

	if (p->table->sparse) {
		const float *g = codec->view(push->payload, (size_t)push->nrows * cols);
		struct optim_hyper h = hyper_at(cfg, push->step);

		for (uint32_t i = 0; i < push->nrows; i++)
			if (!update_row(p, cfg, &h, id_at(push, i), g + (size_t)i * cols, 1.0f))
				return false;
	} else {
		update_dense(p, cfg, push->step, codec->view(push->payload, p->n), 1.0f);
	}
	p->version++;
	return true;
}
